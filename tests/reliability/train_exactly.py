"""`train_exactly.py RUN DATA CONFIG`: trains as usual, but with weights in float64.

Fails if threads of the exchange outlive the training: where they are slow, PyTorch aborts a Python that ends.
"""

import sys
from pathlib import Path

import torch

from allyouneed.config.run import RunConfig
from allyouneed.tasks.running import train

run, data, config = sys.argv[1:]
torch.set_default_dtype(torch.float64)
train(run, data, RunConfig.from_toml(Path(config)))
names = [task.joinpath("comm").read_text().strip() for task in Path("/proc/self/task").iterdir()]
assert not any("gloo" in name for name in names), names
