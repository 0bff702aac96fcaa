"""Trees as sequences of symbols, and back (paper 6.3, after Vinyals et al. 2015, arXiv:1412.7449).

`(TOP (S (NP (PRP She)) (VP (VBZ sleeps))))` is `(S (NP XX )NP (VP XX )VP )S`: labelled brackets, and one
symbol per word in place of the word itself, which the source has. The root is left out if another constituent
covers the whole sentence. Symbols have their own vocabulary, so no text can contain them.

Joined brackets, `(S(NP )1 (VP )2`, are our own form with a fixed number of symbols per word: what opens
before it, optionally its part of speech, and how many constituents end after it. So a model need not track
its place: the third word has the fifth and sixth symbol, or the seventh to ninth with three symbols per word.
With four, the word itself comes first.
"""

import string
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, Literal, NamedTuple

from allyouneed.tasks.parsing.trees import ROOT, Constituent, Tree, labels_around_words

Tags = Literal["normalised", "predicted", "endings", "words"]
Brackets = Literal["labelled", "plain", "joined"]

TAGGED: Final = ("predicted", "words")
"""Forms of word symbols that have parts of speech."""

WORD: Final = "XX"
"""Symbol of a word whose part of speech is not given."""

ENDINGS: Final = (*string.ascii_lowercase, "0", WORD)
"""All values of `ending`."""


def linearise(tree: Tree, tags: Tags = "normalised", brackets: Brackets = "labelled") -> list[str]:
    """The symbols of a tree.

    Args:
        tree: A cleaned tree.
        tags: Symbol of a word. "normalised": always `XX`; "predicted": its part of speech; "endings": its
            last letter, which tells model and search which word they are at; "words": its part of speech,
            and the word itself, as `form`, before its brackets, which must be joined.
        brackets: "labelled": a constituent ends with `)NP`; "plain": with `)`; "joined": one symbol for all
            constituents that open before a word, `(` if there are none, and one for the number that end
            after it, with the word's own symbol between them unless that is `XX`.
    """
    symbols, constituents = [], tree.constituents
    inner = constituents[1:]
    if inner and inner[0].label != ROOT and inner[0].end - inner[0].start == len(tree.words):
        constituents = inner  # without the root, as the one inside it covers the same words
    around = labels_around_words(constituents, len(tree.words))
    for word, tag, (begun, ended) in zip(tree.words, tree.tags, around, strict=True):
        symbol = {"normalised": WORD, "endings": ending(word)}.get(tags, tag)
        if brackets == "joined":
            symbols += [form(word)] * (tags == "words")
            symbols.append("(" + "(".join(begun))
            symbols += [symbol] * (tags != "normalised")
            symbols.append(f"){len(ended)}")
        else:
            symbols += ["(" + label for label in begun]
            symbols.append(symbol)
            symbols += [")" + label * (brackets == "labelled") for label in ended]
    return symbols


def symbols_per_word(tags: Tags) -> int:
    """Number of symbols per word with joined brackets."""
    return {"normalised": 2, "predicted": 3, "endings": 3, "words": 4}[tags]


def unjoined(symbols: Iterable[str], tags: Tags) -> Iterator[str]:
    """Convert symbols with joined brackets to symbols with plain brackets, without words."""
    for symbol in symbols:
        if is_word(symbol):
            continue
        if symbol.startswith("("):
            yield from ("(" + label for label in symbol.split("(") if label)
        elif symbol.startswith(")"):
            yield from [WORD] * (tags == "normalised") + [")"] * int(symbol[1:])
        else:
            yield symbol


def form(word: str) -> str:
    """The symbol of a word as written."""
    return f"form {word}"


def is_word(symbol: str) -> bool:
    """Whether a symbol is of a word, not of a tree: only these have a space."""
    return " " in symbol


def ending(word: str) -> str:
    """The last letter of a word, in lower case; `0` for a digit, `XX` for anything else."""
    last = word[-1].lower()
    return "0" if last in string.digits else last if last in ENDINGS else WORD


class BuiltTree(NamedTuple):
    """A tree built from symbols, and whether the symbols were well-formed: one tree with a leaf per word."""

    tree: Tree
    well_formed: bool


def build_tree(symbols: Iterable[str], words: Sequence[str]) -> BuiltTree:
    """The inverse of `linearise`, for any symbols without end symbol: malformed trees are repaired.

    A closing bracket closes the innermost constituent of its label, and everything open inside that. It is
    dropped if there is no such constituent. Empty constituents, and word symbols beyond the last word, are
    dropped too. Words left over go into the innermost open constituent, or into the root. Constituents that
    are never closed end with the sentence. There is at least one word.
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
    """A tree under construction, inside an implied root."""

    def __init__(self, words: Sequence[str]) -> None:
        self._words = tuple(words)
        self._tags: list[str] = []
        self._constituents: list[Constituent] = []
        self._open: list[int] = []  # indices into `_constituents`
        self._num_roots = 0
        self._well_formed = True

    def begin(self, label: str) -> None:
        self._num_roots += not self._open
        self._open.append(len(self._constituents))
        self._constituents.append(Constituent(label, len(self._tags), -1))

    def end(self, label: str) -> None:
        """Close the innermost constituent with this label, or with any label if it is empty."""
        depths = reversed(range(len(self._open)))
        depth = next((d for d in depths if label in ("", self._constituents[self._open[d]].label)), None)
        self._well_formed &= depth is not None and depth == len(self._open) - 1
        while depth is not None and len(self._open) > depth:
            self._close_innermost()

    def add(self, tag: str) -> None:
        self._well_formed &= bool(self._open) and len(self._tags) < len(self._words)
        if len(self._tags) < len(self._words):
            self._tags.append(tag)

    def built(self) -> BuiltTree:
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
