"""The systems of Table 2: what the paper prints of each, and its configuration at a scale."""

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any, NamedTuple

from allyouneed.config.presets import PRESETS
from allyouneed.config.run import RunConfig
from allyouneed.lab.paper.scales import Scale

_FEWEST_EXPERTS = 8
_MOST_EXPERTS = 512
"""Weights, gradients and moments of 512 experts take 35 GB; those of the paper's 2,048 take 138 GB."""


class Published(NamedTuple):
    """What the paper prints of a system for a pair of languages."""

    bleu: float | None = None
    flops: float | None = None
    """Training FLOPs by the paper's estimate."""

    @property
    def figures(self) -> dict[str, float]:
        """As figures of a row."""
        printed = {"bleu": self.bleu, "formula_flops": self.flops}
        return {name: value for name, value in printed.items() if value is not None}


class System(NamedTuple):
    """A system of Table 2."""

    preset: str
    what: str
    english_german: Published
    english_french: Published
    narrower: int = 1
    """Further divisor of widths below the paper's size; it brings the cost of an update close to the
    Transformer's."""
    model: Mapping[str, Any] = MappingProxyType({})
    """Model settings below the paper's size, before layers are divided."""


_OF_SUB_WORDS = {"num_layers": 20, "num_dilations": 3}
"""ByteNet's 30 layers with dilations up to 16 reach 186 bytes to either side. Halved to 10 layers, these
reach 22 sub-words; sentences have too few sub-words for dilations 8 and 16."""
SYSTEMS = {
    "transformer": System(
        "base", "Transformer (base model)", Published(27.3, 3.3e18), Published(38.1, 3.3e18)
    ),
    "recurrent": System(
        "recurrent_gnmt", "recurrent, as GNMT", Published(24.6, 2.3e19), Published(39.92, 1.4e20), 2
    ),
    "convolutional": System(
        "convolutional_convs2s",
        "convolutional, as ConvS2S",
        Published(25.16, 9.6e18),
        Published(40.46, 1.5e20),
    ),
    "bytenet": System(
        "bytenet", "dilated convolutions, as ByteNet", Published(23.75), Published(), 2, _OF_SUB_WORDS
    ),
    "experts": System(
        "experts", "recurrent with experts, as MoE", Published(26.03, 2.0e19), Published(40.56, 1.2e20)
    ),
}
"""Name of a row -> the system."""


def at_scale(scale: Scale, system: System) -> RunConfig:
    """The configuration of a system at a scale, with a suitable number of experts.

    Below the paper's size, only architectures are compared: all systems have the base model's learning
    rate, dropout, label smoothing and search, and about its cost of an update.
    """
    config, base = PRESETS[system.preset](), scale(PRESETS["base"]())
    experts = min(_MOST_EXPERTS, max(_FEWEST_EXPERTS, config.model.num_experts // scale.narrower**3))
    config = config.replace(model={"num_experts": experts})
    if scale.narrower == 1:
        factor = base.training.learning_rate_factor * config.training.learning_rate_factor
        return scale(config).replace(training={"learning_rate_factor": factor})
    config = config.replace(model=system.model)
    return replace(scale, narrower=scale.narrower * system.narrower)(config).replace(
        model={"dropout": base.model.dropout},
        training={
            "label_smoothing": base.training.label_smoothing,
            "learning_rate_factor": base.training.learning_rate_factor,
        },
        search=base.search.model_dump(),
    )
