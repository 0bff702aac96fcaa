"""Scaled token embeddings, and the matrices that they share (paper 3.4)."""

import math
from collections.abc import Callable

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional

from allyouneed.config.model import TYING, Role
from allyouneed.symbols import END, START

LookUp = Callable[[Tensor, Tensor, bool], Tensor]
"""Ids (*shape), a matrix (vocab, d_model) and whether its gradient is sparse -> vectors (*shape, d_model)."""


def rows_of(ids: Tensor, matrix: Tensor, sparse: bool) -> Tensor:
    """The row of each id; see `LookUp`."""
    return functional.embedding(ids, matrix, sparse=sparse)


def rows_after_zeros(ids: Tensor, matrix: Tensor, sparse: bool) -> Tensor:
    """The row of each id, or zeros for the start symbol: the 2017 code shifts the target's vectors by one."""
    return rows_of(ids, matrix, sparse) * (ids != START)[..., None]


def rows_after_end(ids: Tensor, matrix: Tensor, sparse: bool) -> Tensor:
    """The row of each id, or the end symbol's for the start symbol, as fairseq has it."""
    return rows_of(ids.masked_fill(ids == START, END), matrix, sparse)


DECODER_STARTS: dict[str, LookUp] = {"symbol": rows_of, "zeros": rows_after_zeros, "end": rows_after_end}
"""`ModelConfig.decoder_start` -> function that looks up the vectors of the decoder's input."""


class Embeddings(nn.Module):
    """The matrices (vocab, d_model) of the source embedding, target embedding and pre-softmax projection.

    The paper's projection has no bias.
    """

    def __init__(
        self,
        d_model: int,
        source_vocab_size: int,
        target_vocab_size: int,
        tying: str,
        decoder_start: str = "symbol",
        *,
        scaled: bool = True,
        output_bias: bool = False,
    ) -> None:
        super().__init__()
        self.scale = math.sqrt(d_model) if scaled else 1.0
        """Factor of embeddings."""
        self.bias = nn.Parameter(torch.empty(target_vocab_size)) if output_bias else None
        """Bias of the logits (vocab), or None."""
        self._look_up = {"source": rows_of, "target": DECODER_STARTS[decoder_start]}
        self._sparse = False
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
        """The rows of `ids`, multiplied by `scale`, which is sqrt(d_model) in the paper."""
        return self._look_up[role](ids, self.matrix(role), self._sparse) * self.scale

    def untie_gradients(self) -> list[tuple[nn.Parameter, nn.Parameter]]:
        """Give each role its own parameter, which shares the memory of its matrix.

        Gradients of looked-up rows are then sparse, and autograd writes no whole matrix for each role.
        Returns the new parameters, each with the one that it stands for.
        """
        pairs = [
            (nn.Parameter(matrix.detach(), matrix.requires_grad), matrix)
            for matrix in (self.matrices[self.names[role]] for role in TYING["none"])
        ]
        self.names, self._sparse = TYING["none"], True
        self.matrices = nn.ParameterDict(zip(self.names.values(), (new for new, _ in pairs), strict=True))
        return pairs

    def logits(self, hidden: Float[Tensor, "*rows d_model"]) -> Float[Tensor, "*rows vocab"]:
        """The logits of the next token."""
        return functional.linear(hidden, self.matrix("output"), self.bias)

    def output_rows(self, ids: Int[Tensor, " tokens"] | slice) -> tuple[Tensor, Tensor | None]:
        """The rows of the projection to some tokens (tokens, d_model), and their biases, if it has any."""
        return self.matrix("output")[ids], None if self.bias is None else self.bias[ids]
