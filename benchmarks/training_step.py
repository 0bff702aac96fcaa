"""What each technique of the training step gains: target tokens per second with and without it, in one run.

Each variant is the whole step (forward, loss, backward, Adam) of the preset `multi30k_tiny` on random ids,
17 a sentence. The variants take turns, so that a busy machine slows them all; medians are reported.

    python benchmarks/training_step.py [ROUNDS [FILE]]
"""

import json
import platform
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from allyouneed.config.presets import preset
from allyouneed.config.run import Precision
from allyouneed.data.batch_plans import Batch
from allyouneed.model.attention import AttentionFunction, fused_attention, scaled_dot_product_attention
from allyouneed.model.dropout import Dropout
from allyouneed.model.relative_positions import turn_pairs
from allyouneed.model.transformer import Transformer
from allyouneed.native import gradient_kernels as gradients
from allyouneed.training import loss, update
from allyouneed.training.loss import LossSums, label_smoothed_cross_entropy
from allyouneed.training.optimizer import build_optimizer
from allyouneed.training.team import team_of
from allyouneed.training.update import Gradients

VOCAB_SIZE, SENTENCE_TOKENS, BATCH_TOKENS = 10_000, 17, 4_096
ROUNDS = int(sys.argv[1]) if len(sys.argv) > 1 else 8
RESULTS = Path(__file__).parent / "results" / (sys.argv[2] if len(sys.argv) > 2 else "training_step.json")


class Step:
    """A model in training, ready to take one step after another."""

    def __init__(
        self,
        precision: Precision,
        micro_batches: int,
        attend: AttentionFunction | None = None,
        *,
        kernels: bool = True,
        share: str = "micro_batches",
        positions: str = "sinusoidal",
    ) -> None:
        sizes = {"source_vocab_size": VOCAB_SIZE, "target_vocab_size": VOCAB_SIZE}
        config = preset("multi30k_tiny").replace(
            model={**sizes, "positions": positions},
            training={
                "batch_tokens": BATCH_TOKENS,
                "micro_batch_tokens": BATCH_TOKENS // micro_batches,
                "precision": precision,
                "threads_share": share,
            },
        )
        self.training = config.training
        self.model = Transformer(config.model).train()
        with nullcontext() if kernels else no_kernels():
            update.use_fastest_operators(self.model, self.training)
        if attend:
            self.model.use_attention(attend)
        self.optimizer = build_optimizer(self.model, self.training)
        self.gradients = Gradients(list(self.model.parameters()))
        self.team = team_of(self.model, self.gradients, self.training, self.training.label_smoothing)
        rows = BATCH_TOKENS // SENTENCE_TOKENS // micro_batches
        self.batches = [_random_batch(rows) for _ in range(micro_batches)]
        self.tokens = sum(batch.num_target_tokens for batch in self.batches)

    def __call__(self) -> float:
        """Take a step; target tokens per second."""
        began = time.perf_counter()
        self.gradients.clear()
        if self.team:
            self.team.add_up(enumerate(map(nullcontext, self.batches)), 1, self.tokens)
        else:
            for batch in self.batches:
                update.accumulate_gradient(
                    *(self.model, batch, self.tokens, self.training.label_smoothing, self.training.precision)
                )
        self.optimizer.step()
        return self.tokens / (time.perf_counter() - began)


def _random_batch(rows: int) -> Batch:
    ids = np.random.default_rng(0).integers(5, VOCAB_SIZE, (rows, SENTENCE_TOKENS))
    return Batch(ids, ids, ids, ids.size, np.arange(rows))


def turned_by_pytorch() -> Step:
    """Rotary positions without their kernel."""
    with patch.object(update, "turn_pairs_by_kernel", turn_pairs):
        return Step("float32", 4, positions="rotary")


@contextmanager
def library_dropout() -> Iterator[None]:
    """PyTorch's dropout in place of ours, without kernels."""
    with (
        no_kernels(),
        patch.object(Dropout, "forward", lambda self, x: functional.dropout(x, self.rate, self.training)),
    ):
        yield


@contextmanager
def plain_loss() -> Iterator[None]:
    """All logits in memory in place of the fused projection and loss."""

    def of_logits(hidden: Tensor, matrix: Tensor, targets: Tensor, smoothing: float, bias: None) -> LossSums:
        return label_smoothed_cross_entropy((hidden @ matrix.T).float(), targets, smoothing)

    with patch.object(update, "projected_loss", of_logits):
        yield


@contextmanager
def no_kernels() -> Iterator[None]:
    """PyTorch's operators in place of the kernels."""
    with ExitStack() as stack:
        for module in (loss, update, gradients):
            stack.enter_context(patch.object(module, "library", lambda: None))
        yield


def main() -> None:
    """Measure all variants, print a table, and keep it in `results/`."""
    variants: dict[str, tuple[Step, Callable[[], Any]]] = {
        "as trained": (Step("bfloat16", 4), nullcontext),
        "without kernels": (Step("bfloat16", 4, kernels=False), no_kernels),
        "one micro-batch": (Step("bfloat16", 1), nullcontext),
        "threads share operations": (Step("bfloat16", 4, share="operations"), nullcontext),
        "PyTorch's dropout, no kernels": (Step("bfloat16", 4, kernels=False), library_dropout),
        "plain loss": (Step("bfloat16", 4), plain_loss),
        "plain attention": (Step("bfloat16", 4, scaled_dot_product_attention), nullcontext),
        "PyTorch's fused attention": (Step("bfloat16", 4, fused_attention), nullcontext),
        "float32": (Step("float32", 4), nullcontext),
        "float32, PyTorch's fused attention": (Step("float32", 4, fused_attention), nullcontext),
        "float32, rotary": (Step("float32", 4, positions="rotary"), nullcontext),
        "float32, rotary, turned by PyTorch": (turned_by_pytorch(), nullcontext),
        "float32 without kernels": (Step("float32", 4, kernels=False), no_kernels),
    }
    speeds: dict[str, list[float]] = {name: [] for name in variants}
    for _ in range(ROUNDS):
        for name, (step, changed) in variants.items():
            with changed():
                speeds[name].append(step())
    medians = {name: statistics.median(values[1:]) for name, values in speeds.items()}
    for name, speed in medians.items():
        print(f"{name:<28}{speed:>10,.0f} tokens/s {speed / medians['as trained']:>8.2f}")
    result = {
        "date": datetime.now(UTC).date().isoformat(),
        "hardware": f"{platform.machine()}, {torch.get_num_threads()} threads",
        "torch": torch.__version__,
        "target_tokens_per_second": {name: round(speed) for name, speed in medians.items()},
    }
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
