"""Cleans trees before training or scoring: removes traces, codes, function tags and repeated labels."""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Final

from allyouneed.tasks.parsing.trees import (
    CODE,
    NO_WORDS,
    TRACE,
    Constituent,
    PlacedTree,
    Tree,
    without_function,
)

ONLY_TRACES: Final = "trees of nothing but traces, left out"
"""Note of a report on trees without a word."""

ONLY_CODES: Final = "trees of nothing but IDs, codes or metadata, left out"
"""Note of a report on trees that are no sentences."""

UNPARSED: Final = "sentences without a tree, left out"
"""Note of a report on sentences whose parser failed."""

_CODES: Final = "IDs, codes, metadata, comments and marks of disfluencies removed"


def clean(tree: Tree, notes: Counter[str] | None = None) -> Tree | None:
    """Remove traces, codes, and function tags such as `-SBJ`; parsers are trained and scored on such trees.

    Args:
        tree: The tree as read.
        notes: Counts of what was removed, updated here.

    Returns:
        The cleaned tree, or None if no word is left.
    """
    notes = Counter() if notes is None else notes
    kept = [place for place, tag in enumerate(tree.tags) if tag not in NO_WORDS]
    if not kept:
        return None
    place_of = [0]  # index of each word among the kept ones
    for tag in tree.tags:
        place_of.append(place_of[-1] + (tag not in NO_WORDS))
    constituents = []
    for label, start, end in tree.constituents:
        bare = without_function(label)
        notes["function tags removed"] += bare != label
        if place_of[start] < place_of[end]:
            constituents.append(Constituent(bare, place_of[start], place_of[end]))
    notes["traces removed"] += tree.tags.count(TRACE)
    notes.update([_CODES] * tree.tags.count(CODE))
    return Tree(tuple(tree.words[i] for i in kept), tuple(tree.tags[i] for i in kept), tuple(constituents))


def without_unary_cycles(tree: Tree) -> Tree:
    """The tree without repeated labels over the same words: one `NP`, the outermost, for NP over NP over NP.

    Cleaning creates such chains where a trace stood next to an inner constituent. Training drops them;
    scoring keeps them, as EVALB does.
    """
    return replace(tree, constituents=tuple(dict.fromkeys(tree.constituents)))


def clean_trees(trees: Iterable[PlacedTree], notes: Counter[str] | None = None) -> Iterator[PlacedTree]:
    """Clean each tree; those without words are left out and counted, by the reason."""
    for tree, line_number in trees:
        if cleaned := clean(tree, notes):
            yield PlacedTree(cleaned, line_number)
        elif notes is not None:
            notes[ONLY_CODES if CODE in tree.tags else ONLY_TRACES if tree.tags else UNPARSED] += 1
