"""Sub-word vocabularies over bytes: byte-pair encoding, word-pieces or plain bytes (paper 5.1).

Decoding returns every Unicode string exactly, and no text encodes to a control symbol: these are entries that
mix letters and punctuation, and text is first split between letters and punctuation. Encoding puts a space
before the text, so that a word has the same ids at the start of a sentence; decoding removes it.
"""

import json
import os
import pkgutil
import re
from collections.abc import Container, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache, cached_property
from itertools import compress, islice
from pathlib import Path
from typing import Any, Final, Self

import numpy as np
import tokenizers
from tokenizers import models, trainers

from allyouneed.data.store import Sentences
from allyouneed.data.tokenizer_file import (
    BYTE_NAMES,
    LANGUAGE_ENTRY,
    TokenizerKind,
    assemble,
    rebuilt,
    smallest_vocabulary,
    word_pieces,
)
from allyouneed.data.vocabulary_file import read_json, require_size
from allyouneed.data.word_cache import WordCache
from allyouneed.data.words import characters_of_bytes, words_of_bytes
from allyouneed.errors import DataError, ModelError, UsageError
from allyouneed.language_codes import closest_code, listed
from allyouneed.storage import publish
from allyouneed.symbols import CONTROL_SYMBOLS, MAX_ENTRIES, UNKNOWN

FIRST_BYTE: Final = len(CONTROL_SYMBOLS)
SMALLEST_VOCABULARY: Final = FIRST_BYTE + 256
"""Control symbols and bytes; the id of byte b is `FIRST_BYTE + b` in every vocabulary."""

_OTHER_KINDS = {
    "sentencepiece": "allyouneed.data.sentencepiece_tokenizer:SentencePieceTokenizer",
    "moses_bpe": "allyouneed.data.moses_bpe_tokenizer:MosesBpeTokenizer",
}
"""Kind that a file names -> subclass that reads it, imported when it is needed."""

SYMBOL: Final = re.compile(r"(>>[^\s<>]+<<)\s*")
"""A symbol at the beginning of a source that tells models of several languages which one to write."""

_MIN_FREQUENCY = 2  # what occurs once cannot be learned from

# The library's threads do not survive a fork, of which it warns unless it is told what to do, as here.
os.environ.setdefault("TOKENIZERS_PARALLELISM", "true")
os.register_at_fork(after_in_child=lambda: os.environ.update(TOKENIZERS_PARALLELISM="false"))


class Tokenizer:
    """Converts text to ids and back. Made by `train` or `load`."""

    def __init__(self, library: tokenizers.Tokenizer) -> None:
        self._library = library
        self._piece = cache(self._print_piece)
        self._words = WordCache(self._of_words)
        self._has_words = library.normalizer is not None  # which puts a space before a text; see `assemble`
        self._line_end = library.token_to_id(BYTE_NAMES[ord("\n")])

    @classmethod
    def train(
        cls, lines: Iterable[str], kind: TokenizerKind, vocab_size: int, or_else: str | None = ""
    ) -> Self:
        """Learn a vocabulary. The same lines give the same vocabulary with any number of threads.

        Args:
            lines: Text, in both languages for a joint vocabulary. "byte" does not read it.
            kind: "bpe", "wordpiece" (the same pieces, applied longest first) or "byte".
            vocab_size: Number of entries, including control symbols and bytes; "byte" always has 261.
            or_else: End of the message if the text gives too few entries: another remedy for the user. None
                takes as many as it gives.

        Raises:
            UsageError: `vocab_size` is below 261, or above the largest size possible, which the error names.
        """
        if kind == "byte":
            return cls(assemble(models.BPE(smallest_vocabulary(), []), "byte"))
        if vocab_size < SMALLEST_VOCABULARY:
            raise UsageError(
                f"vocabulary size {vocab_size}: bytes and control symbols alone are {SMALLEST_VOCABULARY}; "
                f"use vocab_size {SMALLEST_VOCABULARY} or more",
                settings=["vocab_size"],
            )
        trained = assemble(models.BPE(), "bpe")
        trainer = trainers.BpeTrainer(
            vocab_size=vocab_size,
            min_frequency=_MIN_FREQUENCY,
            show_progress=False,
            special_tokens=[*smallest_vocabulary()],  # for their place only: the bare model is taken
        )
        trained.train_from_iterator(lines, trainer=trainer)
        if (largest := trained.get_vocab_size()) < vocab_size and or_else is not None:
            raise UsageError(
                f"vocabulary size {vocab_size}: this text has only {largest} sub-words that occur "
                f"{_MIN_FREQUENCY} times or more; use vocab_size {largest} or less{or_else}",
                settings=["vocab_size", "vocab_sample_bytes"],
            )
        return cls(assemble(trained.model if kind == "bpe" else word_pieces(trained.get_vocab()), kind))

    @classmethod
    def load(cls, path: Path, vocab_size: int | None = None) -> "Tokenizer":
        """Read a file written by `save`, of whatever kind, and of any size unless `vocab_size` is given.

        Raises:
            ModelError: The file is missing, damaged, not a tokeniser of this program, or of another size.
            DiskError: There is no permission to read the file.
        """
        description = read_json(path, "tokeniser")
        kind = description.get("kind") if isinstance(description, dict) else None
        try:
            if isinstance(kind, str) and kind in _OTHER_KINDS:
                of_kind: type[Any] = pkgutil.resolve_name(_OTHER_KINDS[kind])
                tokenizer: Tokenizer = of_kind.from_description(description)
            else:
                tokenizer = Tokenizer(rebuilt(description))
        except ValueError as error:  # says why this program did not write it
            raise ModelError(
                f"{path}: is not a tokeniser that allyouneed has made: {error}; prepare the data again"
            ) from None
        require_size(path, tokenizer.vocab_size, vocab_size)
        return tokenizer

    def save(self, path: Path) -> None:
        """Write one JSON file, which the `tokenizers` library can also read."""
        publish.write_text(path, self._library.to_str(pretty=True))

    def __eq__(self, other: object) -> bool:
        """Whether both split every text into the same ids."""
        return isinstance(other, Tokenizer) and self._identity() == other._identity()

    def __hash__(self) -> int:
        return hash(self._identity())

    @property
    def vocab_size(self) -> int:
        """Number of entries, including control symbols; ids are below it."""
        return self._library.get_vocab_size()

    @property
    def names(self) -> Sequence[str]:
        """Every entry, control symbols included, in the order of ids."""
        ids = self._library.get_vocab()
        return sorted(ids, key=ids.__getitem__)

    @cached_property
    def languages(self) -> Mapping[str, int]:
        """The symbols that say which language a model writes, such as `>>fra<<`, and their ids."""
        found: dict[str, int] = {}
        for token in range(self.vocab_size - 1, UNKNOWN, -1):  # they are the last entries
            name = self._library.id_to_token(token) or ""
            if not LANGUAGE_ENTRY.fullmatch(name):
                break
            found = {name: token, **found}
        return found

    def with_languages(self, codes: Iterable[str]) -> Self:
        """This vocabulary with one more entry for each language that a model is to be told to write."""
        if not (codes := [*codes]):
            return self
        description = json.loads(self._library.to_str())
        vocabulary = description["model"]["vocab"]
        for code in codes:
            vocabulary.setdefault(f">>{code}<<", len(vocabulary))
        return type(self)(rebuilt(description))

    def symbol_of(self, language: str) -> str:
        """The symbol of a language by any of its codes, such as "fr"; empty if there are no symbols.

        Raises:
            UsageError: The language has no symbol, but others have; names them.
        """
        codes = [symbol[2:-2] for symbol in self.languages]
        if codes and (code := closest_code(language, codes)) is None:
            raise UsageError(f"language {language!r}: the model writes {listed(codes)}; choose one of these")
        return f">>{code}<<" if codes else ""

    def encode(self, text: str) -> list[int]:
        """The ids of `text`, without start and end symbols; symbols of languages in it are text, too.

        Raises:
            DataError: `text` contains half a surrogate pair, which UTF-8 cannot encode.
        """
        with surrogate_errors([text]):
            return self._library.encode(text, add_special_tokens=False).ids

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        """Encode many texts at once, on all cores; see `encode`."""
        with surrogate_errors(texts):
            return self._encoded(texts)

    def encode_corpus(self, texts: Sequence[str]) -> Sentences:
        """Encode many texts of a corpus, each distinct word only once; see `encode`."""
        with surrogate_errors(texts):
            return self._words.encode(texts) if self._has_words else Sentences.of(self.encode_batch(texts))

    def encode_lines(self, content: bytes) -> Sentences:
        """Encode the lines of a text in UTF-8, one at least, each with its line feed; see `encode_corpus`."""
        if self._has_words:
            return self._words.encode_lines(content)
        return self.encode_corpus(content.decode().split("\n")[:-1])

    def content(self, token: int) -> bytes:
        """The bytes of a token; empty for a control symbol."""
        if token < FIRST_BYTE:
            return b""
        return bytes(map(BYTE_NAMES.index, self._library.id_to_token(token) or ""))

    def merges(self) -> dict[tuple[int, int], tuple[int, int]]:
        """The merges of byte-pair encoding: two neighbours -> rank, from 0, and the id that they become."""
        model = json.loads(self._library.to_str())["model"]
        ids = model["vocab"]
        return {
            (ids[first], ids[second]): (rank, ids[first + second])
            for rank, (first, second) in enumerate(model["merges"])
        }

    def parts(self, content: bytes) -> list[bytes]:
        """The pieces, such as words, that merges do not cross, of a text in UTF-8 with a space before it."""
        found = self._library.pre_tokenizer.pre_tokenize_str(content.decode())
        return [bytes(map(BYTE_NAMES.index, name)) for name, _ in found]

    def offsets(self, text: str) -> list[tuple[int, int]]:
        """For each piece of `encode(text)`, its begin and end in `text`, in characters.

        All pieces of a character that is split into bytes have the span of that character. The space before
        the first word has the span of the first character.
        """
        with surrogate_errors([text]):
            return self._library.encode(text, add_special_tokens=False).offsets

    def decode(self, ids: Sequence[int]) -> str:
        """Decode ids to one line of text, without control symbols; line breaks become spaces.

        Bytes that are not valid UTF-8, which only a model can produce, become U+FFFD.
        """
        text = self._library.decode([token for token in ids if token > UNKNOWN])
        return text.replace("\n", " ").replace("\r", " ")

    def pieces(self, ids: Iterable[int]) -> list[str]:
        """The printable form of each id: `▁` for a space, `<0xC3>` for what cannot be printed alone."""
        return [self._piece(token) for token in ids]

    def spans(self, ids: Sequence[int]) -> list[tuple[int, int]]:
        """For each id, its begin and end in `decode(ids)`, in characters.

        Part of a character has the span of that character. The space before the first word, which `decode`
        removes, has an empty span.
        """
        contents = [self.content(token) for token in ids]
        places = list(characters_of_bytes(b"".join(contents)))
        taken_off = places[-1] + 1 - len(self.decode(ids)) if places else 0
        spans, first, end = [], 0, taken_off
        for content in contents:
            of_id = places[first : first + len(content)]
            begin, end = (of_id[0], of_id[-1] + 1) if of_id else (end, end)
            spans.append((max(0, begin - taken_off), max(0, end - taken_off)))
            first += len(content)
        return spans

    def words(self, ids: Iterable[int]) -> list[int | None]:
        """For each id, the index of its word in `decode(ids)`, or None if it belongs to no word.

        White space separates words, as in `str.split`. Punctuation next to letters or digits, such as the
        comma after a word, belongs to no word.
        """
        contents = [self.content(token) for token in ids]
        of_bytes = iter(words_of_bytes(b"".join(contents)))
        return [
            next((word for word in list(islice(of_bytes, len(content))) if word is not None), None)
            for content in contents
        ]

    def _of_words(self, texts: Sequence[str]) -> Sentences:
        """The ids of short texts, most of them words, which are encoded as the lines of one text.

        A line feed before a space is a piece of its own, and so are the words beside it; see `assemble`.
        """
        is_word = np.array([text.split() == [text] for text in texts], np.bool_)
        others = Sentences.of(self._encoded([*compress(texts, ~is_word)]))
        if not is_word.any():
            return others
        [joined] = self._encoded(["\n ".join(compress(texts, is_word))])
        ids = np.array([*joined, self._line_end])
        is_end = ids == self._line_end
        lengths = np.diff(is_end.nonzero()[0], prepend=-1) - 1
        found = Sentences(
            np.concatenate((ids[~is_end], others.ids)), np.concatenate((lengths, others.lengths))
        )
        places = np.where(is_word, is_word.cumsum(), len(lengths) + (~is_word).cumsum()) - 1
        return found.take(places)

    def _identity(self) -> Hashable:
        return self._library.to_str()

    def _encoded(self, texts: Sequence[str]) -> list[list[int]]:
        encodings = self._library.encode_batch_fast(texts, add_special_tokens=False)
        return [encoding.ids for encoding in encodings]

    def _print_piece(self, token: int) -> str:
        if token < len(CONTROL_SYMBOLS):
            return CONTROL_SYMBOLS[token]
        return "".join(map(_in_print, self.content(token).decode(errors="surrogateescape")))


class ListedTokenizer(Tokenizer):
    """A tokeniser of other programs: `pieces` are in the order of their ids, without control symbols."""

    _has_words = False

    def __init__(self, pieces: Sequence[str]) -> None:
        self._pieces = tuple(pieces)
        self._names = (*CONTROL_SYMBOLS, *pieces)
        self._id_of_piece = {piece: token for token, piece in enumerate(pieces, start=len(CONTROL_SYMBOLS))}
        self._piece = cache(self._print_piece)

    @property
    def names(self) -> Sequence[str]:
        """Every entry, control symbols included, in the order of ids."""
        return self._names

    @cached_property
    def languages(self) -> Mapping[str, int]:
        """The symbols that say which language a model writes, such as `>>fra<<`, and their ids."""
        return {piece: token for piece, token in self._id_of_piece.items() if SYMBOL.fullmatch(piece)}

    def with_languages(self, codes: Iterable[str]) -> Self:
        """This vocabulary with one more entry for each language that a model is to be told to write."""
        return self._with_pieces([*dict.fromkeys([*self._pieces, *(f">>{code}<<" for code in codes)])])

    @property
    def vocab_size(self) -> int:
        """Number of entries, including control symbols; ids are below it."""
        return len(self._names)

    def encode(self, text: str) -> list[int]:
        """The ids of `text`, without start and end symbols; a piece that is no entry is the unknown symbol.

        Raises:
            DataError: `text` contains half a surrogate pair, which UTF-8 cannot encode.
        """
        return self.encode_batch([text])[0]

    def _with_pieces(self, pieces: Sequence[str]) -> Self:
        raise NotImplementedError


def _in_print(character: str) -> str:
    if character == " ":
        return "▁"
    if character.isprintable():
        return character
    return "".join(f"<0x{byte:02X}>" for byte in character.encode(errors="surrogateescape"))


def require_pieces(pieces: object) -> None:
    """Raise ValueError if a vocabulary is not usable; says why."""
    if not isinstance(pieces, list | tuple) or not all(isinstance(piece, str) for piece in pieces):
        raise ValueError("its pieces are no strings")
    if not 0 < len(pieces) <= MAX_ENTRIES - len(CONTROL_SYMBOLS):
        raise ValueError(f"it has {len(pieces):,} pieces")
    if "" in pieces or len(set(pieces)) < len(pieces) or not set(CONTROL_SYMBOLS).isdisjoint(pieces):
        raise ValueError("a piece is empty, occurs twice, or is the name of a control symbol")
    require_unicode("".join(pieces))


def require_unicode(text: str) -> None:
    """Raise ValueError if a text has half a surrogate pair."""
    if any("\ud800" <= character <= "\udfff" for character in text):
        raise ValueError("a piece is not valid Unicode")


def split_symbol(text: str, symbols: Container[str]) -> tuple[str, str]:
    """The symbol for a language that a text begins with, and the white space behind it; and the rest."""
    found = SYMBOL.match(text)
    return (found[0], text[found.end() :]) if found and found[1] in symbols else ("", text)


@contextmanager
def surrogate_errors(texts: Sequence[str]) -> Iterator[None]:
    """Convert a library's error for a string that UTF-8 cannot encode into one that says where."""
    try:
        yield
    except (TypeError, RuntimeError, UnicodeEncodeError):
        for number, text in enumerate(texts, start=1):
            try:
                text.encode()
            except UnicodeEncodeError as error:
                place = f"text {number}: " if len(texts) > 1 else ""
                raise surrogate_error(error, place) from None
        raise


def surrogate_error(error: UnicodeEncodeError, place: str = "") -> DataError:
    """The error for a string that UTF-8 cannot encode."""
    return DataError(
        f"{place}half a surrogate pair at character {error.start + 1}; remove it", label="E-UTF8"
    )
