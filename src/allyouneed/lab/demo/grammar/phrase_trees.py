"""Constituency trees whose leaves record what they express, so that two trees give a word alignment."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise

Origin = tuple[object, ...]
"""What a word expresses: a piece of the sentence's structure (by identity) and a part of that piece."""

PUNCTUATION = frozenset({".", ",", "?"})


@dataclass(frozen=True, slots=True)
class Leaf:
    """A word or punctuation mark with its part of speech; words that share an origin are aligned."""

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


def written(tree: Phrase) -> dict[int, Leaf]:
    """The leaves of the written sentence by identity, the first capitalised, superfluous commas dropped.

    Every clause comes enclosed in commas; those at the edges of the sentence or next to another mark are
    superfluous.
    """
    words = leaves(tree)
    kept = [word for word, after in pairwise(words) if word.word != "," or after.word not in PUNCTUATION]
    first, *others = kept[kept[0].word == "," :]
    capital = Leaf(first.tag, first.word[0].upper() + first.word[1:], first.origins)
    return {id(first): capital, **{id(word): word for word in (*others, words[-1])}}


def bracketed(tree: Tree, found: dict[int, Leaf]) -> str:
    """The tree of the leaves found, in Penn brackets: `(S (NP (PRP She)) (VP (VBZ sleeps)) (. .))`."""
    if isinstance(tree, Phrase):
        children = (bracketed(child, found) for child in tree.children)
        return f"({tree.label} {' '.join(child for child in children if child)})"
    leaf = found.get(id(tree))
    return f"({leaf.tag} {leaf.word})" if leaf else ""


def sentence_text(words: Iterable[Leaf]) -> str:
    """The words as plain text, with punctuation attached to the preceding word."""
    return "".join(leaf.word if leaf.word in PUNCTUATION else " " + leaf.word for leaf in words).lstrip()


def word_alignment(source: Iterable[Leaf], target: Iterable[Leaf]) -> tuple[tuple[int, int], ...]:
    """Sorted pairs (source position, target position) of words that share an origin."""
    positions: dict[Origin, list[int]] = defaultdict(list)
    for position, leaf in enumerate(target):
        for origin in leaf.origins:
            positions[origin].append(position)
    links = {(i, j) for i, leaf in enumerate(source) for origin in leaf.origins for j in positions[origin]}
    return tuple(sorted(links))
