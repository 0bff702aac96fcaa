"""A tiny model learns to copy and to reverse, and search then finds every unseen answer."""

import random
from collections.abc import Callable
from typing import cast

import pytest
import torch
from torch.nn import functional
from torch.optim.swa_utils import AveragedModel

from allyouneed.config.model import ModelConfig
from allyouneed.config.run import SearchConfig
from allyouneed.inference.generate import generate
from allyouneed.inference.torch_engine import TorchEngine, pad
from allyouneed.model.transformer import Transformer
from allyouneed.symbols import END, PADDING, START, UNKNOWN

VOCAB_SIZE = 15
NUM_STEPS, WARMUP_STEPS, AVERAGED_STEPS = 600, 200, 100
CPU = torch.device("cpu")
Task = Callable[[list[int]], list[int]]


def random_sequence(draw: random.Random) -> list[int]:
    return [draw.randrange(UNKNOWN + 1, VOCAB_SIZE) for _ in range(draw.randint(4, 8))]


def train(model: Transformer, task: Task, unseen: list[list[int]]) -> Transformer:
    """The mean of the model after each of the last steps; one step's weights are still noisy."""
    mean = AveragedModel(model)
    draw = random.Random(1)
    optimizer = torch.optim.Adam(model.parameters(), betas=(0.9, 0.98), eps=1e-9)
    for step in range(1, NUM_STEPS + 1):
        sources = [ids for ids in (random_sequence(draw) for _ in range(64)) if ids not in unseen]
        targets = [task(ids) for ids in sources]
        hidden = model(
            pad([[*ids, END] for ids in sources], CPU), pad([[START, *ids] for ids in targets], CPU)
        )
        gold = pad([[*ids, END] for ids in targets], CPU)
        loss = functional.cross_entropy(
            model.project(hidden).flatten(0, 1), gold.flatten(), ignore_index=PADDING, label_smoothing=0.1
        )
        rate = model.config.d_model**-0.5 * min(step**-0.5, step * WARMUP_STEPS**-1.5)
        for group in optimizer.param_groups:
            group["lr"] = rate
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step > NUM_STEPS - AVERAGED_STEPS:
            mean.update_parameters(model)
    return cast(Transformer, mean.module)


@pytest.mark.release
@pytest.mark.parametrize("task", [list, lambda ids: ids[::-1]], ids=["copy", "reverse"])
def test_a_tiny_model_learns(task: Task) -> None:
    draw = random.Random(2)
    unseen = [random_sequence(draw) for _ in range(200)]
    torch.manual_seed(1)
    model = Transformer(
        ModelConfig(
            source_vocab_size=VOCAB_SIZE,
            target_vocab_size=VOCAB_SIZE,
            d_model=32,
            d_ff=64,
            num_layers=2,
            num_heads=4,
            dropout=0.0,
        )
    )
    trained = train(model, task, unseen)
    found = [best for (best,) in generate(TorchEngine(trained), unseen, SearchConfig(alignments=True))]
    assert [hypothesis.ids for hypothesis in found] == [task(ids) for ids in unseen]
    right = [
        source_position == task(list(range(len(ids))))[target_position]
        for ids, hypothesis in zip(unseen, found, strict=True)
        for source_position, target_position in hypothesis.alignment
    ]
    assert len(right) == sum(map(len, unseen))
    assert sum(right) >= 0.95 * len(right)
