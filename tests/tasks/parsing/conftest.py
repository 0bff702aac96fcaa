"""Random trees of any shape, built by dividing spans; not by what the package does with trees."""

from collections.abc import Callable, Iterator
from random import Random

import pytest

from allyouneed.tasks.parsing.trees import Constituent, Tree

RandomTrees = Callable[[int], Iterator[Tree]]

LABELS = ("S", "NP", "VP", "PP", "TOP", "ADVP|PRT", "été", "''")
TAGS = ("NN", "XX", ".", "``", "-LRB-", "PRP$")
WORDS = (
    "a",
    "b",
    "(",
    "]",
    "1/2",
    "*",
    "-NONE-",
    "\\/",
    "\u00a0",
    "é\u2028",
    '"',
    "☃",
    "</s>",
    "(S",
    ")",
    "&",
)


def random_tree(draw: Random) -> Tree:
    """Of up to eight words, with chains of constituents over the same words, also of the same label."""
    words = tuple(draw.choices(WORDS, k=draw.randint(1, 8)))
    constituents = [Constituent("TOP", 0, len(words))]
    waiting = [(0, len(words))]
    while waiting:
        start, end = waiting.pop()
        labels = draw.choices(LABELS, k=draw.choice((0, 0, 1, 1, 1, 2, 3)))
        constituents += [Constituent(label, start, end) for label in labels]
        if end - start > 1:
            middle = draw.randint(start + 1, end - 1)
            waiting += [(middle, end), (start, middle)]  # the left part comes next
    return Tree(words, tuple(draw.choices(TAGS, k=len(words))), tuple(constituents))


@pytest.fixture(scope="session")
def random_trees() -> RandomTrees:
    """So many trees, always the same."""

    def generate(num_trees: int) -> Iterator[Tree]:
        draw = Random(1)
        return (random_tree(draw) for _ in range(num_trees))

    return generate
