"""The attention from a target to its source, which alignments and the coverage penalty are made of."""

from collections.abc import Sequence
from functools import partial
from typing import cast

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from allyouneed.data.vectors import with_end
from allyouneed.hardware.devices import PYTORCH_THREADS
from allyouneed.inference.torch_engine import pad
from allyouneed.model.layers import DecoderLayer
from allyouneed.model.masks import padding_mask
from allyouneed.model.transformer import Transformer
from allyouneed.native.arrays import Float32
from allyouneed.symbols import START


class SourceAttention:
    """Attention of each target token to each source token: the mean of heads of a decoder layer, from 0."""

    def __init__(self, model: Transformer, layer: int, heads: slice) -> None:
        self._model, self._layer, self._heads = model, layer, heads

    @torch.inference_mode()
    def __call__(
        self, source: Sequence[int], targets: Sequence[Sequence[int]]
    ) -> list[Float32[np.ndarray, "written source_len"]]:
        """Compute the weights, as `AttentionToSource` says.

        Sources are computed one at a time because the last bits of the weights depend on the shape of the
        batch.
        """
        with PYTORCH_THREADS.limited_to(1):  # as workers share the cores
            return self._weights(source, targets)

    def _weights(
        self, source: Sequence[int], targets: Sequence[Sequence[int]]
    ) -> list[Float32[np.ndarray, "written source_len"]]:
        model = self._model
        device = next(model.parameters()).device
        ids = model.read_of(pad([with_end(source)], device))
        # An output cut at the last learned position has none for the next step, whose row is then zero.
        most = model.config.max_positions if model.config.positions == "learned" else None
        written = pad([[START, *target][:most] for target in targets], device)
        memory = model.encode(ids).expand(len(targets), -1, -1)
        source_mask, target_mask = padding_mask(ids), model.self_mask("target", written)
        x = model.embed("target", written)
        *below, layer = cast("list[DecoderLayer]", list(model.decoder))[: self._layer + 1]
        for each in below:
            x = each(x, memory, target_mask, source_mask)
        recorded: list[Tensor] = []

        def record(x: Tensor) -> Tensor:
            attention = layer.cross_attention
            key, _ = attention.project_memory(memory)
            recorded.append(attention.plain.weights(attention.project_query(x), key, source_mask))
            return x

        layer.forward_with(x, partial(layer.self_attention, mask=target_mask), record)
        weights = recorded[0][:, self._heads].float().mean(dim=1)
        missing = 1 + max(map(len, targets)) - weights.size(1)
        weights = functional.pad(weights, (0, 0, 0, missing))
        return [
            rows[: len(target) + 1, :-1].cpu().numpy() for rows, target in zip(weights, targets, strict=True)
        ]  # (target_len + 1, source_len) each
