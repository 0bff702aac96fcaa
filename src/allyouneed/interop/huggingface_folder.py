"""The vocabularies and settings in a folder of a Hugging Face Marian model."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from allyouneed.data.sentencepiece_tokenizer import SentencePieceTokenizer
from allyouneed.data.tokenizer import Tokenizer
from allyouneed.data.tokenizer_file import rebuilt
from allyouneed.errors import ModelError
from allyouneed.interop.foreign import Order, language_settings
from allyouneed.interop.foreign_files import MAX_VOCABULARY_BYTES, json_object
from allyouneed.storage.publish import read_published
from allyouneed.symbols import CONTROL_SYMBOLS, END, PADDING

_BYTE = re.compile(r"<0x[0-9A-F]{2}>")


class Sides(NamedTuple):
    """What is known of both vocabularies."""

    orders: tuple[Order, Order]
    tokenizers: tuple[Tokenizer, Tokenizer]
    kind: str
    """Value of `DataConfig.tokenizer`."""


def sides_of(path: Path, settings: dict[str, Any]) -> Sides:
    """The vocabularies of a folder, our own if `export` wrote it.

    Args:
        path: The folder.
        settings: The content of its `config.json`.

    Raises:
        ModelError: A file is missing, damaged, or of another kind, or `settings` contradict it.
    """
    sides = _own(path) if (path / "tokenizer.json").exists() else _sentencepiece(path)
    for name, token in (("pad_token_id", PADDING), ("eos_token_id", END)):
        if any(order.foreign[token] != settings.get(name) for order in sides.orders):
            symbol = CONTROL_SYMBOLS[token]
            raise ModelError(
                f"{path}: {name} is {settings.get(name)!r}, not the place of {symbol} in the vocabulary"
            )
    return sides


def _own(path: Path) -> Sides:
    """The tokenisers of a folder that `export` wrote."""
    target = path / "target_tokenizer"
    files = path / "tokenizer.json", (target if target.is_dir() else path) / "tokenizer.json"
    tokenizers = [_rebuilt(file) for file in files]
    orders = [Order([*range(each.vocab_size)], each.pieces(range(5, each.vocab_size))) for each in tokenizers]
    kind = json_object(files[0], MAX_VOCABULARY_BYTES).get("model", {}).get("type", "")
    names = {"BPE": "bpe", "WordPiece": "wordpiece"}
    return Sides((orders[0], orders[1]), (tokenizers[0], tokenizers[1]), names.get(kind, "bpe"))


def _rebuilt(path: Path) -> Tokenizer:
    """Our tokeniser, of the form in which transformers keeps it."""
    description = json_object(path, MAX_VOCABULARY_BYTES) | {"post_processor": None, "added_tokens": []}
    try:
        return Tokenizer(rebuilt(description))
    except ValueError as error:
        raise ModelError(
            f"{path}: is no tokeniser of our exports ({error}); only those and SentencePiece are read"
        ) from None


def _sentencepiece(path: Path) -> Sides:
    """The tokenisers of OPUS-MT: a SentencePiece model per side, and the order of the entries."""
    vocabularies = [_vocabulary(path / "vocab.json")]
    if (path / "target_vocab.json").exists():
        vocabularies.append(_vocabulary(path / "target_vocab.json"))
    orders, tokenizers = [], []
    for side, names in (("source", vocabularies[0]), ("target", vocabularies[-1])):
        order = Order.of_ours(names) or Order.of(
            names,
            end=_entry(names, "</s>", path),
            unknown=_entry(names, "<unk>", path),
            padding=_entry(names, "<pad>", path),
        )
        orders.append(order)
        tokenizers.append(sentencepiece_of(path / f"{side}.spm", order.pieces))
    return Sides((orders[0], orders[1]), (tokenizers[0], tokenizers[1]), "sentencepiece")


def sentencepiece_of(path: Path, pieces: Sequence[str]) -> SentencePieceTokenizer:
    """The tokeniser of a SentencePiece model, most of whose pieces are entries of the vocabulary.

    Bytes are not counted: where no text needs them, converters leave them out of the vocabulary.

    Args:
        path: The file of the model.
        pieces: Pieces of the vocabulary, after the control symbols.

    Raises:
        ModelError: The file is missing, holds something else, or is the tokeniser of another model.
    """
    try:
        tokenizer = SentencePieceTokenizer.from_model(read_published(path, MAX_VOCABULARY_BYTES), pieces)
    except ValueError as error:
        raise ModelError(f"{path}: cannot be read: {error}; take another copy") from None
    written = [
        name
        for name in SentencePieceTokenizer.entries_of(tokenizer.model)
        if name not in CONTROL_SYMBOLS and not _BYTE.fullmatch(name)
    ]
    missing = len({*written} - {*pieces})
    if 2 * missing > len(written):
        raise ModelError(
            f"{path}: {missing:,} of its {len(written):,} pieces are no entries of the vocabulary; it "
            "is the tokeniser of another model, put this model's there"
        )
    return tokenizer


def _vocabulary(path: Path) -> list[str]:
    """The entries of a `vocab.json` in the order of their ids."""
    ids = json_object(path, MAX_VOCABULARY_BYTES)
    places = [*ids.values()]
    if not all(type(place) is int for place in places) or sorted(places) != [*range(len(places))]:
        raise ModelError(f"{path}: its ids are not those from 0 on; take another copy")
    return sorted(ids, key=ids.__getitem__)


def _entry(names: Sequence[str], name: str, path: Path) -> int:
    if name not in names:
        raise ModelError(f"{path}: its vocabulary has no {name}; take another copy")
    return names.index(name)


def languages_of(path: Path) -> dict[str, str]:
    """The codes of both languages as settings of `DataConfig`, where the tokeniser records them."""
    file = path / "tokenizer_config.json"
    found = json_object(file) if file.exists() else {}
    return language_settings(found.get("source_lang"), found.get("target_lang"))
