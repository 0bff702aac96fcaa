"""Sizes that are computed from the settings are those of the models that PyTorch builds."""

from collections import Counter
from typing import Any, get_args

import pytest

from allyouneed.config.model import ModelConfig
from allyouneed.model.architectures import outline_model
from allyouneed.model.sizes import count_parameters

UNEVEN = {"source_vocab_size": 97, "target_vocab_size": 89, "tied_embeddings": "target"}
WIDTHS = {"d_model": 20, "d_ff": 44, "num_layers": 3, "num_heads": 2, "d_k": 6, "d_v": 5}
EXPERTS = {"feed_forward": "experts", "num_experts": 3}
CHOICES = {name: get_args(field.annotation) for name, field in ModelConfig.model_fields.items()}
FIRST = "architecture", "attention", "autoregression", "feed_forward", "norm", "positions"
VARIANTS: list[dict[str, Any]] = [
    *({name: value} for name in FIRST for value in CHOICES[name]),
    {"num_decoder_layers": 1},
    {"max_positions": 13, "positions": "learned", "target_space": True},
    {"max_distance": 7, "positions": "relative", "norm": "pre"},
    {"attention_bias": False, "attention": "additive"},
    {"output_bias": True, "tied_embeddings": "none"},
    {"source_vocab_size": 89, "tied_embeddings": "all"},
    {"guided_alignment": 0.1},
    {"block": 4},
    {"feed_forward": "parameters", "parameter_heads": 3, "parameter_d_k": 7, "parameter_pairs": 11},
    {**EXPERTS, "autoregression": "ssru"},
    {"architecture": "recurrent", **EXPERTS},
    {"architecture": "convolutional", "kernel_width": 5},
    {"architecture": "convolutional", "positions": "learned", "max_positions": 13},
    {"architecture": "bytenet", "kernel_width": 4, "num_layers": 7},
]


@pytest.mark.parametrize("settings", VARIANTS, ids=str)
def test_the_parameters_of_each_part_are_those_of_the_model(settings: dict[str, Any]) -> None:
    config = ModelConfig().replace(**UNEVEN | WIDTHS | settings)
    counts = Counter({"embeddings": 0, "positions": 0, "encoder": 0, "decoder": 0})
    for name, parameter in outline_model(config).named_parameters():
        part = name.partition(".")[0]
        # Names that begin with `decoder`, such as decoder_norm, count as the decoder.
        part = "decoder" if part == "block_heads" else part
        counts["positions" if part.endswith("_positions") else part.partition("_")[0]] += parameter.numel()
    assert count_parameters(config) == counts
