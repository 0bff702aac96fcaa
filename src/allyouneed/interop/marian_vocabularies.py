"""The vocabularies beside a model of Marian: `.spm` files, or `.yml` files with SentencePiece models."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from allyouneed.data.sentencepiece_tokenizer import SentencePieceTokenizer
from allyouneed.errors import ModelError
from allyouneed.interop.foreign import Order
from allyouneed.interop.huggingface_folder import sentencepiece_of
from allyouneed.interop.marian_yaml import DECODER_SETTINGS, read_yaml
from allyouneed.storage.publish import read_published
from allyouneed.symbols import CONTROL_SYMBOLS, PADDING, START

_END, _UNKNOWN = "</s>", "<unk>"
_LISTS = *DECODER_SETTINGS, "{model}.yml"
"""Files that name the vocabularies of both sides."""
_SIDES = "srcvocab", "trgvocab"
"""Beginnings of the names of the vocabularies of each side, as Firefox has them."""


class Vocabularies(NamedTuple):
    """The vocabularies of both sides."""

    orders: tuple[Order, Order]
    tokenizers: tuple[SentencePieceTokenizer, SentencePieceTokenizer]
    files: tuple[Path, Path]
    """Marian's vocabularies."""


def read_vocabularies(model: Path, *, is_shared: bool) -> Vocabularies:
    """Find and read the vocabularies of a model.

    They are those that `decoder.yml` or Marian's files beside the model name, or the only ones in its folder.
    A `.yml` vocabulary needs `source.spm` and `target.spm` in the same folder, as OPUS-MT has them.

    Args:
        model: The file of the model.
        is_shared: Whether both sides have one vocabulary, which may then be found without such a list.

    Raises:
        ModelError: They are not found, or damaged.
    """
    files = _named(model) or _pair(model) or (_only(model) if is_shared else None)
    if files is None:
        raise ModelError(
            f"{model}: its vocabularies are not found; put the .spm or .yml files of both sides beside it, "
            "and a decoder.yml that names them"
        )
    read = [_side(file, side) for file, side in zip(files, ("source", "target"), strict=True)]
    if is_shared and read[0][0].foreign != read[1][0].foreign:
        raise ModelError(
            f"{model}: has one matrix for both sides (tied-embeddings-all), but {files[0].name} and "
            f"{files[1].name} have other entries; take those of this model"
        )
    return Vocabularies((read[0][0], read[1][0]), (read[0][1], read[1][1]), files)


def _named(model: Path) -> tuple[Path, Path] | None:
    """The vocabularies that a file beside the model names; only files in the same folder are taken."""
    missing: list[str] = []
    for pattern in _LISTS:
        path = model.parent / pattern.format(model=model.name)
        if not path.is_file():
            continue
        names = read_yaml(read_published(path), path).get("vocabs")
        if isinstance(names, list) and len(names) == len(_SIDES):
            files = [model.parent / Path(str(name)).name for name in names]
            absent = [file.name for file in files if not file.is_file()]
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
    """The vocabularies of both sides by their names."""
    for ending in ("yml", "spm"):
        sides = [sorted(model.parent.glob(f"{side}*.{ending}")) for side in _SIDES]
        if all(len(found) == 1 for found in sides):
            return sides[0][0], sides[1][0]
    pair = model.parent / "source.spm", model.parent / "target.spm"
    has_others = any(model.parent.glob("*vocab*.yml")) or any(model.parent.glob("*vocab*.spm"))
    return pair if not has_others and all(path.is_file() for path in pair) else None


def _only(model: Path) -> tuple[Path, Path] | None:
    """The only vocabulary in the folder, which is that of both sides."""
    for ending in ("yml", "spm"):
        found = sorted(model.parent.glob(f"*vocab*.{ending}"))
        if len(found) == 1 and not found[0].name.startswith(_SIDES):
            return found[0], found[0]
    return None


def _side(path: Path, side: str) -> tuple[Order, SentencePieceTokenizer]:
    if path.suffix == ".spm":
        names, model = _entries_of_model(path), path
    else:
        names = _entries(path)
        model = path.parent / f"{side}.spm"
        if not model.is_file():
            raise ModelError(f"{path}: needs {model.name} beside it, the SentencePiece model of that side")
    for special in (_END, _UNKNOWN):
        if special not in names:
            raise ModelError(f"{path}: has no entry {special}; take another copy")
    padding, start = (
        names.index(name) if (name := CONTROL_SYMBOLS[token]) in names else None for token in (PADDING, START)
    )
    end, unknown = names.index(_END), names.index(_UNKNOWN)
    order = Order.of(names, end=end, unknown=unknown, padding=padding, start=start)
    tokenizer = sentencepiece_of(model, order.pieces)
    if {PADDING, START} & {*tokenizer.encode(f"{CONTROL_SYMBOLS[PADDING]} {CONTROL_SYMBOLS[START]}")}:
        raise ModelError(f"{model}: makes symbols of <pad> or <s> in a text, which is not supported")
    return order, tokenizer


def _entries_of_model(path: Path) -> Sequence[str]:
    try:
        return SentencePieceTokenizer.entries_of(read_published(path))
    except ValueError as error:
        raise ModelError(f"{path}: cannot be read: {error}; take another copy") from None


def _entries(path: Path) -> Sequence[str]:
    """The entries of a `.yml` vocabulary in the order of their ids."""
    ids = read_yaml(read_published(path), path)
    if not all(isinstance(place, str) and place.isdecimal() for place in ids.values()):
        raise ModelError(f"{path}: its ids are no numbers; take another copy")
    places = {name: int(place) for name, place in ids.items()}
    if sorted(places.values()) != [*range(len(places))]:
        raise ModelError(f"{path}: its ids are not those from 0 on; take another copy")
    return sorted(places, key=places.__getitem__)
