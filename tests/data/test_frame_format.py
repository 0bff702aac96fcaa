"""Frames are read and scaled; hostile arrays and speech end in one line."""

import pickle
import struct
import wave
from pathlib import Path

import numpy as np
import pytest

from allyouneed.data.frame_format import MEL_BINS, SAMPLE_RATE, FrameFormat, read_frames
from allyouneed.errors import DataError, ModelError

THREE = FrameFormat((0.0,) * 3, (1.0,) * 3)


def header(text: str, version: bytes = b"\x01\x00") -> bytes:
    form = "<H" if version[0] == 1 else "<I"
    return b"\x93NUMPY" + version + struct.pack(form, len(text)) + text.encode()


def sound(path: Path, samples: "np.ndarray[tuple[int], np.dtype[np.int16]]", rate: int = SAMPLE_RATE) -> Path:
    with wave.open(str(path), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(rate)
        file.writeframes(samples.tobytes())
    return path


def test_features_have_mean_0_and_deviation_1_over_training_and_constant_ones_are_0(tmp_path: Path) -> None:
    values = np.array([[1, 5, 2], [3, 5, -2]], np.int16)
    np.save(tmp_path / "a.npy", np.asfortranarray(values[:1]))
    np.save(tmp_path / "b.npy", values[1:].astype(np.float16))
    learned = FrameFormat.learn([str(tmp_path / "a.npy"), str(tmp_path / "b.npy")])
    assert learned == FrameFormat((2, 5, 0), (1, np.inf, 2))
    expected = [[-1, 0, 1], [1, 0, -1]]
    found = learned.encode(values)
    np.testing.assert_array_equal(found.values, expected)
    assert found.values.dtype == np.float32
    assert [*found] == [0, 1]
    np.testing.assert_array_equal(learned.encode(tmp_path / "b.npy").values, expected[1:])
    learned.save(tmp_path / "frames.json")
    assert FrameFormat.load(tmp_path / "frames.json", 3) == learned


def test_training_files_of_other_features_or_without_numbers_are_refused(tmp_path: Path) -> None:
    for name, array in {"a": np.zeros((2, 3)), "b": np.zeros((2, 4)), "c": np.full((1, 3), np.nan)}.items():
        np.save(tmp_path / f"{name}.npy", array)
    for other, message in {"b": "has 4 features a frame, 3 are expected", "c": "not finite"}.items():
        with pytest.raises(DataError, match=message):
            FrameFormat.learn([str(tmp_path / "a.npy"), str(tmp_path / f"{other}.npy")])


BAD_ARRAYS = {
    "pickle": (pickle.dumps([1, 2]), "is no array that NumPy has saved"),
    "objects": (header("{'descr': '|O', 'fortran_order': False, 'shape': (1, 3), }"), "no usable array"),
    "no memory": (
        header("{'descr': '<f4', 'fortran_order': False, 'shape': (1000000000, 80), }"),
        "no usable array",
    ),
    "beyond all integers": (
        header(f"{{'descr': '<f4', 'fortran_order': False, 'shape': ({10**30}, 3), }}"),
        "no usable array",
    ),
    "negative": (header("{'descr': '<f4', 'fortran_order': False, 'shape': (-4, 3), }"), "no usable array"),
    "code": (header("__import__('os').system('true')"), "no usable array"),
    "huge header": (b"\x93NUMPY\x02\x00" + struct.pack("<I", 2**32 - 1), "is no array that NumPy has saved"),
    "cut off": (header("{'descr': '<f4'")[:-3], "no usable array"),
    "empty file": (b"", "is no array that NumPy has saved"),
    "nested": (header("(" * 9_000), "no usable array"),
    "open bracket": (
        header("{'descr': '<f4', 'fortran_order': False, 'shape': (1L, 3), "),
        "no usable array",
    ),
    "zip": (b"PK\x03\x04" + bytes(30), "is no array that NumPy has saved"),
}


@pytest.mark.parametrize("name", BAD_ARRAYS)
def test_hostile_files_end_in_one_line(tmp_path: Path, name: str) -> None:
    content, message = BAD_ARRAYS[name]
    path = tmp_path / "bad.npy"
    path.write_bytes(content)
    with pytest.raises(DataError) as caught:
        THREE.encode(path)
    [line] = caught.value.messages
    assert line.startswith(f"{path}: ")
    assert message in line
    assert "\n" not in line


@pytest.mark.parametrize("ending", [".npy", ".wav"])
def test_files_with_any_bytes_of_their_headers_changed_are_read_or_end_in_one_line(
    tmp_path: Path, ending: str
) -> None:
    good, chance = tmp_path / f"good{ending}", np.random.default_rng(1)
    if ending == ".npy":
        np.save(good, np.zeros((2, 3)))
    else:
        sound(good, np.zeros(50, np.int16), 8_000)  # refused when all else is sound: no speech is computed
    path, refusals = tmp_path / f"bad{ending}", list[str]()
    for _ in range(400):
        content = np.frombuffer(good.read_bytes(), np.uint8).copy()
        places = chance.integers(0, min(128, len(content) - 1), chance.integers(1, 4))
        content[places] = chance.choice(np.frombuffer(b"\0\x01\xff(){}[]',:'\\#0 \n", np.uint8), len(places))
        path.write_bytes(content.tobytes())
        try:
            read_frames(path)
        except DataError as error:
            refusals.append(str(error))
    assert len(refusals) > 100
    assert all(each.startswith(f"{path}: ") and "\n" not in each for each in refusals)


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (np.full((2, 3), np.nan), "not finite"),
        (np.array([[1, 2, np.inf]]), "not finite"),
        (np.full((2, 3), 1e300) * [[1], [-1]], "too large"),
        (np.zeros((0, 3)), "holds nothing"),
        (np.zeros(3), r"give numbers \(frames, features\)"),
        (np.zeros((2, 3, 1)), r"give numbers \(frames, features\)"),
        (np.array([["a", "b", "c"]]), r"give numbers \(frames, features\)"),
        (np.zeros((2, 3), np.complex64), r"give numbers \(frames, features\)"),
        (np.zeros((2, 4)), "4 features a frame, 3 are expected"),
        (np.broadcast_to(np.float32(0), (10**9, 3)), "divide it"),
    ],
)
def test_arrays_that_are_no_frames_are_refused(
    array: "np.ndarray[tuple[int, ...], np.dtype[np.float64]]", message: str
) -> None:
    with pytest.raises(DataError, match=message):
        THREE.encode(array)


def test_a_billion_frames_in_a_file_are_refused_before_they_are_read(tmp_path: Path) -> None:
    path, shape = tmp_path / "sparse.npy", (10**9, 3)
    start = header(f"{{'descr': '|u1', 'fortran_order': False, 'shape': {shape}, }}")
    with path.open("wb") as file:
        file.write(start)
        file.truncate(len(start) + 3 * 10**9)  # takes no place on the disk
    with pytest.raises(DataError, match="more than 67,108,864 numbers; divide it"):
        THREE.encode(path)


def test_paths_that_are_no_files_of_frames_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a.npy").mkdir()
    for name, message in {
        "a.npy": "is no file",
        "none.npy": "no such file",
        "a.txt": "ends in none of .npy, .wav",
        "x" * 300 + ".npy": "name too long",
        "a\0.npy": "no such file",
    }.items():
        with pytest.raises(DataError, match=f"(?i){message}"):
            THREE.encode(tmp_path / name)


def test_speech_has_a_hundred_frames_a_second_whose_loudest_mel_is_that_of_the_tone(tmp_path: Path) -> None:
    pytest.importorskip("kaldi_native_fbank")
    time = np.arange(SAMPLE_RATE) / SAMPLE_RATE
    chirp = np.where(time < 0.5, np.sin(2 * np.pi * 300 * time), np.sin(2 * np.pi * 3000 * time))
    path = sound(tmp_path / "a.wav", (8_000 * chirp).astype(np.int16))
    speech = FrameFormat.learn([str(path)])
    frames = speech.encode(path).values
    assert frames.shape == (100, MEL_BINS)

    def mel(hertz: float) -> float:
        return float(1127 * np.log(1 + hertz / 700))

    places = [(mel(hz) - mel(20)) / (mel(8_000) - mel(20)) * (MEL_BINS + 1) - 1 for hz in (300, 3000)]
    assert abs(frames[10:40].mean(0).argmax() - places[0]) <= 2
    assert abs(frames[60:90].mean(0).argmax() - places[1]) <= 2


def test_speech_of_another_form_or_cut_off_is_refused(tmp_path: Path) -> None:
    samples = np.zeros(4_000, np.int16)
    wrong = sound(tmp_path / "wrong.wav", samples, 44_100)
    good = sound(tmp_path / "good.wav", samples).read_bytes()
    (tmp_path / "cut.wav").write_bytes(good[:-1_000])
    (tmp_path / "head.wav").write_bytes(good[:20])
    (tmp_path / "long.wav").write_bytes(good[:40] + struct.pack("<I", 2**32 - 2) + good[44:])
    (tmp_path / "text.wav").write_bytes(b"no sound at all, but some text")
    sound(tmp_path / "silent.wav", samples[:0])
    for name, message in {
        wrong.name: "16 bits at 44,100 Hz; convert it to one of 16 bits at 16,000 Hz",
        "cut.wav": "is cut off: 3,500 of 4,000 samples",
        "head.wav": "is no WAV file",
        "long.wav": "is cut off|is no WAV file",
        "text.wav": "is no WAV file",
        "silent.wav": "holds nothing",
    }.items():
        with pytest.raises(DataError, match=message):
            FrameFormat((0.0,) * MEL_BINS, (1.0,) * MEL_BINS).encode(tmp_path / name)


def test_speech_that_is_too_long_is_refused_and_not_cut(tmp_path: Path) -> None:
    path, num = tmp_path / "long.wav", (1 << 26) + 1
    start = sound(path, np.zeros(0, np.int16)).read_bytes()
    with path.open("wb") as file:
        file.write(b"RIFF" + struct.pack("<I", 36 + 2 * num) + start[8:40] + struct.pack("<I", 2 * num))
        file.truncate(44 + 2 * num)  # takes no place on the disk
    with pytest.raises(DataError, match="has 67,108,865 samples, at most 67,108,864 are read; divide it"):
        read_frames(path)


def test_at_most_512_files_are_sampled_evenly(tmp_path: Path) -> None:
    files = [str(tmp_path / f"{number}.npy") for number in range(700)]
    for number, file in enumerate(files[::2]):
        np.save(file, np.full((1, 1), number % 2))
    assert FrameFormat.learn(files) == FrameFormat((0.5,), (0.5,))  # the other files are not there


def test_training_files_whose_squares_overflow_are_refused(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.ones((2, 3)))
    np.save(tmp_path / "b.npy", np.full((2, 3), 1e200))
    with pytest.raises(DataError, match=r"b\.npy: holds numbers that are too large"):
        FrameFormat.learn([str(tmp_path / "a.npy"), str(tmp_path / "b.npy")])


def test_the_format_is_saved_and_a_damaged_one_refused(tmp_path: Path) -> None:
    path = tmp_path / "frames.json"
    THREE.save(path)
    assert FrameFormat.load(path, 3) == THREE
    with pytest.raises(ModelError, match="has 3 entries, but the model was made for 4"):
        FrameFormat.load(path, 4)
    good = path.read_bytes()
    for content in (b"[]", b"{}", good.replace(b"1.0", b"-1.0"), good.replace(b"0.0", b"NaN"), good[:9]):
        path.write_bytes(content)
        with pytest.raises(ModelError):
            FrameFormat.load(path)
