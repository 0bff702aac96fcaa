from typing import Any, Protocol

import pytest
import torch

from allyouneed.model import Transformer
from allyouneed.model_config import ModelConfig


class TinyModel(Protocol):
    def __call__(self, seed: int = 0, vocab_size: int = 11, **settings: Any) -> Transformer: ...


@pytest.fixture
def tiny_model() -> TinyModel:
    """Random models, with logits so far apart that rounding decides nothing."""

    def build(seed: int = 0, vocab_size: int = 11, **settings: Any) -> Transformer:
        sizes = {"d_model": 12, "d_ff": 20, "num_layers": 2, "num_heads": 3, **settings}
        torch.manual_seed(seed)
        model = Transformer(ModelConfig(source_vocab_size=vocab_size, target_vocab_size=vocab_size, **sizes))
        with torch.no_grad():
            for name, parameter in model.named_parameters():
                if name.startswith("embeddings."):
                    parameter.mul_(3)
                elif name.endswith("bias"):
                    parameter.uniform_(-0.5, 0.5)
        return model

    return build
