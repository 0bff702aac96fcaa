"""The loss on held-out pairs: unsmoothed, without dropout, in float32 (paper 6.2)."""

from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np

from allyouneed.data.batch_plans import length_batches, make_batch
from allyouneed.data.store import PairStore
from allyouneed.model import EncoderDecoder
from allyouneed.model.dropout import evaluation_mode
from allyouneed.training.update import batch_loss

_MAX_TOKENS = 4_096


class Validation(NamedTuple):
    """Scores of a model's outputs on held-out examples."""

    scores: Callable[[EncoderDecoder], Mapping[str, float]]
    """Function that returns the scores by name."""
    best_by: str
    """Name of the score whose maximum is the best validation; if absent, the lowest loss is best."""
    convention: str = ""
    """Convention of the score, such as "bleu_zh", if not the usual one; scores of others are not compared."""
    reason: str = ""
    """Reason for that convention, shown to the user."""


LOSS_ALONE = Validation(lambda model: {}, "")


def validation_loss(model: EncoderDecoder, store: PairStore) -> float:
    """Mean negative log-likelihood in nats per target token, end symbols included."""
    lengths = np.maximum(store.source_lengths, store.target_lengths) + 1
    total, tokens = 0.0, 0
    with evaluation_mode(model.modules()):
        for indices in length_batches(lengths, batch_tokens=_MAX_TOKENS):
            batch = make_batch(store, indices)
            loss = batch_loss(model, batch, smoothing=0.0, precision="float32")
            total += loss.negative_log_likelihood.item()
            tokens += batch.num_target_tokens
    return total / tokens
