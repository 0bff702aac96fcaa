"""Every architecture of a model: to add one, write a class of `encoder_decoder.py` and name it here."""

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
"""`ModelConfig.architecture` -> the model."""


def build_model(config: ModelConfig, *, draw: bool = True) -> EncoderDecoder:
    """A model on PyTorch's default device.

    Args:
        config: Its architecture and sizes.
        draw: Whether its random weights are drawn; else they are whatever the memory held, to be overwritten.
    """
    with nullcontext() if draw else NoDraws():  # type: ignore[no-untyped-call]
        return ARCHITECTURES[config.architecture](config)


def count_parameters(config: ModelConfig) -> int:
    """The parameters of such a model, which takes no memory here."""
    with torch.device("meta"):
        return sum(parameter.numel() for parameter in build_model(config).parameters())
