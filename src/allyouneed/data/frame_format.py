"""Reads sources that are frames: arrays in `.npy` files, or log-mel frames of speech in `.wav` files."""

import json
import math
import tempfile
import warnings
import wave
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from allyouneed.data.vectors import Vectors
from allyouneed.data.vocabulary_file import read_json, require_size
from allyouneed.errors import DataError, ModelError, UsageError
from allyouneed.storage.publish import write_text

SAMPLE_RATE = 16_000
"""Samples per second of the speech that is read."""
MEL_BINS = 80
"""Number of features of a frame of speech; there are 100 frames a second."""
_MOST_NUMBERS = 1 << 26
"""Maximum number of features of all frames of a source: 256 MiB in memory."""
_LONGEST_HEADER_BYTES = 10_000
_FORMAT, _FORMAT_VERSION = "allyouneed frames", 1
_LEAST_DEVIATION = 1e-6
"""Deviation of a feature, absolute and as a share of its mean, below which it counts as constant."""
_SAMPLED_FILES = 512
"""Maximum number of files whose features are averaged."""


@dataclass(frozen=True)
class FrameFormat:
    """The frames that a model reads; it stands where other models have the vocabulary of their sources."""

    means: tuple[float, ...]
    """Mean of each feature in training."""
    deviations: tuple[float, ...]
    """Standard deviation of each feature in training; infinite for one that is constant, which becomes 0."""

    @classmethod
    def learn(cls, files: Sequence[str]) -> Self:
        """The format of the frames of files, with the means and deviations of at most 512 of them."""
        count, total, squares = 0, np.zeros(1), np.zeros(1)
        for file in files[:: -(-len(files) // _SAMPLED_FILES)]:
            found = _whole(file, len(total) if count else None)
            with np.errstate(over="ignore"):
                count, total = count + len(found), total + found.sum(axis=0)
                squares = squares + np.square(found).sum(axis=0)
            if not np.isfinite(squares).all():
                raise DataError(f"{file}: holds numbers that are too large; correct it")
        means = total / count
        deviations = np.sqrt(np.maximum(squares / count - means**2, 0))
        deviations[deviations <= _LEAST_DEVIATION * np.abs(means) + _LEAST_DEVIATION] = np.inf
        return cls(tuple(means.tolist()), tuple(deviations.tolist()))

    @property
    def vocab_size(self) -> int:
        """Number of features of a frame."""
        return len(self.means)

    def encode(self, source: str | Path | NDArray[Any]) -> Vectors:
        """The frames of a file or an array (frames, features), scaled as in training.

        Raises:
            DataError: They are not readable, not finite, none, too many, or of another number of features.
            UsageError: The package that computes frames of speech is not installed.
        """
        frames = (_whole(source, self.vocab_size) - self.means) / self.deviations
        with np.errstate(over="ignore"):
            scaled = frames.astype(np.float32)
        if not np.isfinite(scaled).all():
            raise DataError(f"{_name(source)}: holds numbers that are too large; correct it")
        return Vectors(scaled)

    def encode_batch(self, texts: Sequence[str]) -> list[Vectors]:
        """The frames of each file, given its path; see `encode`."""
        return [self.encode(text) for text in texts]

    def save(self, path: Path) -> None:
        """Write one JSON file."""
        deviations = [each if math.isfinite(each) else None for each in self.deviations]
        content = {"format": _FORMAT, "format_version": _FORMAT_VERSION}
        write_text(path, json.dumps({**content, "means": self.means, "deviations": deviations}, indent=1))

    @classmethod
    def load(cls, path: Path, vocab_size: int | None = None) -> Self:
        """Read a file written by `save`; raises ModelError if it is damaged or has other features."""
        found = read_json(path, "description of frames")
        try:
            is_known = (found["format"], found["format_version"]) == (_FORMAT, _FORMAT_VERSION)
            means = tuple(map(float, found["means"]))
            deviations = tuple(math.inf if each is None else float(each) for each in found["deviations"])
            is_sound = means and len(means) == len(deviations) and min(deviations) > 0
        except (KeyError, TypeError, ValueError):
            is_known = is_sound = False
        if not (is_known and is_sound and all(map(math.isfinite, means))):
            raise ModelError(f"{path}: describes no frames that this version reads; prepare the data again")
        require_size(path, len(means), vocab_size)
        return cls(means, deviations)


def _name(source: str | Path | NDArray[Any]) -> str:
    return str(source) if isinstance(source, str | Path) else "the array"


def _whole(source: str | Path | NDArray[Any], num_features: int | None = None) -> NDArray[np.float64]:
    """The frames of a source in memory, all finite."""
    name = _name(source)
    frames = require_frames(name, read_frames(Path(source)) if isinstance(source, str | Path) else source)
    if num_features not in (None, frames.shape[1]):
        raise DataError(f"{name}: has {frames.shape[1]} features a frame, {num_features} are expected")
    exact = frames.astype(np.float64)
    if not np.isfinite(exact).all():
        raise DataError(f"{name}: holds numbers that are not finite; correct it")
    return exact


def read_frames(path: Path) -> NDArray[Any]:
    """The frames of a file, read by the ending of its name; raises DataError if there are none."""
    read = _READERS.get(path.suffix.lower())
    if read is None:
        raise DataError(f"{path}: the name ends in none of {', '.join(_READERS)}; give such a file")
    try:
        if not path.is_file():
            raise DataError(f"{path}: {'is no file' if path.exists() else 'no such file'}; check the path")
        return read(path)
    except OSError as error:
        raise DataError(f"{path}: {error.strerror or error}") from None


def frames_in(content: bytes, ending: str) -> NDArray[Any]:
    """The frames of a file's content, given the ending of its name; raises DataError as `read_frames`."""
    with tempfile.NamedTemporaryFile(suffix=ending) as file:
        file.write(content)
        file.flush()
        try:
            return np.array(require_frames("the file", read_frames(Path(file.name))))
        except DataError as error:
            raise DataError(error.messages[0].replace(file.name, "the file")) from None


def require_frames(name: str, frames: NDArray[Any]) -> NDArray[Any]:
    """The same array; raises DataError if it is none of (frames, features), or too large."""
    shape = f"{name}: is an array of {frames.dtype} {frames.shape}"
    if frames.ndim != 2 or frames.dtype.kind not in "fiu":
        raise DataError(f"{shape}; give numbers (frames, features)")
    if not frames.size:
        raise DataError(f"{shape}: it holds nothing; leave it out")
    if math.prod(frames.shape) > _MOST_NUMBERS:
        raise DataError(f"{shape}: more than {_MOST_NUMBERS:,} numbers; divide it")
    return frames


def _read_array(path: Path) -> NDArray[Any]:
    """The array of a `.npy` file, mapped into memory, as its size is not known; never a pickle."""
    with path.open("rb") as file:
        magic = file.read(12)
    length = int.from_bytes(magic[8 : 10 if magic[6:7] == b"\1" else 12], "little")
    if magic[:6] != b"\x93NUMPY" or length > _LONGEST_HEADER_BYTES:
        raise DataError(f"{path}: is no array that NumPy has saved; give a .npy file")
    try:
        with warnings.catch_warnings(action="ignore"):
            return np.asarray(np.lib.format.open_memmap(path, mode="r"))
    except OSError:
        raise
    except Exception as error:  # NumPy evaluates the header, and a damaged one raises nearly anything
        reason = str(error).split("\n")[0] or type(error).__name__
        raise DataError(
            f"{path}: holds no usable array ({reason[:150]}); save numbers with numpy.save"
        ) from None


def _read_speech(path: Path) -> NDArray[Any]:
    """Log-mel frames of a `.wav` file: 25 ms long, one every 10 ms."""
    try:
        with path.open("rb") as stream, wave.Wave_read(stream) as file:
            form = file.getnchannels(), 8 * file.getsampwidth(), file.getframerate()
            wanted = file.getnframes()
            if form != (1, 16, SAMPLE_RATE):
                raise DataError(
                    f"{path}: has {form[0]} channels of {form[1]} bits at {form[2]:,} Hz; convert it to one "
                    f"of 16 bits at {SAMPLE_RATE:,} Hz"
                )
            content = file.readframes(min(wanted, _MOST_NUMBERS))
    except (wave.Error, EOFError, RuntimeError) as error:
        raise DataError(f"{path}: is no WAV file of 16-bit samples ({error or 'it is cut off'})") from None
    if len(content) < 2 * min(wanted, _MOST_NUMBERS):  # a header may claim anything
        raise DataError(f"{path}: is cut off: {len(content) // 2:,} of {wanted:,} samples are there")
    if wanted > _MOST_NUMBERS:
        raise DataError(f"{path}: has {wanted:,} samples, at most {_MOST_NUMBERS:,} are read; divide it")
    return _log_mel(np.frombuffer(content, "<i2").astype(np.float32))


def _log_mel(samples: NDArray[np.float32]) -> NDArray[np.float32]:
    try:
        import kaldi_native_fbank
    except ImportError:
        raise UsageError(
            "frames of speech need kaldi-native-fbank; pip install 'allyouneed[speech]'", settings=["frames"]
        ) from None
    options = kaldi_native_fbank.FbankOptions()
    options.frame_opts.samp_freq, options.frame_opts.dither = SAMPLE_RATE, 0.0
    options.frame_opts.snip_edges = False
    options.mel_opts.num_bins = MEL_BINS
    bank = kaldi_native_fbank.OnlineFbank(options)
    bank.accept_waveform(SAMPLE_RATE, samples)
    bank.input_finished()
    frames = [bank.get_frame(number) for number in range(bank.num_frames_ready)]
    return np.array(frames, np.float32).reshape(-1, MEL_BINS)


_READERS: dict[str, Callable[[Path], NDArray[Any]]] = {".npy": _read_array, ".wav": _read_speech}
"""Ending of a file's name -> function that reads its frames."""
