"""How good a translator or a parser is, by its outputs for sentences of which the right ones are known."""

from collections.abc import Sequence
from typing import Any

from allyouneed.data.trees import Tree
from allyouneed.evaluation import BracketScores, Metric, Score, bleu_13a, chrf, perplexity, score_trees
from allyouneed.parsing import Parse, Parser
from allyouneed.translation import Translator


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
    parser: Parser, gold: Sequence[Tree], **options: Any
) -> tuple[BracketScores, list[Score]]:
    """Scores of a parser on sentences whose tree is known.

    Args:
        parser: What parses the words of the trees.
        gold: The right trees, cleaned.
        **options: As of `Parser.stream`.

    Returns:
        As `score_parses`.

    Raises:
        DataError: There are no trees, or a sentence is too long.
    """
    found = parser.parse([tree.words for tree in gold], **options)
    return score_parses(gold, found, tagged=parser.vocabulary.tags == "predicted")


def score_parses(
    gold: Sequence[Tree], found: Sequence[Parse], *, tagged: bool
) -> tuple[BracketScores, list[Score]]:
    """Scores of what a parser has made of the words of trees; the accuracy of tags if it has `tagged` them.

    Returns:
        The counts, and what they come to, with the share of outputs that were trees before any repair.

    Raises:
        DataError: There are no trees, or not as many of each.
    """
    sums = score_trees(gold, [parse.tree for parse in found if parse.tree])
    share = sum(not parse.repaired for parse in found) / len(gold)
    well_formed = Score("well_formed", 100 * share, "trees:before-repair|leaves:as-many-as-words")
    return sums, [*sums.scores(tagged), well_formed]
