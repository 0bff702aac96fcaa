"""The count of FLOPs agrees with a sum by hand, and with what PyTorch counts while it computes a gradient."""

from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from allyouneed.config.model import ModelConfig
from allyouneed.data.batch_plans import Batch
from allyouneed.model.architectures import build_model
from allyouneed.model.transformer import Transformer
from allyouneed.symbols import PADDING
from allyouneed.training.flops import pairs_in_reach, training_flops
from allyouneed.training.update import accumulate_gradient

UNEVEN = ModelConfig(
    source_vocab_size=97, target_vocab_size=97, d_model=20, d_ff=44, num_layers=3, num_heads=2, d_k=7, d_v=5
)


def test_a_model_of_ones_costs_what_a_sum_by_hand_gives() -> None:
    ones = ModelConfig(
        source_vocab_size=11,
        target_vocab_size=13,
        d_model=1,
        d_ff=1,
        num_layers=1,
        num_heads=1,
        positions="learned",
        tied_embeddings="target",
    )
    encoder = (4 * 3 + 2 * 3 * 3) + 2 * 3  # projections, scores and mixtures; feed-forward
    decoder = (4 * 5 + 2 * 5 * 5) + (2 * 5 + 2 * 3 + 2 * 5 * 3) + 2 * 5
    assert training_flops(ones, 7, 3, 5, 31) == 6 * (7 * (encoder + decoder) + 31 * 13)


@pytest.mark.parametrize(("source_len", "target_len"), [(9, 9), (4, 11), (13, 2)])
def test_pytorch_counts_the_same_flops_of_a_padded_micro_batch(source_len: int, target_len: int) -> None:
    model = Transformer(UNEVEN).train()
    source, target = (np.full((2, length), 6) for length in (source_len, target_len))
    source[0, -2:] = target[1, -1:] = PADDING
    num_target_tokens = 2 * target_len - 1
    batch = Batch(source, target, target, num_target_tokens, np.arange(2))
    with FlopCounterMode(display=False) as counter:
        accumulate_gradient(model, batch, num_target_tokens, 0.1, "float32")
    expected = training_flops(UNEVEN, 2, source_len, target_len, num_target_tokens)
    assert counter.get_total_flops() == expected


OTHERS: dict[str, dict[str, Any]] = {
    "relative positions": {"positions": "relative", "max_distance": 3},
    "recurrent": {"architecture": "recurrent"},
    "recurrent with experts": {"architecture": "recurrent", "feed_forward": "experts", "num_experts": 5},
    "transformer with experts": {"feed_forward": "experts", "num_experts": 5},
    "convolutional": {"architecture": "convolutional"},
    "bytenet": {"architecture": "bytenet"},
}


@pytest.mark.filterwarnings("ignore:TF32 acceleration")
@pytest.mark.parametrize("other", OTHERS)
def test_pytorch_counts_the_same_flops_of_variants_and_rivals(other: str) -> None:
    config, rows, source_len, target_len = UNEVEN.replace(**OTHERS[other]), 2, 9, 7
    source, target = (np.full((rows, length), 6) for length in (source_len, target_len))
    batch = Batch(source, target, target, rows * target_len, np.arange(rows))
    model = build_model(config).train()
    # PyTorch counts nothing of what oneDNN computes of an LSTM.
    with torch.backends.mkldnn.flags(enabled=False), FlopCounterMode(display=False) as counter:
        accumulate_gradient(model, batch, rows * target_len, 0.1, "float32")
    expected = training_flops(config, rows, source_len, target_len, rows * target_len)
    if config.architecture == "recurrent":
        # Of the state before the first position, which is zero, no gradient is wanted.
        units = 2 * (config.d_model // 2) ** 2 + (2 * config.num_layers - 1) * config.d_model**2
        expected -= 2 * rows * 4 * units
    assert counter.get_total_flops() == expected


@pytest.mark.parametrize("neighbourhood", [1, 2, 7, 16, 40])
@pytest.mark.parametrize("length", [1, 2, 5, 9])
def test_of_restricted_self_attention_the_pairs_in_reach_are_counted(neighbourhood: int, length: int) -> None:
    config = UNEVEN.replace(neighbourhood=neighbourhood)
    left_out = 2 * length * length
    for causal in (False, True):
        reach = config.reach(causal=causal)
        assert reach
        pairs = ((i, j) for i in range(length) for j in range(length))
        counted = sum(i - j <= reach.before and j - i <= reach.after for i, j in pairs)
        assert pairs_in_reach(config, length, causal=causal) == counted
        left_out -= counted
    saved = training_flops(UNEVEN, 3, length, length, 1) - training_flops(config, 3, length, length, 1)
    assert saved == 6 * 3 * 3 * 2 * (7 + 5) * left_out
