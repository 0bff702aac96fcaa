"""Evaluation of a parser on sentences with gold trees."""

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
    """Scores of a parser on sentences with gold trees.

    Args:
        parser: The parser to evaluate.
        gold: The gold trees, cleaned.
        failed: Receives the reason if a sentence cannot be parsed; that counts as no constituents.
        **options: Options of `Parser.stream`.

    Returns:
        The result of `score_parses`.

    Raises:
        DataError: There are no trees.
    """
    found = parser.parse(sentences_of(gold), failed=failed, **options)
    return score_parses(parser, gold, found)


def score_parses(
    parser: "Parser", gold: Sequence[Tree], found: "Sequence[Parse]"
) -> tuple[BracketScores, list[Score]]:
    """Scores of a parser's trees against gold trees, with tag accuracy if the parser predicts tags.

    A sentence that was too long to parse has no tree, and counts as one without constituents.

    Returns:
        The counts, and the scores, including the share of outputs that needed no repair.

    Raises:
        DataError: There are no trees, or the numbers of trees differ.
    """
    sums = score_trees(gold, [parse.tree for parse in found])
    share = sum(parse.tree is not None and not parse.repaired for parse in found) / len(gold)
    well_formed = Score("well_formed", 100 * share, "trees:before-repair|leaves:as-many-as-words")
    return sums, [*sums.scores(tagged=parser.vocabulary.tags == "predicted"), well_formed]
