"""`train_exactly.py RUN DATA CONFIG DTYPE`: trains as usual, but with weights of this type."""

import sys
from pathlib import Path

import torch

from allyouneed.config import RunConfig
from allyouneed.runs import train

run, data, config, dtype = sys.argv[1:]
torch.set_default_dtype(getattr(torch, dtype))
train(run, data, RunConfig.from_toml(Path(config)))
