"""`train_exactly.py RUN DATA CONFIG`: trains as usual, but with weights in float64.

Fails if threads of the exchange outlive the training: where they are slow, PyTorch aborts a Python that ends.
"""

import contextlib
import os
import sys
from pathlib import Path

import torch
from torch.optim.optimizer import register_optimizer_step_post_hook

from allyouneed.config.run import RunConfig
from allyouneed.runs.starting import train


def gloo_threads() -> list[str]:
    """The names of the threads of the exchange between processes."""
    names = []
    for task in Path("/proc/self/task").iterdir():
        with contextlib.suppress(OSError):  # one that ends meanwhile
            names.append(task.joinpath("comm").read_text().strip())
    return [name for name in names if "gloo" in name]


run, data, config = sys.argv[1:]
torch.set_default_dtype(torch.float64)
used: list[str] = []
register_optimizer_step_post_hook(lambda *_: used.extend(gloo_threads()))
train(run, data, RunConfig.from_toml(Path(config)))
assert used or os.environ["WORLD_SIZE"] == "1"
assert not gloo_threads(), gloo_threads()
