"""The initial weights of the authors' code of 2017; the paper does not give them."""

import math

from torch import nn

from allyouneed.model.attention import AdditiveCompatibility
from allyouneed.model.attention_over_parameters import AttentionOverParameters
from allyouneed.model.embedding import Embeddings
from allyouneed.model.positional_encoding import LearnedPositions, TargetSpace


def initialise(model: nn.Module) -> None:
    """Draw all weights of `model` anew from PyTorch's generator.

    Matrices are Glorot uniform over the whole *packed* matrix, so that queries, keys and values start
    smaller than three matrices of their own would; biases are 0, normalisations the identity, embeddings
    normal with deviation d_model^-0.5. So are the vectors of a target space, and the keys and values that
    are parameters, for they are scaled up likewise.
    """
    for module in model.modules():
        if isinstance(module, nn.Linear):
            nn.init.xavier_uniform_(module.weight)
            if module.bias is not None:
                nn.init.zeros_(module.bias)
        elif isinstance(module, nn.LayerNorm):
            nn.init.ones_(module.weight)
            nn.init.zeros_(module.bias)
        elif isinstance(module, Embeddings | LearnedPositions):
            for matrix in module.parameters():
                nn.init.normal_(matrix, std=matrix.size(1) ** -0.5)
        elif isinstance(module, TargetSpace):
            nn.init.normal_(module.spaces, std=module.spaces.size(1) ** -0.5)
        elif isinstance(module, AttentionOverParameters):
            for parameter in (module.keys, module.values):
                nn.init.normal_(parameter, std=1 / module.scale)
        elif isinstance(module, AdditiveCompatibility):
            bound = math.sqrt(6 / (module.weight.size(1) + 1))  # Glorot's, of each head's d_k -> 1 matrix
            nn.init.uniform_(module.weight, -bound, bound)
