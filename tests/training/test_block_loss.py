"""The heads of blockwise decoding learn the right tokens, and a model that gets heads stays what it was."""

from typing import Any

import numpy as np
import pytest
import torch
from tests.tiny import TinyModel

from allyouneed.data.batch_plans import Batch
from allyouneed.symbols import END, PADDING, START
from allyouneed.training.block_loss import tokens_ahead
from allyouneed.training.loss import label_smoothed_cross_entropy
from allyouneed.training.optimizer import freeze
from allyouneed.training.update import batch_loss

_TARGETS = np.array([[5, 6, 7, END], [8, END, PADDING, PADDING], [9, 5, END, PADDING]])


def _batch() -> Batch:
    source = np.array([[6, 5, END], [7, END, PADDING], [8, 9, END]])
    read = np.where(_TARGETS == END, PADDING, _TARGETS)
    target_input = np.concatenate([np.full((3, 1), START), read[:, :-1]], axis=1)
    return Batch(source, target_input, _TARGETS, 9, np.arange(3))


def test_each_token_trains_one_head_in_turn_with_a_later_token_of_its_own_sentence() -> None:
    of_two_heads = [6, END, END, PADDING, END, PADDING, 5, PADDING, PADDING]
    assert tokens_ahead(_TARGETS, 2).tolist() == of_two_heads
    of_three_heads = [6, END, PADDING, PADDING, PADDING, PADDING, 5, PADDING, PADDING]
    assert tokens_ahead(_TARGETS, 3).tolist() == of_three_heads


def test_the_loss_of_the_heads_is_added_to_that_of_the_model(tiny_model: TinyModel) -> None:
    model, batch = tiny_model(block=3).eval(), _batch()
    found = batch_loss(model, batch, 0.1, "float32")
    hidden = model(torch.from_numpy(batch.source), torch.from_numpy(batch.target_input))
    expected, likelihood, counted = torch.zeros(()), torch.zeros(()), 0
    for row, ids in enumerate(batch.target_output):
        for place, token in enumerate(ids):
            if token == PADDING:
                continue
            state, head = hidden[row, place], counted % 2
            one = label_smoothed_cross_entropy(model.project(state)[None], torch.tensor([token]), 0.1)
            expected, likelihood = expected + one.smoothed, likelihood + one.negative_log_likelihood
            later = ids[place + 1 + head] if place + 1 + head < len(ids) else PADDING
            if later != PADDING:
                network = model.block_heads.networks[head]
                logits = model.project(state + network(state))[None]
                expected += label_smoothed_cross_entropy(logits, torch.tensor([later]), 0.1).smoothed
            counted += 1
    torch.testing.assert_close(found.smoothed, expected)
    torch.testing.assert_close(found.negative_log_likelihood, likelihood)


@pytest.mark.parametrize("frozen", [(), ("[!b]*",)])
def test_with_all_but_the_heads_frozen_only_heads_have_gradients(tiny_model: TinyModel, frozen: Any) -> None:
    model = tiny_model(block=3)
    freeze(model, frozen)
    batch_loss(model, _batch(), 0.1, "float32").smoothed.backward()
    with_gradients = {name.partition(".")[0] for name, p in model.named_parameters() if p.grad is not None}
    assert with_gradients == (
        {"block_heads"} if frozen else {"block_heads", "embeddings", "encoder", "decoder"}
    )
