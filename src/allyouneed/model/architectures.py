"""All model architectures: to add one, subclass a base class of `encoder_decoder.py` and list it here."""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from allyouneed.config.model import ModelConfig
from allyouneed.model.encoder_decoder import EncoderDecoder
from allyouneed.model.frames import FramesTransformer
from allyouneed.model.rivals.bytenet import ByteNet
from allyouneed.model.rivals.convolutional import Convolutional
from allyouneed.model.rivals.recurrent import Recurrent
from allyouneed.model.transformer import Transformer

FRONTS: Mapping[str, type[Transformer]] = {"embeddings": Transformer, "convolutions": FramesTransformer}
"""`ModelConfig.front` -> class of Transformers."""

ARCHITECTURES: Mapping[str, Callable[[ModelConfig], EncoderDecoder]] = {
    "transformer": lambda config: FRONTS[config.front](config),
    "recurrent": Recurrent,
    "convolutional": Convolutional,
    "bytenet": ByteNet,
}
"""`ModelConfig.architecture` -> model class."""


def build_model(config: ModelConfig, *, draw: bool = True) -> EncoderDecoder:
    """Build a model on PyTorch's default device; `draw` initial weights, or leave memory to overwrite."""
    if draw:
        return ARCHITECTURES[config.architecture](config)
    model = outline_model(config)
    memory = {name: torch.empty(tensor.shape) for name, tensor in model.state_dict().items()}
    model.load_state_dict(memory, assign=True)
    return model


def outline_model(config: ModelConfig) -> EncoderDecoder:
    """Build a model whose parameters are on PyTorch's meta device: they have shapes, but no memory."""
    with _ParametersOnMeta():
        return ARCHITECTURES[config.architecture](config)


class _ParametersOnMeta(TorchFunctionMode):
    """A context in which `torch.empty`, which makes all parameters, returns tensors on the meta device.

    Buffers are computed as usual: on the meta device, PyTorch would import torch._dynamo and sympy to compute
    them, which takes a second.
    """

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: object,
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        on_meta = {"device": "meta"} if func is torch.empty else {}
        return func(*args, **{**(kwargs or {}), **on_meta})
