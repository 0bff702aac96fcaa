"""Constituency trees whose leaves know what they express, so that two of them give a word alignment."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

Origin = tuple[object, ...]
"""What a word expresses: a piece of the sentence's structure (by identity) and which part of that piece."""

PUNCTUATION = frozenset({".", ",", "?"})


@dataclass(frozen=True, slots=True)
class Leaf:
    """A word (or mark) with its part of speech; words of two languages that share an origin are aligned."""

    tag: str
    word: str
    origins: tuple[Origin, ...] = ()


@dataclass(frozen=True, slots=True)
class Phrase:
    """A constituent."""

    label: str
    children: "tuple[Tree, ...]"


Tree = Leaf | Phrase


def leaves(phrase: Phrase) -> list[Leaf]:
    """The leaves from left to right."""
    found: list[Leaf] = []
    for child in phrase.children:
        if isinstance(child, Leaf):
            found.append(child)
        else:
            found += leaves(child)
    return found


def bracketed(tree: Tree) -> str:
    """The tree in Penn brackets on one line: `(S (NP (PRP She)) (VP (VBZ sleeps)) (. .))`."""
    if isinstance(tree, Leaf):
        return f"({tree.tag} {tree.word})"
    return f"({tree.label} {' '.join(map(bracketed, tree.children))})"


def sentence_text(words: Sequence[Leaf]) -> str:
    """The words as one types them, with punctuation attached to the word before it."""
    return "".join(leaf.word if leaf.word in PUNCTUATION else " " + leaf.word for leaf in words).lstrip()


def word_alignment(source: Sequence[Leaf], target: Sequence[Leaf]) -> tuple[tuple[int, int], ...]:
    """The sorted pairs (source position, target position) of words that share an origin."""
    positions: dict[Origin, list[int]] = {}
    for position, leaf in enumerate(target):
        for origin in leaf.origins:
            positions.setdefault(origin, []).append(position)
    links = {
        (i, j) for i, leaf in enumerate(source) for origin in leaf.origins for j in positions.get(origin, ())
    }
    return tuple(sorted(links))


def as_written(tree: Phrase) -> Phrase:
    """The tree with a capital first letter and without the commas that meet another mark or begin it.

    A clause brings the commas that would enclose it in the middle of a sentence; at its edges they go.
    """
    words = leaves(tree)
    dropped = {id(words[0])} if words[0].word == "," else set()
    dropped |= {id(mark) for mark, after in pairwise(words) if mark.word == "," and after.word in PUNCTUATION}
    first = next(word for word in words if id(word) not in dropped)
    return Phrase(tree.label, tuple(_rewritten(tree, dropped, first)))


def _rewritten(phrase: Phrase, dropped: set[int], first: Leaf) -> Iterator[Tree]:
    for child in phrase.children:
        if isinstance(child, Phrase):
            yield Phrase(child.label, tuple(_rewritten(child, dropped, first)))
        elif child is first:
            yield Leaf(child.tag, child.word[0].upper() + child.word[1:], child.origins)
        elif id(child) not in dropped:
            yield child
