"""`train_traced.py RUN DATA`: trains a tiny model with code that is traced, and prints as JSON what it saw.

PyTorch decides when to trace as it does when to compile; what it traced then runs as it is, which is fast.
"""

import functools
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from tests.training.train_compiled import trained
from torch import Tensor
from torch.fx import GraphModule

from allyouneed.data.store import PairStore

COMPILE = torch.compile


def run(folder: Path, store: PairStore, *, most_sizes: int = 8, memory: int = 1_000, **training: Any) -> Any:
    """What `trained` returns, and the tokens per side of all that was traced.

    Args:
        folder: Folder of the run.
        store: Pairs to train on.
        most_sizes: Number of times that PyTorch traces.
        memory: Tokens per side that the pretended memory holds.
        training: Settings.
    """
    sizes = []

    def traced(graph: GraphModule, given: Sequence[Tensor]) -> Callable[..., Any]:
        sizes.append(max(each.size(1) for each in given if each.dtype == torch.int64 and each.dim() == 2))
        return exhausted if sizes[-1] > memory else graph.forward

    torch.compile = functools.partial(COMPILE, backend=traced)
    torch._dynamo.config.recompile_limit = most_sizes
    micro = {"batch_tokens": 400, "micro_batch_tokens": 100}
    return {**trained(folder, store, **micro, **training), "sizes": sizes}


def exhausted(*_: Tensor) -> None:
    """Fail as a device does."""
    raise torch.OutOfMemoryError("out of memory")


def main() -> None:
    """Print all of it."""
    folder, store = Path(sys.argv[1]), PairStore(Path(sys.argv[2]))
    packed = functools.partial(run, store=store, packed_tokens=400)
    found = {
        "padded": packed(folder / "padded", compiled="auto"),
        "several": [packed(folder / f"{number}", seed=number, most_sizes=1) for number in range(3)],
        "too many sizes": packed(folder / "many", most_sizes=0),
        "memory for a half": packed(folder / "half", memory=300),
        "memory for none": packed(folder / "none", memory=100),
    }
    print(json.dumps(found))


if __name__ == "__main__":
    main()
