"""Initial weights: those of the authors' code of 2017, as the paper gives none, and the rivals' own."""

import math

import torch
from torch import nn

from allyouneed.model.attention import AdditiveCompatibility
from allyouneed.model.embedding import Embeddings
from allyouneed.model.experts import Experts
from allyouneed.model.feed_forward import AttentionOverParameters
from allyouneed.model.positional_encoding import LearnedPositions, TargetSpace
from allyouneed.model.relative_positions import ClippedOffsets
from allyouneed.model.rivals.convolution import Convolution


def initialise(model: nn.Module) -> None:
    """Draw all weights of `model` from PyTorch's generator; none on the meta device.

    Matrices are Glorot uniform over the whole *packed* matrix, so that queries, keys and values start
    smaller than in three separate matrices. Biases are 0, and normalisations are the identity. Embeddings
    and vectors of a target space are normal with deviation d_model^-0.5. So are keys and values that are
    parameters, because they are scaled up like embeddings.

    In the rivals, the matrices of an LSTM are uniform within `units^-0.5`; its biases are 0, but 1 at the
    forget gate. Experts, convolutions and clipped offsets draw their own weights.
    """
    if next(model.parameters()).is_meta:
        return  # PyTorch would import torch._dynamo for them, which takes a second
    for module in model.modules():
        _initialise_module(module)


def _initialise_module(module: nn.Module) -> None:
    if isinstance(module, nn.Linear):
        nn.init.xavier_uniform_(module.weight)
        if module.bias is not None:
            nn.init.zeros_(module.bias)
    elif isinstance(module, nn.LayerNorm):
        nn.init.ones_(module.weight)
        nn.init.zeros_(module.bias)
    elif isinstance(module, Embeddings | LearnedPositions):
        for parameter in module.parameters():
            _initialise_embedding(parameter)
    elif isinstance(module, TargetSpace):
        nn.init.normal_(module.spaces, std=module.spaces.size(1) ** -0.5)
    elif isinstance(module, AttentionOverParameters):
        for parameter in (module.keys, module.values):
            nn.init.normal_(parameter, std=1 / module.scale)
    elif isinstance(module, AdditiveCompatibility):
        bound = math.sqrt(6 / (module.weight.size(1) + 1))  # Glorot's, for each head's d_k -> 1 matrix
        nn.init.uniform_(module.weight, -bound, bound)
    elif isinstance(module, Experts | Convolution | ClippedOffsets):
        module.draw()
    elif isinstance(module, nn.LSTM):
        _initialise_lstm(module)


def _initialise_embedding(parameter: nn.Parameter) -> None:
    if parameter.dim() == 1:  # the bias of the logits
        nn.init.zeros_(parameter)
    else:
        nn.init.normal_(parameter, std=parameter.size(1) ** -0.5)


def _initialise_lstm(lstm: nn.LSTM) -> None:
    bound = lstm.hidden_size**-0.5
    for name, parameter in lstm.named_parameters():
        if name.startswith("weight"):
            nn.init.uniform_(parameter, -bound, bound)
        else:
            nn.init.zeros_(parameter)
    with torch.no_grad():
        lstm.get_parameter("bias_ih_l0")[lstm.hidden_size : 2 * lstm.hidden_size].fill_(1.0)
