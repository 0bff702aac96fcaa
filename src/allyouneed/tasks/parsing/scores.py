"""How good a parser is, by its trees for sentences whose right ones are known."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from allyouneed.errors import DataError
from allyouneed.evaluation import Score
from allyouneed.tasks.parsing.bracket_f1 import BracketScores, score_trees
from allyouneed.tasks.parsing.trees import Tree, sentences_of

if TYPE_CHECKING:
    from allyouneed.tasks.parsing.parser import Parse, Parser


def evaluate_parser(
    parser: "Parser",
    gold: Sequence[Tree],
    *,
    failed: Callable[[DataError], None] = lambda error: None,
    **options: Any,
) -> tuple[BracketScores, list[Score]]:
    """Scores of a parser on sentences whose tree is known.

    Args:
        parser: What parses the words of the trees.
        gold: The gold trees, cleaned.
        failed: Is told why a sentence cannot be parsed; it counts as one without constituents.
        **options: As of `Parser.stream`.

    Returns:
        As `score_parses`.

    Raises:
        DataError: There are no trees.
    """
    found = parser.parse(sentences_of(gold), failed=failed, **options)
    return score_parses(parser, gold, found)


def score_parses(
    parser: "Parser", gold: Sequence[Tree], found: "Sequence[Parse]"
) -> tuple[BracketScores, list[Score]]:
    """Scores of what a parser has made of the words of trees; the accuracy of tags if it predicts them.

    A sentence that was too long to parse has no tree, and counts as one without constituents.

    Returns:
        The counts, and what they come to, with the share of outputs that were trees before any repair.

    Raises:
        DataError: There are no trees, or not as many of each.
    """
    sums = score_trees(gold, [parse.tree for parse in found])
    share = sum(parse.tree is not None and not parse.repaired for parse in found) / len(gold)
    well_formed = Score("well_formed", 100 * share, "trees:before-repair|leaves:as-many-as-words")
    return sums, [*sums.scores(tagged=parser.vocabulary.tags == "predicted"), well_formed]
