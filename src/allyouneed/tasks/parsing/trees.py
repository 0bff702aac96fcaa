"""Constituency trees in Penn brackets: read and written, however deep they are (paper 6.3).

A tree is kept flat, as words, tags and the spans of its constituents, so that nothing here is recursive.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from allyouneed.data.lines import LineCounts, read_lines
from allyouneed.errors import DataError

ROOT = "TOP"
"""The label of every tree's root."""

TRACE = "-NONE-"
"""The tag of what is not written, such as the place that a question word was moved from."""

_NAMES_OF_ROOTS = {"", "ROOT", "S1", "VROOT", ROOT}  # in the treebanks and outputs of parsers that there are
_BRACKET_NAMES = {"(": "-LRB-", ")": "-RRB-", "[": "-LSB-", "]": "-RSB-", "{": "-LCB-", "}": "-RCB-"}
_BRACKETS = {name: bracket for bracket, name in _BRACKET_NAMES.items()}
_ESCAPED = re.compile("|".join([*_BRACKETS, r"\\[/*]"]))
_TO_ESCAPE = re.compile(r"[][(){}/*]")
_SPACE = re.compile(r"[ \t\n\r\f\v]")
_TOKEN = re.compile(r"[()]|[^() \t\n\r\f\v]+")


class Constituent(NamedTuple):
    """A label over the words from `start` up to, not including, `end`."""

    label: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Tree:
    """A sentence and its constituents, the root first, each before those inside it and those to its right."""

    words: tuple[str, ...]
    """As one would write them: a bracket is a bracket."""
    tags: tuple[str, ...]
    """The part of speech of each word."""
    constituents: tuple[Constituent, ...]
    """None is empty; the first is the root, `TOP`, over all words."""

    def __str__(self) -> str:
        """Penn brackets on one line: `(TOP (S (NP (PRP She)) (VP (VBZ sleeps))))`."""
        return "".join(_pieces(self, lambda depth: " ")).lstrip()

    def indented(self) -> str:
        """Penn brackets with each constituent on a line of its own."""
        return "".join(_pieces(self, lambda depth: "\n" + "  " * depth)).lstrip()


def _pieces(tree: Tree, before: Callable[[int], str]) -> Iterator[str]:
    """The brackets from left to right, with what `before` says of a depth in front of each constituent."""
    depth = 0
    around = labels_around_words(tree.constituents, len(tree.words))
    for word, tag, (begun, ended) in zip(tree.words, tree.tags, around, strict=True):
        for label in begun:
            yield f"{before(depth)}({_without_brackets(label)}"
            depth += 1
        yield f" ({_without_brackets(tag)} {word if tag == TRACE else escaped(word)})" + ")" * len(ended)
        depth -= len(ended)


def labels_around_words(
    constituents: Iterable[Constituent], num_words: int
) -> Iterator[tuple[list[str], list[str]]]:
    """What begins before each word, the outermost first, and what ends after it, the innermost first.

    Args:
        constituents: In the order of a tree.
        num_words: Of the whole.
    """
    begun: list[list[str]] = [[] for _ in range(num_words)]
    ended: list[list[str]] = [[] for _ in range(num_words)]
    for label, start, end in constituents:
        begun[start].append(label)
        ended[end - 1].append(label)
    return ((first, last[::-1]) for first, last in zip(begun, ended, strict=True))


def escaped(word: str) -> str:
    r"""A word as treebanks have it: `-LRB-` for a bracket, `\/` for a slash, `\*` for an asterisk."""
    return _TO_ESCAPE.sub(lambda mark: _BRACKET_NAMES.get(mark[0], "\\" + mark[0]), one_word(word))


def unescaped(word: str) -> str:
    """What `escaped` gives of a word, undone; a word that spells out a bracket, `-LRB-`, is one."""
    return _ESCAPED.sub(lambda mark: _BRACKETS.get(mark[0], mark[0][1:]), word)


def sentences_of(trees: Iterable[Tree]) -> list[list[str]]:
    """The words of each, escaped: so parsers take them, and give them back as they are in the tree."""
    return [[escaped(word) for word in tree.words] for tree in trees]


def one_word(word: str) -> str:
    """The word with every space that would end it replaced by a no-break space."""
    return _SPACE.sub("\N{NO-BREAK SPACE}", word)


def _without_brackets(label: str) -> str:
    return one_word(label).replace("(", "-LRB-").replace(")", "-RRB-")


class PlacedTree(NamedTuple):
    """A tree and where it begins: the line, from 1, of a file."""

    tree: Tree
    line_number: int


def read_trees(
    file: Path, counts: LineCounts | None = None, notes: Counter[str] | None = None
) -> Iterator[PlacedTree]:
    """Read bracketed trees, over several lines each or several on a line, with all that they hold.

    Args:
        file: Plain or by its name `.gz` or `.zst`; `Path("-")` is standard input.
        counts: Of its lines.
        notes: What is worth telling is counted here.

    Raises:
        DataError: A bracket is missing or one too many, a constituent is empty, a word has no tag or a tag
            no word; or the file cannot be read. Names line and column.
    """
    yield from trees_in(read_lines(file, counts, allow_nul=False), str(file), notes)


def trees_in(lines: Iterable[str], name: str, notes: Counter[str] | None = None) -> Iterator[PlacedTree]:
    """As `read_trees`, of lines that have been read from the file of this name."""
    reader = _Reader(name, Counter() if notes is None else notes)
    for number, line in enumerate(lines, start=1):
        yield from reader.feed(number, line)
    reader.end()


def tree_of(text: str) -> Tree:
    """The tree that a text in brackets holds.

    Raises:
        DataError: It holds none, or more than one, or is no tree.
    """
    trees = list(trees_in([text], "the tree"))
    if len(trees) != 1:
        raise DataError(f"{len(trees)} trees where one is wanted; write one in brackets")
    return trees[0].tree


@dataclass(slots=True)
class _Node:
    """A bracket that is open."""

    line: int
    column: int
    start: int
    label: str = ""
    word: str | None = None
    place: int | None = None
    """Among the constituents, once it is known to be one."""


@dataclass
class _Reader:
    """Lines into trees; a tree may end on a later line than it begins."""

    file: str
    notes: Counter[str]
    _open: list[_Node] = field(default_factory=list)
    _words: list[str] = field(default_factory=list)
    _tags: list[str] = field(default_factory=list)
    _constituents: list[Constituent] = field(default_factory=list)
    _previous: str = ""
    """The token before, of whatever line."""

    def feed(self, number: int, line: str) -> Iterator[PlacedTree]:
        """The trees that end on this line."""
        begun = 0
        for match in _TOKEN.finditer(line):
            token, column = match[0], match.start() + 1
            if token == "(":
                begun += not self._open
                self._begin(number, column)
            elif not self._open:
                fault = "`)` without a `(`" if token == ")" else f"{token!r} outside of brackets"
                raise self._error(number, column, f"{fault}; take it out, or add what is missing before it")
            elif token == ")":
                if root := self._end(number, column):
                    yield PlacedTree(self._take(root), root.line)
            else:
                self._add(token, self._previous == "(", number, column)
            self._previous = token
        if begun > 1:
            self.notes["lines with more than one tree, all of which are read"] += 1

    def end(self) -> None:
        """Say that there are no more lines."""
        if self._open:
            root = self._open[0]
            raise self._error(
                root.line, root.column, f"the tree that begins here lacks {len(self._open)} `)`; add them"
            )

    def _begin(self, number: int, column: int) -> None:
        if self._open:
            parent = self._open[-1]
            if parent.word is not None:
                raise self._error(number, column, f"a bracket beside the word {parent.word!r}; give it a tag")
            if parent.place is None:
                if not parent.label and len(self._open) > 1:
                    raise self._error(
                        parent.line, parent.column, "a constituent without a label; give it one"
                    )
                parent.place = len(self._constituents)
                self._constituents.append(Constituent(parent.label, parent.start, -1))
        self._open.append(_Node(number, column, len(self._words)))

    def _add(self, token: str, is_label: bool, number: int, column: int) -> None:
        node = self._open[-1]
        if is_label:
            node.label = token
        elif node.place is not None or node.word is not None or not node.label:
            raise self._error(number, column, f"the word {token!r} without a tag; write (TAG {token})")
        else:
            node.word = token if node.label == TRACE else unescaped(token)

    def _end(self, number: int, column: int) -> _Node | None:
        """Close a bracket; the root, where it is the last one."""
        node = self._open.pop()
        if node.word is not None:
            self._words.append(node.word)
            self._tags.append(node.label)
        elif node.place is None:
            fault = f"({node.label}) holds no word; take it out, or write (TAG WORD)"
            raise self._error(node.line, node.column, fault)
        else:
            self._constituents[node.place] = Constituent(node.label, node.start, len(self._words))
        return None if self._open else node

    def _take(self, root: _Node) -> Tree:
        """The tree that has ended."""
        if root.place is not None and root.label in _NAMES_OF_ROOTS:
            self._constituents[0] = self._constituents[0]._replace(label=ROOT)
        else:
            self._constituents.insert(0, Constituent(ROOT, 0, len(self._words)))
        tree = Tree(tuple(self._words), tuple(self._tags), tuple(self._constituents))
        self._words, self._tags, self._constituents = [], [], []
        return tree

    def _error(self, line: int, column: int, fault: str) -> DataError:
        return DataError(f"{self.file}:{line}:{column}: {fault}", label="E-TREE")
