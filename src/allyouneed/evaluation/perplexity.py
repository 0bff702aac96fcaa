"""Perplexity per word-piece, as in Table 3 of the paper (6.2)."""

import math

from allyouneed.evaluation.score import Score
from allyouneed.version import __version__


def perplexity(negative_log_likelihood_sum: float, num_tokens: int) -> Score:
    """exp(-1/n * sum of log p(token)); comparable only between models with the same vocabulary.

    Args:
        negative_log_likelihood_sum: Sum over all target tokens, in nats, without label smoothing.
        num_tokens: Number of target word-pieces, including the end symbol of each sentence.
    """
    try:
        value = math.exp(negative_log_likelihood_sum / num_tokens)
    except OverflowError:
        value = math.inf
    signature = f"per:word-piece|end:counted|label-smoothing:no|version:allyouneed-{__version__}"
    return Score("perplexity", value, signature)
