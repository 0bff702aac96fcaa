"""Models, settings and folders that are tiny, and that the tests of several folders share."""

from pathlib import Path
from typing import Any, Protocol

import pytest
import torch

from allyouneed.config.model import ModelConfig
from allyouneed.config.run import RunConfig
from allyouneed.model.transformer import Transformer

VOCAB_SIZE = 16


class TinyModel(Protocol):
    def __call__(self, seed: int = 0, vocab_size: int = 11, **settings: Any) -> Transformer: ...


@pytest.fixture(scope="session")
def tiny_model() -> TinyModel:
    """Random models, with logits so far apart that rounding decides nothing."""

    def build(seed: int = 0, vocab_size: int = 11, **settings: Any) -> Transformer:
        sizes = {"d_model": 12, "d_ff": 20, "num_layers": 2, "num_heads": 3, **settings}
        torch.manual_seed(seed)
        model = Transformer(ModelConfig(source_vocab_size=vocab_size, target_vocab_size=vocab_size, **sizes))
        with torch.no_grad():
            for name, parameter in model.named_parameters():
                if name.startswith("embeddings.matrices"):
                    parameter.mul_(3)
                elif name.endswith("bias"):
                    parameter.uniform_(-0.5, 0.5)
        return model

    return build


@pytest.fixture(scope="session")
def config() -> RunConfig:
    """Small, with dropout, four micro-batches an update and five updates an epoch."""
    return RunConfig().replace(
        model={
            "source_vocab_size": VOCAB_SIZE,
            "target_vocab_size": VOCAB_SIZE,
            "d_model": 16,
            "d_ff": 32,
            "num_layers": 1,
            "num_heads": 2,
            "dropout": 0.2,
        },
        training={
            "batch_tokens": 256,
            "micro_batch_tokens": 64,
            "num_steps": 12,
            "warmup_steps": 20,
            "learning_rate_factor": 2.0,
            "checkpoint_every_steps": 4,
            "precision": "float32",
        },
    )


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """An empty run directory."""
    path = tmp_path / "run"
    path.mkdir()
    return path
