"""Token embeddings, scaled, and the matrices that they share (paper 3.4)."""

import math
from typing import Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional

Role = Literal["source", "target", "output"]

TYING: dict[str, dict[Role, str]] = {
    "all": {"source": "shared", "target": "shared", "output": "shared"},
    "target": {"source": "source", "target": "target", "output": "target"},
    "none": {"source": "source", "target": "target", "output": "output"},
}
"""Setting -> role of a matrix -> its name; roles of one name are one parameter."""


class Embeddings(nn.Module):
    """The matrices (vocab, d_model) of source embedding, target embedding and pre-softmax projection."""

    def __init__(self, d_model: int, source_vocab_size: int, target_vocab_size: int, tying: str) -> None:
        super().__init__()
        self.names = TYING[tying]
        sizes: dict[Role, int] = {
            "source": source_vocab_size,
            "target": target_vocab_size,
            "output": target_vocab_size,
        }
        matrices = {
            self.names[role]: nn.Parameter(torch.empty(size, d_model)) for role, size in sizes.items()
        }
        self.matrices = nn.ParameterDict(matrices)

    def matrix(self, role: Role) -> Float[Tensor, "vocab d_model"]:
        """The parameter that plays `role`."""
        matrix: Tensor = self.matrices[self.names[role]]
        return matrix

    def embed(self, role: Role, ids: Int[Tensor, "batch length"]) -> Float[Tensor, "batch length d_model"]:
        """The rows of `ids`, multiplied by sqrt(d_model)."""
        matrix = self.matrix(role)
        return functional.embedding(ids, matrix) * math.sqrt(matrix.size(1))
