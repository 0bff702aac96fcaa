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


@torch.inference_mode()
def source_attention(
    model: Transformer,
    layer: int,
    heads: slice,
    sources: Sequence[Sequence[int]],
    targets: Sequence[Sequence[Sequence[int]]],
) -> list[list[Float32[np.ndarray, "written source_len"]]]:
    """The mean attention of heads of a decoder layer, from 0; an `alignment.AttentionToSource`.

    Sources are computed one at a time because the last bits of the weights depend on the shape of the batch.
    """
    with PYTORCH_THREADS.limited_to(1):  # as workers share the cores
        return [
            _weights(model, layer, heads, source, its) for source, its in zip(sources, targets, strict=True)
        ]


def _weights(
    model: Transformer, layer: int, heads: slice, source: Sequence[int], targets: Sequence[Sequence[int]]
) -> list[Float32[np.ndarray, "written source_len"]]:
    device = next(model.parameters()).device
    ids = model.read_of(pad([with_end(source)], device))
    # An output cut at the last learned position has none for the next step, whose row is then zero.
    written = pad([[START, *target][: model.config.most_positions] for target in targets], device)
    memory = model.encode(ids).expand(len(targets), -1, -1)
    source_mask, target_mask = padding_mask(ids), model.self_mask("target", written)
    x = model.embed("target", written)
    *below, last = cast("list[DecoderLayer]", list(model.decoder))[: layer + 1]
    for each in below:
        x = each(x, memory, target_mask, source_mask)
    recorded: list[Tensor] = []

    def record(x: Tensor) -> Tensor:
        attention = last.cross_attention
        key, _ = attention.project_memory(memory)
        recorded.append(attention.plain.weights(attention.project_query(x), key, source_mask))
        return x

    last.forward_with(x, partial(last.self_attention, mask=target_mask), record)
    weights = recorded[0][:, heads].float().mean(dim=1)
    missing = 1 + max(map(len, targets)) - weights.size(1)
    weights = functional.pad(weights, (0, 0, 0, missing))
    return [
        rows[: len(target) + 1, :-1].cpu().numpy() for rows, target in zip(weights, targets, strict=True)
    ]  # (target_len + 1, source_len) each
