"""Evaluation of a parser on sentences with gold trees."""

from collections.abc import Iterator, Sequence
from itertools import count
from typing import TYPE_CHECKING, Unpack

from allyouneed.evaluation import Score
from allyouneed.tasks.parsing.bracket_f1 import BracketScores, score_trees
from allyouneed.tasks.parsing.linearisation import TAGGED
from allyouneed.tasks.parsing.trees import Tree, sentences_of
from allyouneed.tasks.requests import Answer, Failure, ParseRequest, results

if TYPE_CHECKING:
    from allyouneed.tasks.parsing.parser import Parse, ParseOptions, Parser


def evaluate_parser(
    parser: "Parser", gold: Sequence[Tree], **options: "Unpack[ParseOptions]"
) -> tuple[BracketScores, list[Score]]:
    """Scores of a parser on sentences with gold trees.

    Args:
        parser: The parser to evaluate.
        gold: The gold trees, cleaned.
        **options: Options of `Parser.parse`.

    Returns:
        The result of `score_parses`.

    Raises:
        DataError: There are no trees.
    """
    from allyouneed.tasks.parsing.parser import NO_PARSE  # which loads PyTorch

    return score_parses(parser, gold, list(results(parse_words(parser, gold, **options), NO_PARSE)))


def parse_words(
    parser: "Parser", gold: Sequence[Tree], **options: "Unpack[ParseOptions]"
) -> "Iterator[Answer[Parse] | Failure]":
    """What a parser makes of the words of each tree; `options` as of `Parser.parse`."""
    return parser.answer(map(ParseRequest, count(1), sentences_of(gold)), **options)


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
    return sums, [*sums.scores(tagged=parser.vocabulary.tags in TAGGED), well_formed]
