"""SentencePiece tokenisers as they are, as the models of Marian, OPUS-MT and Argos have them.

A file holds SentencePiece's own model and the pieces in the order of our ids, which may differ from those of
the model: Marian's vocabularies are files of their own. Unlike our own tokenisers, these change text: white
space and compatible characters are normalised, as the model says.
"""

import base64
import binascii
import io
import json
import os
import re
from collections.abc import Hashable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final, Self

from allyouneed.data.tokenizer import ListedTokenizer, require_pieces, surrogate_errors
from allyouneed.errors import UsageError
from allyouneed.storage import publish
from allyouneed.symbols import CONTROL_SYMBOLS, MAX_ENTRIES, UNKNOWN

if TYPE_CHECKING:
    from pathlib import Path

    from sentencepiece import SentencePieceProcessor

KIND: Final = "sentencepiece"
"""Value of `kind` in the files."""
_SPACE = "\u2581"
_BYTE_PIECE = re.compile(r"<0x([0-9A-F]{2})>")
_MOST_BYTES: Final = 64 * 2**20
"""Size of a SentencePiece model, above which it is refused; those of 60,000 pieces have about a megabyte."""
_LEARNING_THREADS = 8
"""A constant, as sums of floats depend on it."""


class SentencePieceTokenizer(ListedTokenizer):
    """Converts text to ids and back as SentencePiece does. Made by `learn`, `from_model` or `load`."""

    def __init__(self, model: bytes, processor: "SentencePieceProcessor", pieces: Sequence[str]) -> None:
        super().__init__(pieces)
        self._model, self._processor = model, processor
        ids = {name: token for token, name in enumerate(self._names)}  # also of control symbols
        self._id_of = [
            UNKNOWN if _is_special(processor, number) else ids.get(processor.id_to_piece(number), UNKNOWN)
            for number in range(processor.get_piece_size())
        ]
        self._known = {*self._id_of}
        self._others = {
            piece: token
            for piece, token in self._id_of_piece.items()
            if token not in self._known and piece not in self.languages
        }
        """Entries that the model lacks, such as those of the other side in a joint vocabulary."""

    @classmethod
    def from_model(cls, model: bytes, pieces: Sequence[str] | None = None) -> Self:
        """Make a tokeniser of a SentencePiece model from any source, the content of an `.spm` file.

        `pieces` are in the order of their ids, without control symbols; by default those of the model.

        Raises:
            ValueError: The bytes are no model, or the pieces are not strings that differ; says why.
            UsageError: `sentencepiece` is not installed.
        """
        processor = _processor(model)
        if pieces is None:
            pieces = [
                processor.id_to_piece(number)
                for number in range(processor.get_piece_size())
                if not _is_special(processor, number)
            ]
        require_pieces(pieces)
        return cls(model, processor, pieces)

    @staticmethod
    def entries_of(model: bytes) -> list[str]:
        """All pieces of a SentencePiece model in its order, special ones included.

        Raises:
            ValueError: The bytes are no model.
            UsageError: `sentencepiece` is not installed.
        """
        processor = _processor(model)
        return [processor.id_to_piece(number) for number in range(processor.get_piece_size())]

    @classmethod
    def from_description(cls, description: dict[str, Any]) -> Self:
        """Make a tokeniser from the JSON of a file.

        Raises:
            ValueError: The JSON is not what `save` writes; says why.
            UsageError: `sentencepiece` is not installed.
        """
        is_one = description.keys() == {"kind", "pieces", "model"} and description["kind"] == KIND
        if not is_one or not isinstance(description["model"], str):
            raise ValueError("it has other parts than ours")
        try:
            model = base64.b64decode(description["model"], validate=True)
        except (binascii.Error, ValueError):
            raise ValueError("its model is not base64") from None
        return cls.from_model(model, description["pieces"])

    @classmethod
    def learn(cls, lines: Iterable[str], vocab_size: int, or_else: str | None = "") -> Self:
        """Learn a unigram vocabulary with byte fallback; the same lines give the same vocabulary.

        The arguments are those of `Tokenizer.train`.

        Raises:
            UsageError: `vocab_size` is too small or too large for this text, which says what would do, unless
                `or_else` is None, or `sentencepiece` is not installed.
        """
        library, written = _library(), io.BytesIO()
        lines = lines if or_else is not None else [*lines]
        num_others = len(CONTROL_SYMBOLS) - 1  # the library counts its unknown piece
        raised: list[BaseException] = []
        try:
            library.SentencePieceTrainer.train(
                sentence_iterator=_noting_errors(lines, raised),
                model_writer=written,
                vocab_size=vocab_size - num_others,
                character_coverage=1.0,
                byte_fallback=True,
                **{"bos_id": -1, "eos_id": -1, "pad_id": -1, "unk_id": 0},
                num_threads=_LEARNING_THREADS,
                max_sentence_length=1 << 20,
                hard_vocab_limit=or_else is not None,
                minloglevel=3,
            )
        except RuntimeError as error:
            if raised:
                raise raised[0] from None
            least = _least_size(error, num_others)
            if least and or_else is None:
                return cls.learn(lines, -(-least // 8) * 8, or_else)
            raise _wrong_size(error, vocab_size, num_others, or_else or "") from None
        return cls.from_model(written.getvalue())

    def save(self, path: "Path") -> None:
        """Write one JSON file."""
        description = {
            "kind": KIND,
            "pieces": self._pieces,
            "model": base64.b64encode(self._model).decode(),
        }
        publish.write_text(path, json.dumps(description, ensure_ascii=False, indent=1))

    @property
    def model(self) -> bytes:
        """SentencePiece's own model, the content of an `.spm` file."""
        return self._model

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        """Encode many texts at once, on all cores; see `encode`."""
        # One thread if processes share the cores, as the variable of `tokenizers` says.
        num_threads = 1 if os.environ.get("TOKENIZERS_PARALLELISM") == "false" else -1
        with surrogate_errors(texts):
            of_texts = self._processor.encode(texts, out_type=int, num_threads=num_threads)
        return [self._ids(text, numbers) for text, numbers in zip(texts, of_texts, strict=True)]

    def _ids(self, text: str, numbers: Sequence[int]) -> list[int]:
        """Our ids for SentencePiece's; an unknown piece is looked up by its text, as Marian does."""
        ids = [self._id_of[number] for number in numbers]
        if self._others and UNKNOWN in ids:
            pieces = self._processor.encode(text, out_type=str)
            ids = [
                self._others.get(piece, token) if token == UNKNOWN else token
                for token, piece in zip(ids, pieces, strict=True)
            ]
        return ids

    def offsets(self, text: str) -> list[tuple[int, int]]:
        """For each piece of `encode(text)`, its begin and end in `text`; see `Tokenizer.offsets`."""
        with surrogate_errors([text]):
            spans = [*self._processor.encode(text, out_type="offset_mapping")["offsets"]]
        for number in range(len(spans) - 2, -1, -1):
            begin, end = spans[number]
            if begin == end:  # a part whose last part has the span
                spans[number] = spans[number + 1]
        return spans

    def decode(self, ids: Sequence[int]) -> str:
        """Decode ids to one line of text; see `Tokenizer.decode`."""
        tokens = [token for token in ids if token > UNKNOWN]
        pieces = [  # the library leaves those alone that its model does not have
            self._names[token] if token in self._known else self._names[token].replace(_SPACE, " ")
            for token in tokens
        ]
        text: str = self._processor.decode_pieces(pieces)
        if tokens and tokens[0] not in self._known:
            text = text.removeprefix(" ")
        return text.replace("\n", " ").replace("\r", " ")

    def content(self, token: int) -> bytes:
        """The bytes of a token; empty for a control symbol."""
        if token < len(CONTROL_SYMBOLS):
            return b""
        name = self._names[token]
        byte = _BYTE_PIECE.fullmatch(name)
        return bytes([int(byte[1], 16)]) if byte else name.replace(_SPACE, " ").encode()

    def _with_pieces(self, pieces: Sequence[str]) -> Self:
        return type(self)(self._model, self._processor, pieces)

    def _identity(self) -> Hashable:
        return self._model, self._pieces


def _library() -> Any:
    try:
        import sentencepiece
    except ModuleNotFoundError:
        raise UsageError(
            "SentencePiece tokenisers need sentencepiece; install it with: "
            "pip install 'allyouneed[sentencepiece]'",
            settings=["tokenizer"],
        ) from None
    return sentencepiece


def _processor(model: bytes) -> "SentencePieceProcessor":
    """Load a model; raises ValueError if the bytes are none."""
    if len(model) > _MOST_BYTES:
        raise ValueError(f"its SentencePiece model has more than {_MOST_BYTES:,} bytes")
    processor: SentencePieceProcessor = _library().SentencePieceProcessor()
    try:
        processor.LoadFromSerializedProto(model)
    except (RuntimeError, TypeError):
        raise ValueError("its SentencePiece model is damaged") from None
    if not 0 < processor.get_piece_size() <= MAX_ENTRIES:
        raise ValueError("its SentencePiece model has no pieces, or too many")
    return processor


def _is_special(processor: "SentencePieceProcessor", number: int) -> bool:
    """Whether a piece of the library stands for no text."""
    return bool(processor.is_unknown(number) or processor.is_control(number) or processor.is_unused(number))


def _noting_errors(lines: Iterable[str], raised: list[BaseException]) -> Iterator[str]:
    """The lines; what reading them raises is noted, as the library makes a `RuntimeError` of it."""
    try:
        yield from lines
    except BaseException as error:
        raised.append(error)
        raise


def _least_size(error: RuntimeError, num_others: int) -> int:
    """The least size of a vocabulary that has all characters, where another was too small; else 0."""
    found = re.search(r"required_chars\. \d+ vs (\d+)", str(error))
    return int(found[1]) + num_others if found else 0


def _wrong_size(error: RuntimeError, vocab_size: int, num_others: int, or_else: str) -> UsageError:
    """The error for a size of which the library says what would do."""
    settings = ["vocab_size", "vocab_sample_bytes"]
    if found := re.search(r"value <= (\d+)", str(error)):
        largest = int(found[1]) + num_others
        return UsageError(
            f"vocabulary size {vocab_size}: this text has only {largest} pieces; "
            f"use vocab_size {largest} or less{or_else}",
            settings=settings,
        )
    if least := _least_size(error, num_others):
        return UsageError(
            f"vocabulary size {vocab_size}: the characters of this text and bytes alone are {least}; "
            f"use vocab_size {least} or more",
            settings=settings,
        )
    reason = next(filter(None, map(str.strip, str(error).split("\n"))), "no reason given")
    return UsageError(f"SentencePiece cannot learn a vocabulary of {vocab_size}: {reason}", settings=settings)
