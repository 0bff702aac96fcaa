"""Marian's files: YAML, archives of NumPy (.npz), its own binary format, and vocabularies."""

import math
import os
import re
import struct
import zipfile
from collections.abc import Mapping, Sequence
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np

from allyouneed.data.moses_bpe_tokenizer import MosesBpeTokenizer
from allyouneed.data.sentencepiece_tokenizer import SentencePieceTokenizer
from allyouneed.data.tokenizer import Tokenizer
from allyouneed.errors import ModelError, UsageError, UserError
from allyouneed.interop.foreign import Array, Order, Vocabularies, moses_bpe_of, sentencepiece_of
from allyouneed.interop.foreign_files import (
    MAX_SETTINGS_BYTES,
    MAX_VOCABULARY_BYTES,
    ByteReader,
    damaged,
    read_entries,
    require_members,
    whole_number,
)
from allyouneed.storage.publish import MAX_WEIGHT_BYTES, open_regular, read_published
from allyouneed.symbols import CONTROL_SYMBOLS, MAX_ENTRIES, PADDING, SENTINEL, START

DECODER_SETTINGS = "decoder.yml", "{model}.decoder.yml", "config.intgemm8bitalpha.yml"
"""Files beside a model that say how to translate with it."""
MAX_YAML_BYTES = 1 << 23
"""Size of a vocabulary in YAML, which takes longer to read than JSON."""
_MOST_EVENTS = 2 * MAX_ENTRIES
"""Beginnings, ends and scalars in a document; an entry of a vocabulary has two scalars."""


def read_yaml(path: Path, max_bytes: int = MAX_SETTINGS_BYTES) -> dict[str, Any]:
    """The mapping in a YAML file; see `parse_yaml`."""
    return parse_yaml(read_published(path, max_bytes), path, max_bytes)


def parse_yaml(content: bytes, path: Path, max_bytes: int = MAX_SETTINGS_BYTES) -> dict[str, Any]:
    """The mapping in a YAML document, all of texts; raises ModelError if it is too large or has aliases."""
    if len(content) > max_bytes:
        raise ModelError(f"{path}: has {len(content):,} bytes of settings, more than {max_bytes:,}")
    try:
        import yaml
    except ModuleNotFoundError:
        raise UsageError(
            "models of Marian need PyYAML and sentencepiece; install them with: "
            "pip install 'allyouneed[marian]'"
        ) from None
    loader = getattr(yaml, "CBaseLoader", yaml.BaseLoader)
    try:
        for number, event in enumerate(yaml.parse(content.decode(), loader)):
            if isinstance(event, yaml.AliasEvent):
                raise damaged(path, "has aliases, which can expand without limit")
            if number > _MOST_EVENTS:
                raise damaged(path, f"has more than {_MOST_EVENTS:,} entries")
        found = yaml.load(content.decode(), loader)  # a loader of texts, lists and mappings only
    except (yaml.YAMLError, UnicodeDecodeError, ValueError, RecursionError):
        raise damaged(path, "is no YAML") from None
    if not isinstance(found, dict):
        raise damaged(path, "is no YAML mapping")
    return found


CONFIG = "special:model.yml"
"""Name of the array that holds the configuration, a YAML document."""
_HEADERS = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
"""Version of numpy's format -> how the header of an array is read."""
_MOST_ARRAYS = 100_000
_FLOATS = np.float16, np.float32, np.float64


def read_archive(path: Path) -> dict[str, Array | bytes]:
    """The arrays of a file that have floats, and `CONFIG` as bytes; nothing is unpickled."""
    try:
        with open_regular(path, MAX_WEIGHT_BYTES) as file, zipfile.ZipFile(file) as archive:
            arrays = {
                member.filename.removesuffix(".npy"): _archived_array(BytesIO(archive.read(member)))
                for member in require_members(archive, path, _MOST_ARRAYS)
            }
    except (UserError, MemoryError):
        raise
    except Exception as error:  # zipfile, zlib, numpy's reader of headers: each has errors of its own
        raise damaged(path, f"is no valid .npz file ({type(error).__name__})") from None
    found: dict[str, Array | bytes] = {
        name: array for name, array in arrays.items() if name != CONFIG and array.dtype in _FLOATS
    }
    return {**found, CONFIG: arrays[CONFIG].tobytes()} if CONFIG in arrays else found


def write_archive(path: Path, arrays: Mapping[str, Array | bytes]) -> None:
    """Write arrays, and bytes as int8, to a file that `read_archive` reads."""
    contents: dict[str, Any] = {
        name: np.frombuffer(array, np.int8) if isinstance(array, bytes) else array
        for name, array in arrays.items()
    }
    np.savez(path, **contents)


def _archived_array(content: BytesIO) -> Array:
    """An array in this machine's order of bytes."""
    shape, is_fortran, dtype = _HEADERS[np.lib.format.read_magic(content)](content)
    array = np.frombuffer(content.getbuffer(), dtype, offset=content.tell())
    return np.require(
        array.reshape(shape, order="F" if is_fortran else "C"), dtype.newbyteorder("="), ["C", "ALIGNED"]
    )


VERSION = 1
INT8, FLOAT32, INTGEMM8 = 0x0101, 0x0404, 0x4101
"""Numbers of types in Bergamot's Marian."""
_INTEGERS = {0x10001: "<i1", 0x10002: "<i2", INTGEMM8: "<i1", 0x4102: "<i2"}
"""Marian's intgemm8 and intgemm16, and those of Bergamot and Firefox, which have other numbers."""
_EMBEDDINGS = "Wemb"
_MOST_ITEMS, _MOST_NAME, _MOST_DIMENSIONS = 100_000, 1_000, 8


def is_binary(path: Path) -> bool:
    """Whether a file begins as Marian's binary files do; raises ModelError if it is too large or none."""
    with open_regular(path, MAX_WEIGHT_BYTES) as file:
        return file.read(8) == struct.pack("<Q", VERSION)


def read_arrays(path: Path) -> tuple[dict[str, Array | bytes], bool]:
    """The arrays of a file, those of float32 and others as bytes, and whether some were rounded.

    Raises ModelError if the file is damaged, or its weights are packed for one kind of processor.
    """
    try:
        with open_regular(path, MAX_WEIGHT_BYTES) as file:
            return _read(path, ByteReader(file, os.fstat(file.fileno()).st_size))
    except (struct.error, UnicodeDecodeError, ValueError) as error:
        raise damaged(path, f"is damaged or no binary file of Marian ({error})") from None


def _read(path: Path, file: ByteReader) -> tuple[dict[str, Array | bytes], bool]:
    version, count = file.numbers("QQ")
    if version != VERSION or count > _MOST_ITEMS:
        raise ValueError(f"version {version}, {count:,} items")
    items = [file.numbers("QQQQ") for _ in range(count)]  # length of the name, type, dimensions, bytes
    if any(length > _MOST_NAME or rank > _MOST_DIMENSIONS for length, _, rank, _ in items):
        raise ValueError("the length of a name or a shape")
    names = [file.take(length).rstrip(b"\0").decode() for length, *_ in items]
    shapes = [file.numbers(f"{rank}i") for _, _, rank, _ in items]
    padding = file.number("Q")
    file.take(padding)
    if len(set(names)) < len(names):
        raise ValueError("a name occurs twice")
    arrays = {
        name: _array(path, name, kind, shape, file.take(num_bytes))
        for (_, kind, _, num_bytes), name, shape in zip(items, names, shapes, strict=True)
    }
    return arrays, any(kind in _INTEGERS for _, kind, _, _ in items)


def _array(path: Path, name: str, kind: int, shape: tuple[int, ...], data: bytes) -> Array | bytes:
    if name.startswith("special:"):
        return data
    if kind not in (FLOAT32, *_INTEGERS):
        raise ModelError(
            f"{path}: {name} is of type {kind:#x}, and only float32 ({FLOAT32:#x}) and intgemm's integers "
            "are supported; import the model that it was made from"
        )
    stored = np.dtype(_INTEGERS.get(kind, "<f4"))
    size = math.prod(shape)
    num_bytes = size * stored.itemsize + (4 if kind in _INTEGERS else 0)
    if min(shape, default=1) < 0 or num_bytes > len(data):
        raise ValueError(f"{name} has less data than its shape {shape}")
    values = np.frombuffer(data, stored, size)
    if kind == FLOAT32:
        return values.reshape(shape)
    [factor] = struct.unpack_from("<f", data, size * stored.itemsize)
    if not (math.isfinite(factor) and factor > 0) or len(shape) != 2:
        raise ValueError(f"{name} is no matrix with a factor")
    whole = values.reshape(shape) if _EMBEDDINGS in name else values.reshape(shape[::-1]).T
    return whole.astype(np.float32, order="C") / np.float32(factor)


_END, _UNKNOWN = "</s>", "<unk>"
_LISTS = *DECODER_SETTINGS, "{model}.yml"
"""Files that name the vocabularies of both sides."""
_YAML, _FACTORED = (".yml", ".yaml", ".json"), ".fsv"
"""Endings of vocabularies that are not plain text, besides `.spm`, as Marian tells them apart."""
_ENDINGS = ".yml", ".spm", ".vocab", ".txt"
"""Endings of the vocabularies that are found without such a list."""
_SIDES = {"source": ("srcvocab", "src.vocab"), "target": ("trgvocab", "trg.vocab")}
"""Side -> parts of the names of its vocabularies, as Firefox and OPUS-MT have them."""


def read_vocabularies(model: Path, *, is_shared: bool) -> tuple[Vocabularies, tuple[Path, Path]]:
    """Find and read the vocabularies of a model; also return their files.

    They are those that `decoder.yml` or Marian's files beside the model name, or the only ones in its folder.
    A `.yml` vocabulary needs `source.spm` and `target.spm` in the same folder, as OPUS-MT has them. If
    `is_shared`, both sides have one vocabulary, which may be found without such a list.
    """
    files = _named(model) or _pair(model) or (_only(model) if is_shared else None)
    if files is None:
        raise ModelError(
            f"{model}: its vocabularies are not found; put the .spm or .yml files of both sides beside it, "
            "and a decoder.yml that names them"
        )
    read = [_side(file, side) for file, side in zip(files, _SIDES, strict=True)]
    if is_shared and read[0][0].foreign != read[1][0].foreign:
        raise ModelError(
            f"{model}: has one matrix for both sides (tied-embeddings-all), but {files[0].name} and "
            f"{files[1].name} have other entries; take those of this model"
        )
    tokenizers = read[0][1], read[1][1]
    if type(tokenizers[0]) is not type(tokenizers[1]):
        raise ModelError(f"{model}: has merges (.bpe) for one side only; put those of the other beside it")
    kind = "bpe" if isinstance(tokenizers[0], MosesBpeTokenizer) else "sentencepiece"
    return Vocabularies((read[0][0], read[1][0]), tokenizers, kind), files


def _named(model: Path) -> tuple[Path, Path] | None:
    """The vocabularies that a file beside the model names; only files in the same folder are taken."""
    missing: list[str] = []
    for pattern in _LISTS:
        path = model.parent / pattern.format(model=model.name)
        if not path.exists():
            continue
        names = read_yaml(path).get("vocabs")
        if isinstance(names, list) and len(names) == len(_SIDES):
            files = [model.parent / Path(str(name)).name for name in names]
            absent = [file.name for file in files if not file.exists()]
            if not absent:
                return files[0], files[1]
            missing += [
                f"{path}: names the vocabulary {name}, which is not beside it; put it there"
                for name in dict.fromkeys(absent)
            ]
    if missing:
        raise ModelError(missing)
    return None


def _pair(model: Path) -> tuple[Path, Path] | None:
    for ending in _ENDINGS:
        sides = [
            [each for each in _vocabularies(model, ending) if _is_of(each, names)]
            for names in _SIDES.values()
        ]
        if all(len(found) == 1 for found in sides):
            return sides[0][0], sides[1][0]
    pair = model.parent / "source.spm", model.parent / "target.spm"
    has_others = any(_vocabularies(model, ending) for ending in _ENDINGS)
    return pair if not has_others and all(path.exists() for path in pair) else None


def _only(model: Path) -> tuple[Path, Path] | None:
    for ending in _ENDINGS:
        found = _vocabularies(model, ending)
        if len(found) == 1 and not any(_is_of(found[0], names) for names in _SIDES.values()):
            return found[0], found[0]
    return None


def _vocabularies(model: Path, ending: str) -> list[Path]:
    return sorted(each for each in model.parent.glob(f"*{ending}") if "vocab" in each.name)


def _is_of(vocabulary: Path, names: tuple[str, ...]) -> bool:
    return any(name in vocabulary.name for name in names)


def _side(path: Path, side: str) -> tuple[Order, Tokenizer]:
    if path.suffix == _FACTORED:
        raise ModelError(f"{path}: is a vocabulary of factors, which is not supported")
    names: Sequence[str]
    if path.suffix == ".spm":
        model = path
        try:
            names = SentencePieceTokenizer.entries_of(read_published(path, MAX_VOCABULARY_BYTES))
        except ValueError as error:
            raise damaged(path, f"cannot be read: {error}") from None
    else:
        names, model = _entries(path), path.parent / f"{side}.spm"
        if not model.exists():
            model = path.parent / f"{side}.bpe"
        if not model.exists():
            raise ModelError(
                f"{path}: needs {side}.spm beside it, the SentencePiece model of that side, or the merges "
                f"{side}.bpe"
            )
    for special in (_END, _UNKNOWN):
        if special not in names:
            raise damaged(path, f"has no entry {special}")
    places = {name: number for number, name in reversed([*enumerate(names)])}
    padding, start, sentinel = (places.get(CONTROL_SYMBOLS[token]) for token in (PADDING, START, SENTINEL))
    order = Order.of(
        names,
        end=places[_END],
        unknown=places[_UNKNOWN],
        padding=padding,
        start=start,
        sentinel=sentinel,
    )
    if model.suffix == ".bpe":
        return order, _merges(model, side, order.pieces)
    tokenizer = sentencepiece_of(model, order.pieces)
    if {PADDING, START} & {*tokenizer.encode(f"{CONTROL_SYMBOLS[PADDING]} {CONTROL_SYMBOLS[START]}")}:
        raise ModelError(f"{model}: makes symbols of <pad> or <s> in a text, which is not supported")
    return order, tokenizer


_SCRIPTS = {"source": "preprocess.sh", "target": "postprocess.sh"}
"""Side -> script of OPUS-MT that calls Moses."""
_STEPS = {
    "control_characters": r"remove-non-printing-char",
    "hyphens": r"/tokenizer\.perl\b[^|\n]*\s-a\b",
    "unicode_punctuation": r"replace-unicode-punctuation",
}
"""Step of a tokeniser -> what a script has that does it."""


def _merges(path: Path, side: str, pieces: Sequence[str]) -> MosesBpeTokenizer:
    """The tokeniser of a file of merges, with Moses' steps of the script beside it, if there is one."""
    script = path.parent / _SCRIPTS[side]
    text = read_published(script, MAX_YAML_BYTES).decode(errors="replace") if script.exists() else ""
    text = re.sub(r"^\s*#.*", "", text.replace("\\\n", " "), flags=re.MULTILINE)
    language = re.search(r"tokenizer\.perl\b[^|\n]*\s-l\s*['\"]?([a-z]{2,3})\b", text)
    steps = [step for step, sign in _STEPS.items() if side == "source" and re.search(sign, text)]
    return moses_bpe_of(path, pieces, language[1] if language else "", steps)


def _entries(path: Path) -> Sequence[str]:
    """The entries of a vocabulary in the order of their ids, which are the lines if it is plain text.

    Marian leaves out a line that occurs again.
    """
    if path.suffix not in _YAML:
        return [*dict.fromkeys(read_entries(path))]
    ids = read_yaml(path, MAX_YAML_BYTES)
    places = {name: number for name, place in ids.items() if (number := whole_number(place)) is not None}
    if len(places) < len(ids):
        raise damaged(path, "its ids are no numbers")
    if sorted(places.values()) != [*range(len(places))]:
        raise damaged(path, "its ids are not those from 0 on")
    return sorted(places, key=places.__getitem__)
