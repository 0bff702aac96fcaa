"""The vocabularies and tokenisers in a folder of CTranslate2."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from allyouneed.data.sentencepiece_tokenizer import SentencePieceTokenizer
from allyouneed.data.tokenizer import Tokenizer
from allyouneed.errors import ModelError
from allyouneed.interop.foreign import Order
from allyouneed.interop.foreign_files import MAX_VOCABULARY_BYTES, json_value, read_entries
from allyouneed.interop.huggingface_folder import sentencepiece_of
from allyouneed.symbols import CONTROL_SYMBOLS
from allyouneed.tasks.task import SOURCE_TOKENIZER, TARGET_TOKENIZER

_SENTENCEPIECE = ("source.spm", "target.spm"), ("sentencepiece.model", "sentencepiece.model")
TOKENIZERS = SOURCE_TOKENIZER, TARGET_TOKENIZER, "source.spm", "target.spm"
"""Files of tokenisers that a folder may have."""


def vocabulary_of(path: Path, side: str) -> list[str]:
    """The entries of a side, "source" or "target", in the order of CTranslate2's ids.

    Raises:
        ModelError: They are missing or damaged.
    """
    for name in (f"{side}_vocabulary", "shared_vocabulary"):
        if (file := path / f"{name}.json").exists():
            return _list(file)
        if (file := path / f"{name}.txt").exists():
            return read_entries(file)
    raise ModelError(
        f"{path}: has no {side}_vocabulary.json and no shared_vocabulary.json; take another copy"
    )


def _list(path: Path) -> list[str]:
    found = json_value(path, MAX_VOCABULARY_BYTES)
    if not isinstance(found, list) or not all(isinstance(each, str) for each in found):
        raise ModelError(f"{path}: is no list of texts; take another copy")
    return found


def tokenizers_of(
    path: Path, orders: tuple[Order, Order], folder: Path
) -> tuple[tuple[Tokenizer, Tokenizer], str]:
    """Our own tokenisers beside a model, or SentencePiece's.

    Args:
        path: The folder of the model.
        orders: The vocabularies of both sides.
        folder: The folder of the SentencePiece models.

    Returns:
        The tokenisers of both sides, and the value of `DataConfig.tokenizer`.

    Raises:
        ModelError: There are none, or they are damaged or of another model.
    """
    own = path / SOURCE_TOKENIZER, path / TARGET_TOKENIZER
    if all(file.exists() for file in own):
        source, target = (Tokenizer.load(file, len(order)) for file, order in zip(own, orders, strict=True))
        return (source, target), "sentencepiece" if isinstance(source, SentencePieceTokenizer) else "bpe"
    for names in _SENTENCEPIECE:
        files = [folder / name for name in names]
        if all(file.exists() for file in files):
            source, target = (
                sentencepiece_of(file, order.pieces) for file, order in zip(files, orders, strict=True)
            )
            return (source, target), "sentencepiece"
    raise ModelError(
        f"{path}: has no tokenisers; put the SentencePiece models source.spm and target.spm into it"
    )


def order_of(names: Sequence[str], settings: Mapping[str, Any], path: Path) -> Order:
    """The order of a vocabulary.

    Args:
        names: Its entries, in the order of CTranslate2's ids.
        settings: The content of `config.json`, which names special symbols.
        path: The folder, for messages.

    Raises:
        ModelError: It lacks a symbol that is needed.
    """

    def place(setting: str, default: str) -> int:
        name = settings.get(setting, default)
        if name not in names:
            raise ModelError(f"{path}: its vocabulary has no {name!r}, its {setting}; take another copy")
        return names.index(name)

    end = place("eos_token", "</s>")
    if ours := Order.of_ours(names):
        return ours
    known = {name: names.index(name) for name in CONTROL_SYMBOLS if name in names}
    padding = known.get("<pad>", names.index("<blank>") if "<blank>" in names else None)
    start = known.get("<s>")
    return Order.of(names, end=end, unknown=place("unk_token", "<unk>"), padding=padding, start=start)
