"""Scores from strings and numbers (paper 6), each with a signature that makes it comparable."""

from allyouneed.evaluation.bleu import (
    WORDS,
    BleuTokens,
    bleu_13a,
    bleu_of,
    choose_tokens,
    moses_bleu,
    moses_tokenizer,
)
from allyouneed.evaluation.metrics import chrf, translation_metrics
from allyouneed.evaluation.scores import Metric, Score, format_scores, headline, perplexity, scores_to_json

__all__ = [
    "WORDS",
    "BleuTokens",
    "Metric",
    "Score",
    "bleu_13a",
    "bleu_of",
    "choose_tokens",
    "chrf",
    "format_scores",
    "headline",
    "moses_bleu",
    "moses_tokenizer",
    "perplexity",
    "scores_to_json",
    "translation_metrics",
]
