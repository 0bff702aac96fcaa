"""The vocabularies beside a model of Marian: `.spm` files, or `.yml` files with SentencePiece models."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from allyouneed.data.sentencepiece_tokenizer import SentencePieceTokenizer
from allyouneed.errors import ModelError
from allyouneed.interop.foreign import Order
from allyouneed.interop.foreign_files import MAX_VOCABULARY_BYTES, read_entries, whole_number
from allyouneed.interop.huggingface_folder import sentencepiece_of
from allyouneed.interop.marian_files import DECODER_SETTINGS, MAX_YAML_BYTES, read_yaml
from allyouneed.storage.publish import read_published
from allyouneed.symbols import CONTROL_SYMBOLS, PADDING, START

_END, _UNKNOWN = "</s>", "<unk>"
_LISTS = *DECODER_SETTINGS, "{model}.yml"
"""Files that name the vocabularies of both sides."""
_YAML, _FACTORED = (".yml", ".yaml", ".json"), ".fsv"
"""Endings of vocabularies that are not plain text, besides `.spm`, as Marian tells them apart."""
_ENDINGS = ".yml", ".spm", ".vocab", ".txt"
"""Endings of the vocabularies that are found without such a list."""
_SIDES = {"source": ("srcvocab", "src.vocab"), "target": ("trgvocab", "trg.vocab")}
"""Side -> parts of the names of its vocabularies, as Firefox and OPUS-MT have them."""


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
    read = [_side(file, side) for file, side in zip(files, _SIDES, strict=True)]
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
    """The vocabularies of both sides by their names."""
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
    """The only vocabulary in the folder, which is that of both sides."""
    for ending in _ENDINGS:
        found = _vocabularies(model, ending)
        if len(found) == 1 and not any(_is_of(found[0], names) for names in _SIDES.values()):
            return found[0], found[0]
    return None


def _vocabularies(model: Path, ending: str) -> list[Path]:
    """The vocabularies beside a model by their names."""
    return sorted(each for each in model.parent.glob(f"*{ending}") if "vocab" in each.name)


def _is_of(vocabulary: Path, names: tuple[str, ...]) -> bool:
    """Whether a vocabulary is of the side that has these names."""
    return any(name in vocabulary.name for name in names)


def _side(path: Path, side: str) -> tuple[Order, SentencePieceTokenizer]:
    if path.suffix == _FACTORED:
        raise ModelError(f"{path}: is a vocabulary of factors, which is not supported")
    if path.suffix == ".spm":
        names, model = _entries_of_model(path), path
    else:
        names = _entries(path)
        model = path.parent / f"{side}.spm"
        if not model.exists():
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
        return SentencePieceTokenizer.entries_of(read_published(path, MAX_VOCABULARY_BYTES))
    except ValueError as error:
        raise ModelError(f"{path}: cannot be read: {error}; take another copy") from None


def _entries(path: Path) -> Sequence[str]:
    """The entries of a vocabulary in the order of their ids, which are the lines if it is plain text.

    Marian leaves out a line that occurs again.
    """
    if path.suffix not in _YAML:
        return [*dict.fromkeys(read_entries(path))]
    ids = read_yaml(path, MAX_YAML_BYTES)
    places = {name: number for name, place in ids.items() if (number := whole_number(place)) is not None}
    if len(places) < len(ids):
        raise ModelError(f"{path}: its ids are no numbers; take another copy")
    if sorted(places.values()) != [*range(len(places))]:
        raise ModelError(f"{path}: its ids are not those from 0 on; take another copy")
    return sorted(places, key=places.__getitem__)
