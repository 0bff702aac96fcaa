"""Beam search (paper 6.1), written to be read: one sentence, the whole model computed anew for each token.

Translation uses `BeamSearch` in `search.py`, which decodes batches with caches; tests hold the two equal.
"""

from collections.abc import Callable, Sequence

import numpy as np
import torch

from allyouneed.config.run import SearchConfig
from allyouneed.inference.beams import Hypothesis
from allyouneed.inference.search import length_penalty
from allyouneed.model.encoder_decoder import EncoderDecoder
from allyouneed.symbols import END, NEVER_PRODUCED, START

NextLogProbs = Callable[[list[int]], list[float]]
"""The tokens of an output so far -> log-probability of each token of the vocabulary as the next."""


@torch.no_grad()
def plain_beam_search(
    model: EncoderDecoder, source: Sequence[int], config: SearchConfig, n_best: int = 1
) -> list[Hypothesis]:
    """Find the best outputs for a sentence, best first.

    Args:
        model: A model in evaluation mode, on the CPU.
        source: Token ids without end symbol, at least one.
        config: Search settings; of those that restrict outputs, only `max_extra_tokens` has an effect.
        n_best: Number of outputs, at most the beam size.
    """

    def next_log_probs(ids: list[int]) -> list[float]:
        hidden = model(torch.tensor([[*source, END]]), torch.tensor([[START, *ids]]))
        log_probs: list[float] = model.project(hidden[0, -1]).log_softmax(dim=-1).tolist()
        return log_probs

    return search_outputs(next_log_probs, len(source) + 1 + config.max_extra_tokens, config, n_best)


def search_outputs(
    next_log_probs: NextLogProbs, max_length: int, config: SearchConfig, n_best: int
) -> list[Hypothesis]:
    """Search for the outputs y of n tokens, the end symbol included, with the largest `log P(y | x) / lp(n)`.

    By default, `lp(n) = ((5 + n) / 6)^alpha` (Wu et al. 2016, equation 14). Outputs that are cut at the
    maximum length, without an end symbol, come last.
    """
    lp = length_penalty(np.arange(max_length + 1), config).tolist()
    beam_size, num_ended = config.beam_size, 0
    live, finished = [Hypothesis([], 0.0)], list[Hypothesis]()  # the score of a live one is log P
    for length in range(1, max_length + 1):
        candidates = [
            Hypothesis([*begun.ids, token], begun.score + log_prob, [*begun.token_log_probs, log_prob])
            for begun in live
            for token, log_prob in enumerate(next_log_probs(begun.ids))
            if token not in NEVER_PRODUCED
        ]
        # Ties stay in their order: the lowest beam first, then the lowest id.
        candidates = best_first(candidates)[: 2 * beam_size if beam_size > 1 else 1]
        ended = [found for found in candidates if found.ids[-1] == END]
        finished += [Hypothesis(y.ids[:-1], y.score / lp[length], y.token_log_probs) for y in ended]
        finished = best_first(finished)[:n_best]
        live = [found for found in candidates if found.ids[-1] != END][:beam_size]
        num_ended += sum(found.ids[-1] == END for found in candidates[:beam_size])
        # No live output can do better than to reach the maximum length with certainty.
        if not live or (len(finished) == n_best and live[0].score / lp[-1] <= finished[-1].score):
            return finished
        if config.early_stopping and num_ended >= beam_size:
            return finished
    return [*finished, *(Hypothesis(y.ids, y.score / lp[-1], y.token_log_probs) for y in live)][:n_best]


def best_first(hypotheses: list[Hypothesis]) -> list[Hypothesis]:
    """Sort by score; those of equal scores stay in their order."""
    return sorted(hypotheses, key=lambda hypothesis: -hypothesis.score)
