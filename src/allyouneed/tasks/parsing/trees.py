"""Reads and writes constituency trees in Penn brackets (paper 6.3), and tells words from what is none."""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple

from allyouneed.data.lines import LineCounts, read_lines
from allyouneed.errors import DataError


def without_function(label: str) -> str:
    """`NP` for `NP-SBJ-1` and `NP=2`, as in EVALB; labels that begin with `-`, as `-LRB-`, stay whole."""
    if label.startswith("-"):
        return label
    return label[:1] + re.split("[-=]", label[1:], maxsplit=1)[0]


TRACE: Final = "-NONE-"
"""Tag of a trace, which stands for no written word, such as the place that a question word was moved from."""

CODE: Final = "CODE"
"""Tag of any other node that is no word, such as the number of a page, or the ID of a sentence."""

NO_WORDS: Final = frozenset({TRACE, CODE})
"""Tags of all nodes that are no words, as a tree has them once it is read."""

CODES: Final = frozenset({CODE, "METADATA", "VERSION", "-DFL-"})
"""Labels below which nothing is a word; `-DFL-` is that of Switchboard's marks of disfluencies."""

COMMENTS: Final = frozenset({"COM", "COMMENT"})
"""Tags of comments, if these are in braces or angle brackets."""

TRACES: Final = frozenset({"T", "ICH", "CL", "con", "exp", "pro", "arb"})
"""Names between asterisks, in any case, that are traces without an index, too."""

_TRACE = re.compile(rf"\*[a-z]+\*-\d+|\*({'|'.join(sorted(TRACES))}|T\d+)\*", re.IGNORECASE)
_EMPTY = re.compile(r"0|\*(-\d+)?")
_TAG_OF_EMPTY = re.compile(r"(C|W[A-Z]*P|(NP|PP|ADVP|ADJP|CP|IP)(?=[-=]))([-=].*)?")  # no part of speech
_NUMERALS = ("NUM", "CD", "CARD")
_COMMENT_NODE = re.compile(r"\{.*\}|<.*>")
_WITH_LEMMA = re.compile(r"(.+)-([^-]+)")


class Constituent(NamedTuple):
    """A label over the words from `start` up to, not including, `end`."""

    label: str
    start: int
    end: int


def recognised(
    words: Sequence[str], tags: Sequence[str], constituents: Sequence[Constituent], notes: Counter[str]
) -> tuple[list[str], list[str]]:
    """The words of a tree, as spelled in the file, without lemmas, and its tags: `TRACE` or `CODE` for each
    node that is no word. `notes` counts findings.
    """
    # Whether the outermost bracket ends with the ID of a sentence, as in treebanks for CorpusSearch.
    ends_with_id = tags[-1] == "ID" and re.search(r"[\d,]", words[-1]) is not None
    historical = ends_with_id and all(end < len(words) for _, _, end in constituents[1:])
    marked = [_marked_tag(word, tag, historical) for word, tag in zip(words, tags, strict=True)]
    for label, start, end in constituents:
        if label in CODES:
            marked[start:end] = [CODE] * (end - start)
    if not historical:
        return list(words), marked
    marked[-1] = CODE
    kept = [place for place, tag in enumerate(marked) if tag not in NO_WORDS]
    found = dict(zip(kept, _without_lemmas([words[place] for place in kept]), strict=True))
    if num_lemmas := sum(words[place] != word for place, word in found.items()):
        notes["lemmas removed from words"] += num_lemmas
    return [found.get(place, word) for place, word in enumerate(words)], marked


def _marked_tag(word: str, tag: str, historical: bool) -> str:
    if tag == TRACE or (word[0] in "*0" and _is_trace(word, tag, historical)):
        return TRACE
    is_comment = tag in COMMENTS and _COMMENT_NODE.fullmatch(word) is not None
    is_comment = is_comment or (historical and word[0] + word[-1] == "{}")
    return CODE if tag in CODES or is_comment else tag


def _is_trace(word: str, tag: str, historical: bool) -> bool:
    if _TRACE.fullmatch(word):
        return True
    is_number = word == "0" and tag.startswith(_NUMERALS)
    expected = (historical and not is_number) or _TAG_OF_EMPTY.fullmatch(tag) is not None
    return expected and _EMPTY.fullmatch(word) is not None


def _without_lemmas(words: Sequence[str]) -> list[str]:
    """The words of a sentence with an ID without their lemmas: `fóru` for `fóru-fara`.

    A hyphen may be a word's own. It separates a lemma where a punctuation mark has one, as in `,-,`, or where
    all words have a hyphen and one equals its lemma.
    """
    pairs = [_WITH_LEMMA.fullmatch(word) for word in words]
    equal = [pair[1] for pair in pairs if pair and pair[1].lower() == pair[2].lower()]
    if any(not any(map(str.isalnum, word)) for word in equal) or (equal and all(pairs)):
        return [pair[1] if pair else word for word, pair in zip(words, pairs, strict=True)]
    return list(words)


ROOT = "TOP"
"""The label of every tree's root."""

_NAMES_OF_ROOTS = {"", "ROOT", "S1", "VROOT", ROOT}  # in existing treebanks and parser outputs
_BRACKET_NAMES = {"(": "-LRB-", ")": "-RRB-", "[": "-LSB-", "]": "-RSB-", "{": "-LCB-", "}": "-RCB-"}
_BRACKETS_OF_NEGRA = {"*LRB*": "(", "*RRB*": ")"}
_BRACKETS = {name: bracket for bracket, name in _BRACKET_NAMES.items()} | _BRACKETS_OF_NEGRA
_ESCAPED = re.compile("|".join([*map(re.escape, _BRACKETS), r"\\[/*]"]))
_TO_ESCAPE = re.compile(r"[][(){}/*]")
_SPACE = re.compile(r"[ \t\n\r\f\v]")
_TIGER_TAG = r"(?<=\()\$\((?=[ \t]+([^() \t]+|[()])[ \t]*\))"  # `$(`, also of a bracket itself
_TOKEN = re.compile(rf"(?P<name>{_TIGER_TAG}|(?<=\(\$\( )[()](?=\))|[^() \t\n\r\f\v]+)|[()]")
_COMMENT = re.compile(r"[ \t]*(%%|[;#]|\*x\*|Sentence skipped:|<[^(]*$|(?P<block>/~?\*))")
_END_OF_BLOCK = re.compile(r"\*~?/")
_UNPARSED = "SENTENCE_SKIPPED_OR_UNPARSABLE"
"""The line that Stanford's parser writes for a sentence without a tree."""


@dataclass(frozen=True, slots=True)
class Tree:
    """A sentence and its constituents, in pre-order from left to right."""

    words: tuple[str, ...]
    """Words in ordinary spelling: a bracket is a bracket."""
    tags: tuple[str, ...]
    """The part of speech of each word."""
    constituents: tuple[Constituent, ...]
    """Constituents, all non-empty; the first is the root, `TOP`, over all words."""

    def __str__(self) -> str:
        """Penn brackets on one line: `(TOP (S (NP (PRP She)) (VP (VBZ sleeps))))`."""
        return "".join(_pieces(self, lambda depth: " ")).lstrip()

    def indented(self) -> str:
        """Penn brackets with one constituent per line."""
        return "".join(_pieces(self, lambda depth: "\n" + "  " * depth)).lstrip()


NO_TREE = Tree((), (), ())
"""The output of a parser for a sentence that it cannot parse, such as `(())` or `(TOP)`."""


def _pieces(tree: Tree, before: Callable[[int], str]) -> Iterator[str]:
    """The brackets from left to right, with `before(depth)` in front of each constituent."""
    depth = 0
    around = labels_around_words(tree.constituents, len(tree.words))
    for word, tag, (begun, ended) in zip(tree.words, tree.tags, around, strict=True):
        for label in begun:
            yield f"{before(depth)}({_without_brackets(label)}"
            depth += 1
        leaf = f" ({_without_brackets(tag)} {word if tag == TRACE else escaped(word)}"
        yield (
            leaf + " " * leaf.endswith("\\") + ")" * (len(ended) + 1)
        )  # NLTK takes `\)` for a part of the word
        depth -= len(ended)


def labels_around_words(
    constituents: Iterable[Constituent], num_words: int
) -> Iterator[tuple[list[str], list[str]]]:
    """For each word, labels that begin before it, outermost first, and that end after it, innermost first."""
    begun: list[list[str]] = [[] for _ in range(num_words)]
    ended: list[list[str]] = [[] for _ in range(num_words)]
    for label, start, end in constituents:
        begun[start].append(label)
        ended[end - 1].append(label)
    return ((first, last[::-1]) for first, last in zip(begun, ended, strict=True))


def escaped(word: str) -> str:
    r"""A word in treebank spelling: `-LRB-` for a bracket, `\/` for a slash, `\*` for an asterisk."""
    return _TO_ESCAPE.sub(lambda mark: _BRACKET_NAMES.get(mark[0], "\\" + mark[0]), one_word(word))


def unescaped(word: str) -> str:
    """The inverse of `escaped`; a word spelled like a bracket name, `-LRB-`, becomes the bracket."""
    return _ESCAPED.sub(lambda mark: _BRACKETS.get(mark[0], mark[0][1:]), word)


def sentences_of(trees: Iterable[Tree]) -> list[list[str]]:
    """The escaped words of each tree; parsers read this spelling and return the words of the tree."""
    return [[escaped(word) for word in tree.words] for tree in trees]


def one_word(word: str) -> str:
    """The word with each space, tab and line break replaced by a no-break space."""
    return _SPACE.sub("\N{NO-BREAK SPACE}", word)


def _without_brackets(label: str) -> str:
    return one_word(label).replace("(", "-LRB-").replace(")", "-RRB-")


class PlacedTree(NamedTuple):
    """A tree, and the line of its file, from 1, where it begins."""

    tree: Tree
    line_number: int


def read_trees(
    file: Path, counts: LineCounts | None = None, notes: Counter[str] | None = None
) -> Iterator[PlacedTree]:
    """Read bracketed trees completely; a tree may span several lines, and a line may hold several trees.

    Nodes that are no words are tagged `TRACE` or `CODE`. A sentence whose parser failed is `NO_TREE`.
    `counts` of lines and `notes` on findings are updated; `Path("-")` is stdin.

    Raises:
        DataError: A bracket is missing or superfluous, a constituent is empty, a word has no tag, a tag has
            no word, or the file cannot be read. Names line and column.
    """
    yield from trees_in(read_lines(file, counts, allow_nul=False), str(file), notes)


def trees_in(lines: Iterable[str], name: str, notes: Counter[str] | None = None) -> Iterator[PlacedTree]:
    """Like `read_trees`, for lines already read from the file `name`."""
    reader = _Reader(name, Counter() if notes is None else notes)
    for number, line in enumerate(lines, start=1):
        yield from reader.feed(number, line)
    reader.end()


def tree_of(text: str) -> Tree:
    """The only tree of a text in brackets; raises DataError if there is none, a malformed one, or several."""
    trees = [placed for placed in trees_in([text], "the tree") if placed.tree.words]
    if len(trees) != 1:
        raise DataError(f"{len(trees)} trees where one is wanted; write one in brackets")
    return trees[0].tree


@dataclass(slots=True)
class _Node:
    """An open bracket."""

    line: int
    column: int
    start: int
    label: str = ""
    word: str | None = None
    place: int | None = None
    """Index among the constituents, once it is known to be one."""


@dataclass
class _Reader:
    """Turns lines into trees; a tree may span several lines."""

    file: str
    notes: Counter[str]
    _open: list[_Node] = field(default_factory=list)
    _words: list[str] = field(default_factory=list)
    _tags: list[str] = field(default_factory=list)
    _constituents: list[Constituent] = field(default_factory=list)
    _previous: str = ""
    """The previous token, on this line or an earlier one."""
    _fault: DataError | None = None
    """The first fault of the tree, as long as no word shows that it is meant to be one."""
    _comment: int = 0
    """Number of the line where the open block of comments begins; 0 outside of blocks."""

    def feed(self, number: int, line: str) -> Iterator[PlacedTree]:
        """The trees that end on this line."""
        if not self._open:
            line = self._without_comments(number, line)
        if not self._open and line.strip() == _UNPARSED:
            yield PlacedTree(NO_TREE, number)
            return
        begun = 0
        for match in _TOKEN.finditer(line):
            token, column = match[0], match.start() + 1
            if match["name"]:
                if not self._open:
                    raise self._outside(number, column, f"{token!r} outside of brackets")
                self._add(token, self._previous == "(", number, column)
            elif token == "(":
                begun += not self._open
                self._begin(number, column)
            elif not self._open:
                raise self._outside(number, column, "`)` without a `(`")
            elif root := self._end():
                yield PlacedTree(self._take(root), root.line)
            self._previous = token
        if begun > 1:
            self.notes["lines with more than one tree, all of which are read"] += 1

    def end(self) -> None:
        if self._open:
            root = self._open[0]
            raise self._error(
                root.line, root.column, f"the tree that begins here lacks {len(self._open)} `)`; add them"
            )
        if self._comment:
            raise self._error(self._comment, 1, "the comment that begins here lacks its `*/`; add it")

    def _without_comments(self, number: int, line: str) -> str:
        """A line between trees, with spaces in place of the comments that it begins with."""
        match = _COMMENT.match(line)
        if not self._comment and match is None:
            return line
        self.notes["lines of comments skipped"] += 1
        if match and match["block"]:
            self._comment = self._comment or number
        if not (self._comment and (end := _END_OF_BLOCK.search(line))):
            return ""
        self._comment = 0
        return self._without_comments(number, " " * end.end() + line[end.end() :])

    def _begin(self, number: int, column: int) -> None:
        if self._open:
            parent = self._open[-1]
            if parent.word is not None:
                raise self._error(number, column, f"a bracket beside the word {parent.word!r}; give it a tag")
            if parent.place is None:
                if not parent.label and len(self._open) > 1:
                    self._doubt(parent, "a constituent without a label; give it one")
                parent.place = len(self._constituents)
                self._constituents.append(Constituent(parent.label, parent.start, -1))
        self._open.append(_Node(number, column, len(self._words)))

    def _add(self, token: str, is_label: bool, number: int, column: int) -> None:
        node = self._open[-1]
        if is_label:
            node.label = token.replace("(", "-LRB-")
        elif node.place is not None or node.word is not None or not node.label:
            raise self._error(number, column, f"the word {token!r} without a tag; write (TAG {token})")
        else:
            node.word = token

    def _end(self) -> _Node | None:
        """Close a bracket; return the root's node if that ends the tree."""
        node = self._open.pop()
        if node.word is not None:
            if self._fault:
                raise self._fault
            self._words.append(node.word)
            self._tags.append(node.label)
        elif node.place is None:
            self._doubt(node, f"({node.label}) holds no word; take it out, or write (TAG WORD)")
        else:
            self._constituents[node.place] = Constituent(node.label, node.start, len(self._words))
        return None if self._open else node

    def _doubt(self, node: _Node, fault: str) -> None:
        """Refuse a node of a tree with words; without any, the tree may be that of a parser that failed."""
        self._fault = self._fault or self._error(node.line, node.column, fault)
        if self._words:
            raise self._fault

    def _take(self, root: _Node) -> Tree:
        """Return the finished tree, and start afresh."""
        words, tags, constituents = self._words, self._tags, self._constituents
        self._words, self._tags, self._constituents = [], [], []
        if self._fault and root.label not in _NAMES_OF_ROOTS:
            raise self._fault
        if self._fault:
            self._fault = None
            return NO_TREE
        if root.place is not None and root.label in _NAMES_OF_ROOTS:
            constituents[0] = constituents[0]._replace(label=ROOT)
        else:
            constituents.insert(0, Constituent(ROOT, 0, len(words)))
        words, tags = recognised(words, tags, constituents, self.notes)
        spelled = (word if tag == TRACE else unescaped(word) for word, tag in zip(words, tags, strict=True))
        return Tree(tuple(spelled), tuple(tags), tuple(constituents))

    def _outside(self, line: int, column: int, fault: str) -> DataError:
        return self._error(line, column, f"{fault}; take it out, or add what is missing before it")

    def _error(self, line: int, column: int, fault: str) -> DataError:
        return DataError(f"{self.file}:{line}:{column}: {fault}", label="E-TREE")
