"""The initial weights of the authors' code of 2017; the paper does not give them."""

from torch import nn

from allyouneed.model.embedding import Embeddings
from allyouneed.model.positional_encoding import LearnedPositions


def initialise(model: nn.Module) -> None:
    """Draw all weights of `model` anew from PyTorch's generator.

    Matrices are Glorot uniform over the whole *packed* matrix, so that queries, keys and values start
    smaller than three matrices of their own would; biases are 0, normalisations the identity, embeddings
    normal with deviation d_model^-0.5.
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
