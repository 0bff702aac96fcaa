"""The files in a folder of CTranslate2: its binary variables, vocabularies and tokenisers."""

import math
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from allyouneed.data.sentencepiece_tokenizer import SentencePieceTokenizer
from allyouneed.data.tokenizer import Tokenizer
from allyouneed.errors import ModelError
from allyouneed.interop.foreign import (
    BFLOAT16,
    Array,
    Order,
    Vocabularies,
    as_float32,
    moses_bpe_of,
    sentencepiece_of,
)
from allyouneed.interop.foreign_files import (
    MAX_VOCABULARY_BYTES,
    ByteReader,
    damaged,
    json_value,
    read_entries,
)
from allyouneed.interop.multilingual import PIECES
from allyouneed.storage.publish import MAX_WEIGHT_BYTES, open_regular
from allyouneed.symbols import CONTROL_SYMBOLS
from allyouneed.tasks.task import SOURCE_TOKENIZER, TARGET_TOKENIZER

LAYER = {
    "self_attention.query_key_value": ["self_attention/linear_0"],
    "self_attention.output": ["self_attention/linear_1"],
    "after_self_attention.norm": ["self_attention"],
    "cross_attention.query": ["attention/linear_0"],
    "cross_attention.key_value": ["attention/linear_1"],
    "cross_attention.output": ["attention/linear_2"],
    "after_cross_attention.norm": ["attention"],
    "feed_forward.inner": ["ffn/linear_0"],
    "feed_forward.outer": ["ffn/linear_1"],
    "after_feed_forward.norm": ["ffn"],
}
"""Our part of a layer -> CTranslate2's."""
_VERSION = 6
"""The binary version of CTranslate2 3 and 4, and of some before them."""
_DTYPES = {**dict(enumerate(map(np.dtype, ("<f4", "<i1", "<i2", "<i4", "<f2")))), 5: BFLOAT16}
"""Id of a type -> NumPy's."""
_MOST_VARIABLES = 100_000
_MOST_DIMENSIONS = 8


def _text(file: ByteReader) -> str:
    """A text that its length precedes and a zero byte ends."""
    content = file.take(file.number("H"))
    if not content.endswith(b"\0") or not content.isascii():
        raise ValueError("a name is no text")
    return content[:-1].decode()


def read_variables(path: Path) -> tuple[dict[str, Array], bool]:
    """The variables of a model of class TransformerSpec, and whether some were integers, now floats again."""
    try:
        with open_regular(path, MAX_WEIGHT_BYTES) as opened:
            return _read(path, ByteReader(opened, os.fstat(opened.fileno()).st_size))
    except ValueError as error:
        raise damaged(path, f"is damaged or no model of CTranslate2 ({error})") from None


def _read(path: Path, file: ByteReader) -> tuple[dict[str, Array], bool]:
    version = file.number("I")
    if not 0 < version <= _VERSION:
        raise ValueError(f"its version is {version}, {_VERSION} expected")
    # CTranslate2 writes `config.json` only since its version 3.
    if version < _VERSION or not (path.parent / "config.json").exists():
        sign = (
            "has no config.json beside it" if version == _VERSION else f"has version {version} of the format"
        )
        raise ModelError(f"{path}: {sign}, like models of CTranslate2 before 3; convert the original again")
    if (name := _text(file)) != "TransformerSpec":
        raise ModelError(f"{path}: is a {name}; only TransformerSpec is supported")
    file.number("I")  # the revision adds variables, which are checked one by one
    variables: dict[str, Array] = {}
    for _ in range(_count(file)):
        name = _text(file)
        if name in variables:
            raise ValueError(f"{name} occurs twice")
        variables[name] = _variable(file, name)
    found = _dequantised(variables)
    is_quantised = len(found) < len(variables)
    for _ in range(_count(file)):
        alias, name = _text(file), _text(file)
        if alias in variables or alias in found or name not in variables:
            raise ValueError(f"{alias} stands for {name}, which is not there")
        if name in found:  # else it is the scale of integers, which are floats now
            found[alias] = found[name]
    if file.left:
        raise ValueError("it goes on after its end")
    return found, is_quantised


def _count(file: ByteReader) -> int:
    if (count := file.number("I")) > _MOST_VARIABLES:
        raise ValueError(f"it claims {count:,} variables")
    return count


def _variable(file: ByteReader, name: str) -> Array:
    if (rank := file.number("B")) > _MOST_DIMENSIONS:
        raise ValueError(f"{name} has {rank} dimensions")
    shape = [file.number("I") for _ in range(rank)]
    kind, content = file.number("B"), file.take(file.number("I"))
    if kind not in _DTYPES:
        raise ValueError(f"{name} is of the unknown type {kind}")
    values, size = _DTYPES[kind], math.prod(shape)
    if not size:
        raise ValueError(f"{name} is empty")
    if size * values.itemsize != len(content):
        raise ValueError(f"{name} has another size than its shape {tuple(shape)}")
    return np.frombuffer(content, values).reshape(shape)


def _dequantised(variables: dict[str, Array]) -> dict[str, Array]:
    scales = {f"{name}_scale" for name in variables}
    found = {name: array for name, array in variables.items() if name not in scales}
    for name, array in found.items():
        if (scale := variables.get(f"{name}_scale")) is not None:
            if scale.ndim and (array.ndim != 2 or scale.shape != array.shape[:1]):
                raise ValueError(f"{name}_scale does not fit its weight")
            with np.errstate(all="ignore"):  # what is not finite is noticed when it is taken
                found[name] = as_float32(array) / as_float32(scale[:, None] if scale.ndim else scale)
    return found


_SENTENCEPIECE = ("source.spm", "target.spm"), ("sentencepiece.model", "sentencepiece.model")
_BPE = ("source.bpe", "target.bpe"), ("bpe.model", "bpe.model")
TOKENIZERS = (
    *(SOURCE_TOKENIZER, TARGET_TOKENIZER, "source.spm", "target.spm", PIECES, "tokenizer.json"),
    *("source.bpe", "target.bpe", "bpe.model"),
)
"""Files of tokenisers that a folder may have."""


def vocabulary_of(path: Path, side: str) -> list[str]:
    """The entries of a side, "source" or "target", in the order of CTranslate2's ids."""
    for name in (f"{side}_vocabulary", "shared_vocabulary"):
        if (file := path / f"{name}.json").exists():
            found = json_value(file, MAX_VOCABULARY_BYTES)
            if not isinstance(found, list) or not all(isinstance(each, str) for each in found):
                raise damaged(file, "is no list of texts")
            return found
        if (file := path / f"{name}.txt").exists():
            return read_entries(file)
    raise damaged(path, f"has no {side}_vocabulary.json and no shared_vocabulary.json")


def tokenizers_of(
    path: Path, orders: tuple[Order, Order], folder: Path, languages: tuple[str, str] = ("", "")
) -> Vocabularies:
    """The vocabularies with our own tokenisers beside a model, or those in `folder`.

    These are SentencePiece models, or merges of words as Moses has them in these languages.
    """
    own = path / SOURCE_TOKENIZER, path / TARGET_TOKENIZER
    if all(file.exists() for file in own):
        source, target = (Tokenizer.load(file, len(order)) for file, order in zip(own, orders, strict=True))
        kind = "sentencepiece" if isinstance(source, SentencePieceTokenizer) else "bpe"
        return Vocabularies(orders, (source, target), kind)
    for names in _SENTENCEPIECE:
        files = [folder / name for name in names]
        if all(file.exists() for file in files):
            pairs = zip(files, orders, strict=True)
            source, target = (sentencepiece_of(file, order.pieces) for file, order in pairs)
            return Vocabularies(orders, (source, target))
    for names in _BPE:
        files = [folder / name for name in names]
        if all(file.exists() for file in files):
            of_sides = zip(files, orders, languages, strict=True)
            first, second = (moses_bpe_of(file, order.pieces, code) for file, order, code in of_sides)
            return Vocabularies(orders, (first, second), "bpe")
    raise ModelError(
        f"{path}: has no tokenisers; put the SentencePiece models source.spm and target.spm, or the merges "
        "source.bpe and target.bpe, into it"
    )


def order_of(names: Sequence[str], settings: Mapping[str, Any], path: Path) -> Order:
    """The order of a vocabulary whose special symbols `settings` name, the content of `config.json`."""

    def place(setting: str, default: str) -> int:
        name = settings.get(setting, default)
        if name not in names:
            raise damaged(path, f"its vocabulary has no {name!r}, its {setting}")
        return names.index(name)

    end = place("eos_token", "</s>")
    if ours := Order.of_ours(names):
        return ours
    known = {name: names.index(name) for name in CONTROL_SYMBOLS if name in names}
    padding = known.get("<pad>", names.index("<blank>") if "<blank>" in names else None)
    start = known.get("<s>")
    return Order.of(names, end=end, unknown=place("unk_token", "<unk>"), padding=padding, start=start)
