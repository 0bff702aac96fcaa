"""The vocabularies beside a model of Marian: `.spm` files, or `.yml` files with SentencePiece models."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from allyouneed.data.sentencepiece_tokenizer import SentencePieceTokenizer
from allyouneed.errors import ModelError, UsageError
from allyouneed.interop.foreign import Order
from allyouneed.interop.huggingface_folder import sentencepiece_of
from allyouneed.storage.publish import read_published

_END, _UNKNOWN = "</s>", "<unk>"
_LISTS = "decoder.yml", "{model}.decoder.yml", "{model}.yml"
"""Files that name the vocabularies of both sides."""


class Vocabularies(NamedTuple):
    """The vocabularies of both sides."""

    orders: tuple[Order, Order]
    tokenizers: tuple[SentencePieceTokenizer, SentencePieceTokenizer]
    files: tuple[Path, Path]
    """Marian's vocabularies."""


def read_vocabularies(model: Path) -> Vocabularies:
    """Find and read the vocabularies of a model.

    They are those that `decoder.yml` or Marian's files beside the model name, or the only ones in its folder.
    A `.yml` vocabulary needs `source.spm` and `target.spm` in the same folder, as OPUS-MT has them.

    Raises:
        ModelError: They are not found, or damaged.
    """
    files = _named(model) or _only(model)
    if files is None:
        raise ModelError(
            f"{model}: its vocabularies are not found; put the .spm or .yml files of both sides beside it, "
            "and a decoder.yml that names them"
        )
    read = [_side(file, side) for file, side in zip(files, ("source", "target"), strict=True)]
    return Vocabularies((read[0][0], read[1][0]), (read[0][1], read[1][1]), files)


def read_yaml(content: bytes, path: Path) -> dict[str, Any]:
    """The mapping in a YAML document; all scalars are texts.

    Raises:
        ModelError: The document is no mapping, or has aliases.
        UsageError: PyYAML is not installed.
    """
    try:
        import yaml
    except ModuleNotFoundError:
        raise UsageError(
            "models of Marian need PyYAML and sentencepiece; install them with: "
            "pip install 'allyouneed[marian]'"
        ) from None
    loader = getattr(yaml, "CBaseLoader", yaml.BaseLoader)
    try:
        if any(isinstance(event, yaml.AliasEvent) for event in yaml.parse(content.decode(), loader)):
            raise ModelError(f"{path}: has aliases, which can expand without limit; take another copy")
        found = yaml.load(content.decode(), loader)  # a loader of texts, lists and mappings only
    except (yaml.YAMLError, UnicodeDecodeError, ValueError, RecursionError):
        raise ModelError(f"{path}: is no YAML; take another copy") from None
    if not isinstance(found, dict):
        raise ModelError(f"{path}: is no YAML mapping; take another copy")
    return found


def _named(model: Path) -> tuple[Path, Path] | None:
    """The vocabularies that a file beside the model names; only files in the same folder are taken."""
    for pattern in _LISTS:
        path = model.parent / pattern.format(model=model.name)
        if not path.is_file():
            continue
        names = read_yaml(read_published(path), path).get("vocabs")
        if isinstance(names, list) and len(names) == len(("source", "target")):
            files = [model.parent / Path(str(name)).name for name in names]
            if all(file.is_file() for file in files):
                return files[0], files[1]
    return None


def _only(model: Path) -> tuple[Path, Path] | None:
    """The only vocabulary in the folder, or one for each side."""
    for pattern in ("*vocab*.yml", "*vocab*.spm"):
        found = sorted(model.parent.glob(pattern))
        if len(found) == 1:
            return found[0], found[0]
    pair = model.parent / "source.spm", model.parent / "target.spm"
    return pair if all(path.is_file() for path in pair) else None


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
    order = Order.of(names, end=names.index(_END), unknown=names.index(_UNKNOWN), padding=None)
    return order, sentencepiece_of(model, order.pieces)


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
