"""How good a translator or a parser is, by its outputs for sentences of which the right ones are known."""

from collections.abc import Callable, Sequence
from typing import Any

from allyouneed.errors import DataError
from allyouneed.evaluation import Metric, Score, bleu_13a, chrf, perplexity
from allyouneed.tasks.parsing.bracket_f1 import BracketScores, score_trees
from allyouneed.tasks.parsing.parser import Parse, Parser
from allyouneed.tasks.parsing.trees import Tree, sentences_of
from allyouneed.tasks.translation.translator import Translator


def evaluate(
    translator: Translator,
    sources: Sequence[str],
    references: Sequence[str],
    metrics: Sequence[Metric] = (bleu_13a, chrf),
    **search: Any,
) -> list[Score]:
    """Scores of a translator on sentences whose translation is known, its perplexity the last of them.

    Args:
        translator: What translates.
        sources: One sentence each.
        references: The right translation of each.
        metrics: What compares the translations with the references; see `translation_metrics`.
        **search: As of `Translator.stream`.

    Raises:
        DataError: A sentence is too long, or there are not as many references as sources.
    """
    likelihood = translator.negative_log_likelihood(sources, references)
    texts = [translation.text for translation in translator.translate(sources, **search)]
    return [*(metric(texts, references) for metric in metrics), perplexity(*likelihood)]


def evaluate_parser(
    parser: Parser,
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
    parser: Parser, gold: Sequence[Tree], found: Sequence[Parse]
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
