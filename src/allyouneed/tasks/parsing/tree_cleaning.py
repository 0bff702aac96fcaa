"""What is taken from trees before they are trained or scored on: traces, functions, doubled labels."""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace

from allyouneed.tasks.parsing.labels import without_function
from allyouneed.tasks.parsing.trees import TRACE, Constituent, PlacedTree, Tree


def clean(tree: Tree, notes: Counter[str] | None = None) -> Tree | None:
    """A tree as parsers are trained and scored on: without traces, and without functions such as `-SBJ`.

    Args:
        tree: As it was read.
        notes: What was taken away is counted here.

    Returns:
        None if nothing is left: all of it was traces.
    """
    notes = Counter() if notes is None else notes
    kept = [place for place, tag in enumerate(tree.tags) if tag != TRACE]
    if not kept:
        return None
    place_of = [0]  # of each word among those that are kept
    for tag in tree.tags:
        place_of.append(place_of[-1] + (tag != TRACE))
    constituents = []
    for label, start, end in tree.constituents:
        bare = without_function(label)
        notes["function tags removed"] += bare != label
        if place_of[start] < place_of[end]:
            constituents.append(Constituent(bare, place_of[start], place_of[end]))
    notes["traces removed"] += len(tree.tags) - len(kept)
    return Tree(tuple(tree.words[i] for i in kept), tuple(tree.tags[i] for i in kept), tuple(constituents))


def without_unary_cycles(tree: Tree) -> Tree:
    """The tree with each label once over the same words, the outermost: one `NP` for NP over NP over NP.

    Cleaning leaves such chains, where a trace stood beside an inner constituent. Trees are trained on
    without them, but scored with them, as EVALB does.
    """
    return replace(tree, constituents=tuple(dict.fromkeys(tree.constituents)))


def clean_trees(trees: Iterable[PlacedTree], notes: Counter[str] | None = None) -> Iterator[PlacedTree]:
    """`clean` for each; those of which nothing is left are counted."""
    for tree, line_number in trees:
        if cleaned := clean(tree, notes):
            yield PlacedTree(cleaned, line_number)
        elif notes is not None:
            notes["trees of nothing but traces, left out"] += 1
