"""The loss of held-out pairs: unsmoothed, without dropout, in float32 (paper 6.2)."""

import numpy as np
import torch

from allyouneed.data.batching import length_batches, make_batch
from allyouneed.data.store import PairStore
from allyouneed.model import Transformer
from allyouneed.training.update import batch_loss

_MAX_TOKENS = 4_096


@torch.no_grad()
def validation_loss(model: Transformer, store: PairStore) -> float:
    """The mean negative log-likelihood in nats per target token, end symbols included."""
    was_training = model.training
    model.eval()
    lengths = np.maximum(store.source_lengths, store.target_lengths) + 1
    total, tokens = 0.0, 0
    for indices in length_batches(lengths, batch_tokens=_MAX_TOKENS):
        batch = make_batch(store, indices)
        total += batch_loss(model, batch, smoothing=0.0, precision="float32").negative_log_likelihood.item()
        tokens += batch.num_target_tokens
    model.train(was_training)
    return total / tokens
