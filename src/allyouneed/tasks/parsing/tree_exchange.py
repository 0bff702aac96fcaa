"""New training trees by exchange of constituents with equal labels (Shi et al. 2021, arXiv:2101.00411).

Both halves of such a tree have been seen, but not together. So a small treebank shows more combinations, and
more relations between the number of words and the number of symbols.
"""

from collections.abc import Iterator, Sequence
from random import Random

from allyouneed.tasks.parsing.trees import Constituent, Tree


def exchange_constituents(trees: Sequence[Tree], number: int, seed: int = 1) -> Iterator[tuple[int, Tree]]:
    """Make trees by replacing a random constituent with another of its label; reproducible by seed.

    No new tree is longer than the longest given tree, or has the same words as its original.

    Args:
        trees: Cleaned trees to draw from.
        number: Number of trees to make; fewer result if hardly any constituents can be exchanged.
        seed: Seed of the random choices.

    Returns:
        The index of the original tree, and the new tree.
    """
    draw = Random(seed)
    longest = max((len(tree.words) for tree in trees), default=0)
    by_label: dict[str, list[tuple[int, int]]] = {}
    for place, tree in enumerate(trees):
        for inside, constituent in enumerate(tree.constituents):
            if constituent.end - constituent.start < len(tree.words):
                by_label.setdefault(constituent.label, []).append((place, inside))
    everywhere = [item for items in by_label.values() for item in items]
    made = 0
    for _ in range(10 * number if everywhere else 0):
        if made == number:
            return
        place, inside = draw.choice(everywhere)
        tree = trees[place]
        other, other_inside = draw.choice(by_label[tree.constituents[inside].label])
        new = replace_constituent(tree, inside, trees[other], other_inside)
        if new.words != tree.words and len(new.words) <= longest:
            made += 1
            yield place, new


def replace_constituent(tree: Tree, place: int, other: Tree, other_place: int) -> Tree:
    """Replace a constituent of a tree, with everything inside it, by a constituent of another tree.

    Args:
        tree: The tree to change.
        place: Index of the constituent to replace.
        other: The tree to take a constituent from.
        other_place: Index of that constituent.
    """
    _, start, end = tree.constituents[place]
    _, other_start, other_end = other.constituents[other_place]
    longer = (other_end - other_start) - (end - start)
    before = [
        constituent._replace(end=constituent.end + longer) if constituent.end >= end else constituent
        for constituent in tree.constituents[:place]
    ]
    inside = [
        Constituent(label, s - other_start + start, e - other_start + start)
        for label, s, e in _with_all_inside(other, other_place)
    ]
    after = [
        Constituent(label, s + longer, e + longer)
        for label, s, e in tree.constituents[place + len(_with_all_inside(tree, place)) :]
    ]
    return Tree(
        tree.words[:start] + other.words[other_start:other_end] + tree.words[end:],
        tree.tags[:start] + other.tags[other_start:other_end] + tree.tags[end:],
        (*before, *inside, *after),
    )


def _with_all_inside(tree: Tree, place: int) -> Sequence[Constituent]:
    """A constituent and those inside it, which directly follow it."""
    end = tree.constituents[place].end
    last = place + 1
    while last < len(tree.constituents) and tree.constituents[last].start < end:
        last += 1
    return tree.constituents[place:last]
