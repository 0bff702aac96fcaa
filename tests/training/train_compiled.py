"""`train_compiled.py RUN DATA`: trains a tiny model with compiled code, and prints as JSON what it saw.

A process of its own, because PyTorch cannot compile the checks of shapes that tests of the model add.
"""

import contextlib
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.fx import GraphModule

from allyouneed.config.run import RunConfig
from allyouneed.data.batch_plans import make_batch
from allyouneed.data.store import PairStore
from allyouneed.model.attention import _flash_attention
from allyouneed.model.transformer import Transformer
from allyouneed.storage.run_directory import RunDirectory
from allyouneed.storage.run_log import read_log
from allyouneed.training.compiled_states import CompiledStates, FixedSizes
from allyouneed.training.trainer import Corpus, Trainer
from allyouneed.training.update import (
    accumulate_gradient,
    packed_hidden_states,
    seed_generators,
    use_fastest_operators,
)

SIZES = {
    "source_vocab_size": 16,
    "target_vocab_size": 16,
    "d_model": 16,
    "d_ff": 32,
    "num_layers": 1,
    "num_heads": 2,
}
TRAINING: dict[str, Any] = {
    **{"batch_tokens": 100, "micro_batch_tokens": 25, "packed_tokens": 100, "compiled": "on"},
    **{"num_steps": 3, "warmup_steps": 20, "precision": "float32", "checkpoint_every_steps": 3},
}
CONFIG = RunConfig().replace(model={**SIZES, "dropout": 0.0, "attention_bias": False}, training=TRAINING)
"""The true gradient of a bias of keys is zero, of which Adam would magnify the rounding."""


def gradient(model: Transformer, store: PairStore, states: Any, step: int = 1) -> tuple[Tensor, Tensor]:
    """The gradient of some pairs, all parameters in a row, and their loss."""
    batch = make_batch(store, np.arange(12))
    model.zero_grad()
    seed_generators(1, step, 0)
    loss = accumulate_gradient(model, batch, batch.num_target_tokens, 0.0, "float32", states)
    return torch.cat([p.grad.flatten() for p in model.parameters() if p.grad is not None]), loss


def moved(model: Transformer, direction: Tensor, by: float) -> None:
    """Move all weights along a direction."""
    parts = direction.split([p.numel() for p in model.parameters()])
    with torch.no_grad():
        for parameter, part in zip(model.parameters(), parts, strict=True):
            parameter.add_(part.view_as(parameter), alpha=by)


def dropout(store: PairStore) -> dict[str, Any]:
    """What dropout is like in compiled code; the slope is along the gradient, and with the same masks."""
    torch.manual_seed(1)
    model = Transformer(CONFIG.model.replace(dropout=0.3)).train()
    use_fastest_operators(model, CONFIG.training, kernels=False)
    states = CompiledStates(model, 100, 12)
    (first, loss), (again, _), (other, _) = (gradient(model, store, states, step) for step in (1, 1, 2))
    bare, _ = gradient(model, store, packed_hidden_states)
    direction = first / first.norm()
    losses = []
    for by in (1e-2, -2e-2):
        moved(model, direction, by)
        losses.append(gradient(model, store, states)[1])
    tokens = make_batch(store, np.arange(12)).num_target_tokens
    return {
        "the same again": torch.equal(first, again),
        "another in another step": not torch.equal(first, other),
        "not the masks of eager code": not torch.allclose(first, bare),
        "slope": float((losses[0] - losses[1]) / 2e-2 / tokens),
        "length of the gradient": float(first.norm()),
        "loss": float(loss),
    }


def flash_operators(store: PairStore) -> int:
    """The number of flash attentions in the one graph of a model that is not run, as they need a GPU."""
    model = Transformer(CONFIG.model).train()
    model.use_attention(_flash_attention)  # type: ignore[arg-type]
    graphs: list[GraphModule] = []

    def keep(graph: GraphModule, _: object) -> Any:
        graphs.append(graph)
        return graph.forward

    source, target = FixedSizes(100, 12).pack(make_batch(store, np.arange(12)), torch.device("cpu"))
    compiled = torch.compile(model, fullgraph=True, dynamic=False, backend=keep)
    with contextlib.suppress(NotImplementedError), torch.autocast("cpu", torch.bfloat16):
        compiled(source, target)
    return sum("_varlen_attn" in str(node.target) for graph in graphs for node in graph.graph.nodes)


def trained(run: Path, store: PairStore, **training: Any) -> dict[str, Any]:
    """The log's notices and the weights of a run."""
    run.mkdir(parents=True)
    corpus = Corpus(store, None, {}, {})
    trainer = Trainer(CONFIG.replace(training=training), corpus, RunDirectory(run), torch.device("cpu"))
    trainer.train()
    notices = [event["text"] for event in read_log(run / "log.jsonl") if event["event"] == "notice"]
    return {
        "notices": notices,
        "weights": torch.cat([p.detach().flatten() for p in trainer.model.parameters()]).tolist(),
    }


def main() -> None:
    """Print all of it."""
    run, store = Path(sys.argv[1]), PairStore(Path(sys.argv[2]))
    found = {
        "compiled": trained(run / "compiled", store),
        "padded": trained(run / "padded", store, compiled="auto"),
        "dropout": dropout(store),
        "flash operators": flash_operators(store),
    }
    print(json.dumps(found))


if __name__ == "__main__":
    main()
