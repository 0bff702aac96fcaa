"""Byte-pair encoding of words as Moses has them, by subword-nmt or fastBPE: pieces like `run@@ ning`.

Older models of OPUS-MT and Argos Translate have such vocabularies. Text is normalised and split into words by
the rules of Moses for its language, and put together again by these rules. What is encoded and decoded is
therefore not always the same text.
"""

import json
import re
from collections.abc import Hashable, Iterable, Iterator, Sequence
from functools import cache
from html import unescape
from itertools import pairwise
from pathlib import Path
from typing import Any, Final, NamedTuple, Self

from allyouneed.data.tokenizer import ListedTokenizer, require_pieces, require_unicode, surrogate_errors
from allyouneed.data.words import characters_of_bytes, words_of_bytes
from allyouneed.errors import UsageError
from allyouneed.storage import publish
from allyouneed.symbols import CONTROL_SYMBOLS, UNKNOWN

KIND: Final = "moses_bpe"
"""Value of `kind` in the files."""
STEPS: Final = "control_characters", "hyphens", "unicode_punctuation"
"""Steps that some models had besides: control characters are removed; hyphens within words are words, `@-@`;
and the punctuation of Chinese and Japanese becomes that of ASCII."""
_END, _GOES_ON = "</w>", "@@"
_VERSIONS: Final = {"": True, "0.1": True, "0.2": False}
"""Version in the first line of a file -> whether the end of a word is a symbol of its own."""
_MOST_MERGES: Final = 1_000_000
_LANGUAGE: Final = re.compile(r"[a-z]{2,3}")
_ENTITY: Final = re.compile(r"&(?:#\d+|[a-z]+);|.", re.DOTALL)
_DOTS: Final = re.compile(r"(\.{100})(?=\.)")
"""Rows of dots, for which rules of Moses take quadratic time."""
_MOST_CACHED, _LONGEST_CACHED = 1 << 16, 100
"""Number of words whose pieces are remembered, and their greatest length."""
_LONGEST_WORD: Final = 500
"""Number of characters above which a word is encoded in parts: merging takes quadratic time."""

Merge = tuple[str, str]


class Codes(NamedTuple):
    """Merges, in the order in which they were learned."""

    merges: tuple[Merge, ...]
    ends_apart: bool = False
    """Whether the end of a word is a symbol of its own, as in the first version of the format."""

    @classmethod
    def read(cls, content: bytes) -> Self:
        """Read the file of merges of subword-nmt, or of fastBPE, which has a number behind each merge.

        Raises:
            ValueError: It is no such file; says why.
        """
        try:
            first, *lines = content.decode().rstrip("\n").split("\n")
        except UnicodeDecodeError:
            raise ValueError("it is not UTF-8") from None
        version = ""
        if first.startswith("#version:"):
            version = re.sub(r"(\.0+)*\Z", "", first.removeprefix("#version:").strip())
        else:
            lines = [first, *lines]
        if version not in _VERSIONS:
            raise ValueError(f"its version is {version[:20]!r}")
        if len(lines) > _MOST_MERGES:
            raise ValueError(f"it has more than {_MOST_MERGES:,} merges")
        parts = [line.strip("\r ").split(" ") for line in lines]
        has_counts = bool(parts) and not version and len(parts[0]) == 3 and parts[0][2].isdigit()
        for number, each in enumerate(parts, start=2 if version else 1):
            if len(each) != 2 + has_counts or not all(each):
                raise ValueError(f"line {number} has not two pieces")
        merges = dict.fromkeys((each[0], each[1]) for each in parts)
        return cls(tuple(merges), ends_apart=not has_counts and _VERSIONS[version])


class MosesBpeTokenizer(ListedTokenizer):
    """Converts text to ids and back as models with Moses' words expect.

    Args:
        codes: Merges.
        pieces: Pieces in the order of their ids, without control symbols; those that do not end a word end
            in `@@`.
        language: Code of two or three letters of the language, whose rules apply, as far as Moses has some.
        steps: Those of `STEPS` that the text goes through.

    Raises:
        UsageError: `sacremoses` is not installed.
    """

    def __init__(self, codes: Codes, pieces: Sequence[str], language: str, steps: Iterable[str] = ()) -> None:
        super().__init__(pieces)
        self._codes, self._language, self._steps = codes, language, tuple(sorted(steps))
        self._ranks = {merge: rank for rank, merge in enumerate(codes.merges)}
        self._cached: dict[str, list[str]] = {}
        self._moses = _Moses.of(language, self._steps)

    def for_language(self, language: str) -> Self:
        """The same pieces with the rules of another language."""
        return type(self)(self._codes, self._pieces, language, self._steps)

    @classmethod
    def from_description(cls, description: dict[str, Any]) -> Self:
        """Make a tokeniser from the JSON of a file.

        Raises:
            ValueError: The JSON is not what `save` writes; says why.
            UsageError: `sacremoses` is not installed.
        """
        if description.keys() != {"kind", "language", "steps", "ends_apart", "merges", "pieces"}:
            raise ValueError("it has other parts than ours")
        merges, pieces, steps = (description[name] for name in ("merges", "pieces", "steps"))
        for each in (merges, pieces, steps):
            if not isinstance(each, list) or not all(isinstance(one, str) for one in each):
                raise ValueError("its merges, pieces or steps are no strings")
        pairs = [(first, second) for first, _, second in (merge.partition(" ") for merge in merges)]
        if not all(map(all, pairs)) or len(pairs) > _MOST_MERGES or not {*steps} <= {*STEPS}:
            raise ValueError("a merge is not of two pieces, there are too many, or a step is not known")
        if not isinstance(description["language"], str) or not _LANGUAGE.fullmatch(description["language"]):
            raise ValueError("its language is no code")
        if not isinstance(description["ends_apart"], bool):
            raise ValueError("ends_apart is not true or false")
        require_pieces(pieces)
        require_unicode("".join(merges))
        codes = Codes(tuple(pairs), description["ends_apart"])
        return cls(codes, pieces, description["language"], steps)

    def save(self, path: Path) -> None:
        """Write one JSON file."""
        description = {
            "kind": KIND,
            "language": self._language,
            "ends_apart": self._codes.ends_apart,
            "steps": self._steps,
            "merges": [" ".join(merge) for merge in self._codes.merges],
            "pieces": self._pieces,
        }
        publish.write_text(path, json.dumps(description, ensure_ascii=False, indent=1))

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        """Encode many texts; see `encode`."""
        with surrogate_errors(texts):
            of_texts = [self._split(text) for text in texts]
        return [[self._id_of_piece.get(piece, UNKNOWN) for piece in pieces] for pieces in of_texts]

    def merges(self) -> dict[tuple[int, int], tuple[int, int]]:
        """None that others could apply.

        Raises:
            UsageError: Always, as these merges are of words of Moses.
        """
        raise UsageError(
            "sub-word dropout needs a vocabulary of our own; leave out bpe_dropout", settings=["bpe_dropout"]
        )

    def offsets(self, text: str) -> list[tuple[int, int]]:
        """For each piece of `encode(text)`, its begin and end in `text`; see `Tokenizer.offsets`."""
        with surrogate_errors([text]):
            return _places(self._split(text), text)

    def decode(self, ids: Sequence[int]) -> str:
        """Decode ids to one line of text; see `Tokenizer.decode`."""
        written = " ".join(self._names[token] for token in ids if token > UNKNOWN)
        words = f"{written} ".replace(f"{_GOES_ON} ", "").split()
        return self._moses.joined(words).replace("\n", " ").replace("\r", " ")

    def spans(self, ids: Sequence[int]) -> list[tuple[int, int]]:
        """For each id, its begin and end in `decode(ids)`; see `Tokenizer.spans`."""
        return _places([self._names[token] if token > UNKNOWN else "" for token in ids], self.decode(ids))

    def words(self, ids: Iterable[int]) -> list[int | None]:
        """For each id, the index of its word in `decode(ids)`; see `Tokenizer.words`."""
        given = [*ids]
        content = self.decode(given).encode()
        found = dict(zip(characters_of_bytes(content), words_of_bytes(content), strict=True))
        return [
            next((found[place] for place in range(*span) if found.get(place) is not None), None)
            for span in self.spans(given)
        ]

    def content(self, token: int) -> bytes:
        """The bytes of a token; empty for a control symbol."""
        if token < len(CONTROL_SYMBOLS):
            return b""
        name = self._names[token]
        whole = name.removesuffix(_GOES_ON)
        return (unescape(whole) + ("" if whole != name else " ")).encode()

    def _split(self, text: str) -> list[str]:
        """The pieces of a text."""
        text.encode()
        return [piece for word in self._moses.split(text) for piece in self._pieces_of(word)]

    def _pieces_of(self, word: str) -> list[str]:
        """The pieces of a word, of which all but the last go on."""
        if (found := self._cached.get(word)) is not None:
            return found
        begins = range(0, len(word), _LONGEST_WORD)
        parts = [self._merged(word[begin : begin + _LONGEST_WORD]) for begin in begins]
        *before, last = [piece for part in parts for piece in part]
        found = [*(piece + _GOES_ON for piece in before), last]
        if len(self._cached) < _MOST_CACHED and len(word) <= _LONGEST_CACHED:
            self._cached[word] = found
        return found

    def _merged(self, word: str) -> list[str]:
        """The pieces of a word: the earliest learned merge first, everywhere, as long as there is one."""
        if len(word) == 1:
            return [word]
        symbols = [*word, _END] if self._codes.ends_apart else [*word[:-1], word[-1] + _END]
        never = len(self._ranks)
        while len(symbols) > 1:
            first = min(pairwise(symbols), key=lambda pair: self._ranks.get(pair, never))
            if first not in self._ranks:
                break
            merged, place = list[str](), 0
            while place < len(symbols):
                is_here = (symbols[place], symbols[place + 1 : place + 2]) == (first[0], [first[1]])
                merged.append("".join(first) if is_here else symbols[place])
                place += 1 + is_here
            symbols = merged
        return [*filter(None, [*symbols[:-1], symbols[-1].removesuffix(_END)])]

    def _print_piece(self, token: int) -> str:
        return self._names[token]

    def _with_pieces(self, pieces: Sequence[str]) -> Self:
        return type(self)(self._codes, pieces, self._language, self._steps)

    def _identity(self) -> Hashable:
        return self._codes, self._pieces, self._language, self._steps


class _Moses(NamedTuple):
    """The rules of Moses for a language."""

    normalizer: Any
    tokenizer: Any
    detokenizers: Sequence[Any]
    splits_hyphens: bool

    @classmethod
    @cache
    def of(cls, language: str, steps: tuple[str, ...]) -> "_Moses":
        try:
            from sacremoses import MosesDetokenizer, MosesPunctNormalizer, MosesTokenizer
        except ModuleNotFoundError:
            raise UsageError(
                "vocabularies of Moses' words need sacremoses; install it: pip install 'allyouneed[moses]'",
                settings=["tokenizer"],
            ) from None
        normalizer = MosesPunctNormalizer(
            language,
            pre_replace_unicode_punct="unicode_punctuation" in steps,
            post_remove_control_chars="control_characters" in steps,
        )
        detokenizers = MosesDetokenizer(language), MosesDetokenizer("en")
        return cls(normalizer, MosesTokenizer(language), detokenizers, "hyphens" in steps)

    def split(self, text: str) -> list[str]:
        """The words of a text, with entities for signs that mean something to Moses."""
        normalized = self.normalizer.normalize(_DOTS.sub(r"\1 ", text))
        words = self.tokenizer.tokenize(normalized, aggressive_dash_splits=self.splits_hyphens)
        return " ".join(words).split()

    def joined(self, words: Sequence[str]) -> str:
        """The text of words."""
        own, of_english = self.detokenizers
        try:
            text: str = own.detokenize([*words])
        except TypeError:
            text = ""
        if _letters(text) != _letters(unescape(" ".join(words))):  # sacremoses 0.2 on `e ' - mail` in Czech
            text = of_english.detokenize(words)
        return text


def _letters(text: str) -> str:
    return "".join(filter(str.isalnum, text))


def _places(pieces: Sequence[str], text: str) -> list[tuple[int, int]]:
    """Where pieces are in a text that has the same letters and digits in this order.

    Other signs may differ, and stand elsewhere between the same letters; one that is missing has an empty
    place. All pieces of an entity have the place of its sign.
    """
    letters = [place for place, sign in enumerate(text) if sign.isalnum()]
    places, end, number = list[tuple[int, int]](), 0, 0
    for pieces_of_word in _words(pieces):
        of_signs = list[tuple[int, int]]()
        signs = [*_ENTITY.finditer("".join(piece.removesuffix(_GOES_ON) for piece in pieces_of_word))]
        for sign in signs:
            is_letter = unescape(sign[0]).isalnum()
            if is_letter and number < len(letters):
                begin, number = letters[number], number + 1
            else:
                behind = letters[number] if number < len(letters) else len(text)
                begin = next((n for n in range(end, behind) if not text[n].isspace()), -1)
            of_signs += [(begin, begin + 1) if begin >= 0 else (end, end)] * len(sign[0])
            end = of_signs[-1][1] if of_signs else end
        first = 0
        for piece in pieces_of_word:
            last = first + len(piece.removesuffix(_GOES_ON))
            of_piece = of_signs[first:last] or [(end, end)]
            places.append((of_piece[0][0], of_piece[-1][1]))
            first = last
    return places


def _words(pieces: Sequence[str]) -> Iterator[list[str]]:
    """Pieces in groups of words."""
    word = list[str]()
    for piece in pieces:
        word.append(piece)
        if not piece.endswith(_GOES_ON):
            yield word
            word = []
    if word:
        yield word
