"""All model architectures: to add one, subclass a base class of `encoder_decoder.py` and list it here."""

from collections.abc import Mapping
from contextlib import nullcontext

import torch

from allyouneed.config.model import ModelConfig
from allyouneed.model.encoder_decoder import EncoderDecoder
from allyouneed.model.initialisation import NoDraws
from allyouneed.model.rivals.bytenet import ByteNet
from allyouneed.model.rivals.convolutional import Convolutional
from allyouneed.model.rivals.recurrent import Recurrent
from allyouneed.model.transformer import Transformer

ARCHITECTURES: Mapping[str, type[Transformer | Recurrent | Convolutional | ByteNet]] = {
    "transformer": Transformer,
    "recurrent": Recurrent,
    "convolutional": Convolutional,
    "bytenet": ByteNet,
}
"""`ModelConfig.architecture` -> model class."""


def build_model(config: ModelConfig, *, draw: bool = True) -> EncoderDecoder:
    """Build a model on PyTorch's default device.

    Args:
        config: Architecture and sizes.
        draw: Whether to draw initial weights; if not, they are uninitialised memory, to be overwritten.
    """
    with nullcontext() if draw else NoDraws():  # type: ignore[no-untyped-call]
        return ARCHITECTURES[config.architecture](config)


def count_parameters(config: ModelConfig) -> int:
    """Count the parameters of a model without allocating memory for them."""
    with torch.device("meta"):
        return sum(parameter.numel() for parameter in build_model(config).parameters())
