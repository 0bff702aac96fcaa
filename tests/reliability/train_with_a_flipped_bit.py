"""`train_with_a_flipped_bit.py RUN DATA CONFIG RANK`: trains while the memory of one process fails once."""

import os
import sys
from pathlib import Path

import torch
from torch.optim.optimizer import register_optimizer_step_post_hook

from allyouneed.config.run import RunConfig
from allyouneed.runs.starting import train

STEP = 5
run, data, config, rank = sys.argv[1:]
steps = 0


def fail(optimizer: torch.optim.Optimizer, *_: object) -> None:
    """Flip the lowest bit of the first weight after an update."""
    global steps  # noqa: PLW0603
    steps += 1
    if steps == STEP and os.environ["RANK"] == rank:
        weight = optimizer.param_groups[0]["params"][0].detach()
        weight.view(-1)[:1].view(torch.int32).bitwise_xor_(1)


register_optimizer_step_post_hook(fail)
train(run, data, RunConfig.from_toml(Path(config)))
