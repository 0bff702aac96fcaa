"""The paper's model of sources that are frames, of which two convolutions make a quarter as many (3.1)."""

import math

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn import functional

from allyouneed.config.model import ModelConfig, Role
from allyouneed.model.initialisation import initialise
from allyouneed.model.masks import PackedIds, real_positions
from allyouneed.model.transformer import Transformer


class Halving(nn.Module):
    """A convolution of width 3 and stride 2, as one product, and a ReLU: n positions become ceil(n / 2)."""

    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.map = nn.Linear(3 * d_model, d_model)

    def forward(
        self, x: Float[Tensor, "batch length d_model"], real: Bool[Tensor, "batch length"]
    ) -> tuple[Float[Tensor, "batch half d_model"], Bool[Tensor, "batch half"]]:
        """Half as many vectors, around every second position, and which are real; the others are zeros."""
        real = real[:, ::2]
        half = real.size(1)
        padded = functional.pad(x, (0, 0, 1, 2 * half - x.size(1)))
        windows = torch.cat([padded[:, place : place + 2 * half : 2] for place in range(3)], dim=-1)
        return self.map(windows).relu() * real[..., None], real


class FramesTransformer(Transformer):
    """A Transformer whose sources are frames: float32 (batch, length, features), padded with NaN at the end.

    The source's "embeddings" are a linear map: an embedded id is the product of a one-hot vector with the
    same matrix.
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__(config)
        self.halvings = nn.ModuleList(Halving(config.d_model) for _ in range(2))
        initialise(self.halvings)

    def read_of(
        self, source: Float[Tensor, "batch frames features"]
    ) -> Float[Tensor, "batch length d_model"]:
        """Make a vector of every four frames, which the encoder reads; padded with NaN."""
        real = real_positions(source)
        scale = self.embeddings.scale / math.sqrt(source.size(2))
        x = source.nan_to_num() @ self.embeddings.matrix("source") * scale
        for halving in self.halvings:
            x, real = halving(x, real)
        return x.masked_fill(~real[..., None], torch.nan)

    def embed(self, role: Role, read: Tensor | PackedIds) -> Float[Tensor, "batch length d_model"]:
        """Vectors of the source, or embeddings of the target, plus positional encodings, with dropout."""
        if role == "target":
            return super().embed(role, read)
        assert isinstance(read, Tensor)
        embedded: Tensor = self.dropout(read.nan_to_num() + self.source_positions(read.size(1)))
        return embedded
