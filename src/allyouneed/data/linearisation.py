"""Trees as sequences of symbols, and back (paper 6.3, after Vinyals et al. 2015, arXiv:1412.7449).

`(TOP (S (NP (PRP She)) (VP (VBZ sleeps))))` is `(S (NP XX )NP (VP XX )VP )S`: brackets with their labels, one
symbol for each word, and not the words, which are those of the source. The root is left out where a
constituent covers all of it. A symbol is an entry of a vocabulary of its own, which no text can reach.

Joined brackets, `(S(NP )1 (VP )2`, are a form of ours with a fixed number of symbols for each word: what
opens before it, perhaps its part of speech, and how many constituents end after it. So a model need not find
its place: the symbols of the third word are the fifth and the sixth, or of three the seventh to the ninth.
"""

import json
import re
import string
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final, Literal, NamedTuple, Self

from allyouneed import publish
from allyouneed.data.tokenizer import CONTROL_SYMBOLS
from allyouneed.data.trees import ROOT, Constituent, Tree, tree_of, without_unary_cycles
from allyouneed.errors import DataError, ModelError
from allyouneed.symbols import UNKNOWN

Tags = Literal["normalised", "predicted", "endings"]
Brackets = Literal["labelled", "plain", "joined"]

WORD: Final = "XX"
"""What stands for a word whose part of speech is not told."""

ENDINGS: Final = (*string.ascii_lowercase, "0", WORD)
"""What `ending` gives."""

_JOINED = re.compile(r"[^)].*|\)[0-9]{1,5}", re.DOTALL)
_FORMAT = "allyouneed tree symbols"
_FORMAT_VERSION = 1


def linearise(tree: Tree, tags: Tags = "normalised", brackets: Brackets = "labelled") -> list[str]:
    """The symbols of a tree.

    Args:
        tree: Cleaned.
        tags: "normalised": every word is `XX`; "predicted": its part of speech; "endings": its last letter,
            by which model and search know which word they are at.
        brackets: "labelled": a constituent ends with `)NP`; "plain": with `)`; "joined": one symbol for all
            that open before a word, `(` if none does, and one for how many end after it, with the word's
            own between them unless it is `XX`.
    """
    symbols = []
    for word, tag, begun, ended in zip(tree.words, tree.tags, *_labels_around_words(tree), strict=True):
        symbol = {"normalised": WORD, "predicted": tag, "endings": ending(word)}[tags]
        if brackets == "joined":
            symbols.append("(" + "(".join(begun))
            symbols += [symbol] * (tags != "normalised")
            symbols.append(f"){len(ended)}")
        else:
            symbols += ["(" + label for label in begun]
            symbols.append(symbol)
            symbols += [")" + label * (brackets == "labelled") for label in ended]
    return symbols


def symbols_per_word(tags: Tags) -> int:
    """How many symbols stand for a word where brackets are joined."""
    return 2 if tags == "normalised" else 3


def unjoined(symbols: Iterable[str], tags: Tags) -> Iterator[str]:
    """Symbols of the joined form as those of the plain one."""
    for symbol in symbols:
        if symbol.startswith("("):
            yield from ("(" + label for label in symbol.split("(") if label)
        elif symbol.startswith(")"):
            yield from [WORD] * (tags == "normalised") + [")"] * int(symbol[1:])
        else:
            yield symbol


def ending(word: str) -> str:
    """The last letter of a word, small; `0` of a digit, `XX` of anything else."""
    last = word[-1].lower()
    return "0" if last in string.digits else last if last in ENDINGS else WORD


def _labels_around_words(tree: Tree) -> tuple[list[list[str]], list[list[str]]]:
    """The labels of what begins before each word, the outermost first, and of what ends after it."""
    begun: list[list[str]] = [[] for _ in tree.words]
    ended: list[list[str]] = [[] for _ in tree.words]
    for label, start, end in _without_root(tree):
        begun[start].append(label)
        ended[end - 1].insert(0, label)
    return begun, ended


def _without_root(tree: Tree) -> tuple[Constituent, ...]:
    """The constituents, without a root that says nothing: one inside it covers the same words."""
    inner = tree.constituents[1:]
    covered = inner and inner[0].label != ROOT and inner[0].end - inner[0].start == len(tree.words)
    return inner if covered else tree.constituents


class BuiltTree(NamedTuple):
    """A tree made of symbols, and whether these were a tree of so many words."""

    tree: Tree
    well_formed: bool


def build_tree(symbols: Iterable[str], words: Sequence[str]) -> BuiltTree:
    """The inverse of `linearise`, for any symbols: what is no tree is repaired.

    A closing bracket closes the innermost constituent of its label, with all that is open inside it, and
    is left out where there is none; so are empty constituents, and symbols of words where there are no
    words left. Words that are left over go into what is still open, or into the root. What is never closed
    ends with the sentence.

    Args:
        symbols: Of a model, without end symbol.
        words: The leaves, at least one.
    """
    builder = _Builder(words)
    for symbol in symbols:
        if symbol.startswith("("):
            builder.begin(symbol[1:])
        elif symbol.startswith(")"):
            builder.end(symbol[1:])
        else:
            builder.add(symbol)
    return builder.built()


class _Builder:
    """A tree as it grows, inside an implied root."""

    def __init__(self, words: Sequence[str]) -> None:
        self._words = tuple(words)
        self._tags: list[str] = []
        self._constituents: list[Constituent] = []
        self._open: list[int] = []  # places among the constituents
        self._num_roots = 0
        self._well_formed = True

    def begin(self, label: str) -> None:
        """Begin a constituent."""
        self._num_roots += not self._open
        self._open.append(len(self._constituents))
        self._constituents.append(Constituent(label, len(self._tags), -1))

    def end(self, label: str) -> None:
        """Close the innermost constituent of this label, or of any if none is given."""
        depths = reversed(range(len(self._open)))
        depth = next((d for d in depths if label in ("", self._constituents[self._open[d]].label)), None)
        self._well_formed &= depth is not None and depth == len(self._open) - 1
        while depth is not None and len(self._open) > depth:
            self._close_innermost()

    def add(self, tag: str) -> None:
        """Add the next word."""
        self._well_formed &= bool(self._open) and len(self._tags) < len(self._words)
        if len(self._tags) < len(self._words):
            self._tags.append(tag)

    def built(self) -> BuiltTree:
        """The whole."""
        self._well_formed &= not self._open and self._num_roots == 1
        while len(self._tags) < len(self._words):
            self._well_formed = False
            self._tags.append(WORD)
        while self._open:
            self._close_innermost()
        constituents = [c for c in self._constituents if c.start < c.end]
        whole = Constituent(ROOT, 0, len(self._words))
        if constituents[:1] != [whole]:
            constituents.insert(0, whole)
        return BuiltTree(Tree(self._words, tuple(self._tags), tuple(constituents)), self._well_formed)

    def _close_innermost(self) -> None:
        place = self._open.pop()
        closed = self._constituents[place]._replace(end=len(self._tags))
        self._constituents[place] = closed
        self._well_formed &= closed.start < closed.end


class TreeVocabulary:
    """Symbols of trees to ids and back; what `Tokenizer` is for text. Made by `learn` or `load`.

    Args:
        symbols: Every one, the control symbols first.
        tags: As of `linearise`.
        brackets: Likewise.
    """

    def __init__(self, symbols: Sequence[str], tags: Tags, brackets: Brackets) -> None:
        self.symbols, self.tags, self.brackets = tuple(symbols), tags, brackets
        self._ids = {symbol: token for token, symbol in enumerate(symbols)}

    @classmethod
    def learn(cls, texts: Iterable[str], tags: Tags, brackets: Brackets) -> Self:
        """The symbols of some trees in brackets, the most frequent first.

        Raises:
            DataError: One of them is no tree, or has a tag that is called as a control symbol is.
        """
        counts: Counter[str] = Counter()
        for text in texts:
            counts.update(linearise(without_unary_cycles(tree_of(text)), tags, brackets))
        if reserved := [symbol for symbol in CONTROL_SYMBOLS if symbol in counts]:
            raise DataError(f"{reserved[0]} is the tag of a word, but reserved here; rename it in the trees")
        if tags == "endings":
            counts.update(dict.fromkeys(ENDINGS, 0))  # no word ends in what is unknown
        if brackets == "joined":
            counts.update(dict.fromkeys(_all_joined(counts), 0))
        in_order = sorted(counts, key=lambda symbol: (-counts[symbol], symbol))
        return cls([*CONTROL_SYMBOLS, *in_order], tags, brackets)

    @classmethod
    def load(cls, path: Path) -> Self:
        """Read what `save` has written.

        Raises:
            ModelError: The file is missing, damaged, or no vocabulary of trees.
            DiskError: The file may not be read.
        """
        content = publish.read_published(path)
        try:
            found = json.loads(content)
            symbols, tags, brackets = found["symbols"], found["tags"], found["brackets"]
            is_one = found["format"] == _FORMAT and found["format_version"] == _FORMAT_VERSION
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise ModelError(
                f"{path}: is damaged or no vocabulary of trees ({error}); take another copy"
            ) from None
        if not (
            is_one
            and tags in ("normalised", "predicted", "endings")
            and brackets in ("labelled", "plain", "joined")
            and isinstance(symbols, list)
            and all(isinstance(symbol, str) for symbol in symbols)
            and tuple(symbols[: len(CONTROL_SYMBOLS)]) == CONTROL_SYMBOLS
            and len(set(symbols)) == len(symbols)
            and (brackets != "joined" or all(re.fullmatch(_JOINED, symbol) for symbol in symbols))
        ):
            raise ModelError(
                f"{path}: is no vocabulary of trees that this version reads; prepare the data again"
            )
        return cls(symbols, tags, brackets)

    def save(self, path: Path) -> None:
        """Write one JSON file."""
        content = {
            "format": _FORMAT,
            "format_version": _FORMAT_VERSION,
            "tags": self.tags,
            "brackets": self.brackets,
            "symbols": self.symbols,
        }
        publish.write_text(path, json.dumps(content, ensure_ascii=False, indent=1))

    def __eq__(self, other: object) -> bool:
        """Whether both give every tree the same ids."""
        return isinstance(other, TreeVocabulary) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    @property
    def vocab_size(self) -> int:
        """Entries, control symbols included; ids are below it."""
        return len(self.symbols)

    def encode(self, text: str) -> list[int]:
        """The ids of a tree in brackets, without its unary cycles; a symbol that was not learned is unknown.

        Raises:
            DataError: It is no tree.
        """
        tree = without_unary_cycles(tree_of(text))
        return [self._ids.get(symbol, UNKNOWN) for symbol in linearise(tree, self.tags, self.brackets)]

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        """`encode` for many."""
        return [self.encode(text) for text in texts]

    def decode(self, ids: Sequence[int], words: Sequence[str]) -> BuiltTree:
        """The tree of ids over words, without unary cycles, of which none were learned.

        Control symbols are left out, and make it ill-formed.
        """
        symbols = [self.symbols[token] for token in ids if token > UNKNOWN]
        built = build_tree(unjoined(symbols, self.tags) if self.brackets == "joined" else symbols, words)
        tree = without_unary_cycles(built.tree)
        if self.tags == "endings":
            tree = replace(tree, tags=(WORD,) * len(words))
        return BuiltTree(tree, built.well_formed and all(token > UNKNOWN for token in ids))

    def _key(self) -> tuple[tuple[str, ...], str, str]:
        return self.symbols, self.tags, self.brackets


def _all_joined(seen: Iterable[str]) -> Iterator[str]:
    """What any tree can be written with that is no deeper: no label, each alone, each number of ends."""
    yield "("
    most = 0
    for symbol in seen:
        if symbol.startswith("("):
            yield from unjoined([symbol], "predicted")
        elif symbol.startswith(")"):
            most = max(most, int(symbol[1:]))
    yield from (f"){number}" for number in range(most + 1))
