from typing import Any

import pytest

from allyouneed.config.model import ModelConfig

KINDS: dict[str, dict[str, Any]] = {
    "the paper's": {},
    "pre-norm": {"norm": "pre"},
    "no biases": {"attention_bias": False},
    "concatenated positions": {"positions": "concatenated"},
    "fairseq positions": {"positions": "fairseq"},
    "learned positions": {"positions": "learned", "max_positions": 9},
    "rotary positions": {"positions": "rotary"},
    "linear biases": {"positions": "alibi"},
    "clipped offsets": {"positions": "relative", "max_distance": 3},
    "target space": {"target_space": True},
    "additive": {"attention": "additive"},
    "restricted": {"neighbourhood": 3},
    "guided": {"guided_alignment": 0.1, "ids_per_word": 2},
    "over parameters": {"feed_forward": "parameters", "parameter_heads": 2, "parameter_pairs": 7},
    "experts": {"feed_forward": "experts", "num_experts": 3},
    "untied": {"tied_embeddings": "none"},
    "recurrent": {"architecture": "recurrent"},
    "recurrent with experts": {"architecture": "recurrent", "feed_forward": "experts", "num_experts": 3},
    "convolutional": {"architecture": "convolutional"},
    "convolutional, learned positions": {
        "architecture": "convolutional",
        "positions": "learned",
        "max_positions": 9,
    },
    "bytenet": {"architecture": "bytenet"},
}
"""Every architecture, and every variant that has parts of its own."""


def small(kind: str) -> ModelConfig:
    """The settings of a kind of model, small."""
    sizes = {"d_model": 12, "d_ff": 10, "num_layers": 2, "num_heads": 2}
    return ModelConfig(**{"source_vocab_size": 17, "target_vocab_size": 17, **sizes, **KINDS[kind]})


@pytest.fixture(params=KINDS)
def any_config(request: pytest.FixtureRequest) -> ModelConfig:
    """The settings of every kind of model, small."""
    return small(request.param)
