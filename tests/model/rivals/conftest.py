from typing import Any, Protocol

import pytest
import torch
from torch import nn

from allyouneed.config.model import ModelConfig
from allyouneed.model.architectures import ARCHITECTURES
from allyouneed.model.encoder_decoder import StepwiseModel

RIVALS: dict[str, dict[str, Any]] = {
    "recurrent": {"architecture": "recurrent"},
    "recurrent with experts": {
        "architecture": "recurrent",
        "feed_forward": "experts",
        "num_experts": 5,
        "d_ff": 9,
    },
    "convolutional": {"architecture": "convolutional"},
    "convolutional, learned positions, even width": {
        "architecture": "convolutional",
        "positions": "learned",
        "max_positions": 40,
        "kernel_width": 4,
    },
    "bytenet": {"architecture": "bytenet", "num_layers": 4},
    "zeros at the start": {"architecture": "bytenet", "decoder_start": "zeros", "tied_embeddings": "none"},
}


class TinyRival(Protocol):
    def __call__(self, **settings: Any) -> StepwiseModel: ...


def build(**settings: Any) -> StepwiseModel:
    torch.manual_seed(0)
    sizes = {"source_vocab_size": 17, "target_vocab_size": 17, "d_model": 12, "num_layers": 3}
    config = ModelConfig(**{**sizes, **settings})
    model = ARCHITECTURES[config.architecture](config)
    assert isinstance(model, StepwiseModel)
    for name, parameter in model.named_parameters():
        if name.endswith(("gate", "noise", "bias")) or "bias_" in name:
            nn.init.uniform_(parameter, -0.5, 0.5)  # what begins as zero hides mistakes
    return model.double().eval()


@pytest.fixture(params=RIVALS)
def rival(request: pytest.FixtureRequest) -> StepwiseModel:
    """Each rival, small, in double precision."""
    return build(**RIVALS[request.param])


@pytest.fixture
def tiny_rival() -> TinyRival:
    """Rivals as one wants them."""
    return build
