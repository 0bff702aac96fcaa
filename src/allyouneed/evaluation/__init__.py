"""Scores from strings and numbers (paper 6): each comes with the signature that makes it comparable."""

from allyouneed.evaluation.bleu import bleu_13a, moses_bleu, moses_tokenizer
from allyouneed.evaluation.bracket_f1 import BracketScores, score_trees
from allyouneed.evaluation.chrf import chrf, pairwise_chrf
from allyouneed.evaluation.metrics import translation_metrics
from allyouneed.evaluation.perplexity import perplexity
from allyouneed.evaluation.score import Metric, Score, format_scores, scores_to_json

__all__ = [
    "BracketScores",
    "Metric",
    "Score",
    "bleu_13a",
    "chrf",
    "format_scores",
    "moses_bleu",
    "moses_tokenizer",
    "pairwise_chrf",
    "perplexity",
    "score_trees",
    "scores_to_json",
    "translation_metrics",
]
