"""Attention of a transcriber: a position of the encoder stands for four frames, which a strip shows."""

import base64
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from allyouneed.config.run import RunConfig
from allyouneed.data.tokenizer import Tokenizer
from allyouneed.data.vectors import Vectors
from allyouneed.inference.attention_weights import capture_attention
from allyouneed.model.encoder_decoder import EncoderDecoder
from allyouneed.model.sizes import source_positions
from allyouneed.tasks.attention_maps import Attention, Pieces, look_into, require_few_weights

_DARKEST = 3.0
"""Deviations from the mean of a feature that are black; as many below the mean are white."""


def attentions_of(
    model: EncoderDecoder,
    sources: Iterable[Vectors],
    targets: Iterable[Sequence[int]],
    tokenizer: Tokenizer,
    config: RunConfig,
    *,
    for_page: bool,
) -> Iterator[Attention]:
    """Look into the attention of a model of frames, one source and target after the other.

    Raises:
        DataError: `for_page`, and there are more weights than a page holds.
    """
    for source, target in zip(sources, targets, strict=True):
        places = range(0, 4 * source_positions(model.config, len(source)), 4)
        if for_page:
            require_few_weights(model.config, places, target)
        labels = [*map(str, places)]
        read, written = Pieces.of_words(labels, labels), Pieces.of(tokenizer, target)
        found = look_into(capture_attention(model, source, target), read, written, config)
        yield replace(found, strip=strip_of(source))


def strip_of(source: Vectors) -> dict[str, Any]:
    """The frames as a picture: a column of bytes for each, the last feature on top; 0 is white."""
    shades = np.clip((source.values.T[::-1] / _DARKEST + 1) * 127.5, 0, 255).astype(np.uint8)
    height, width = shades.shape
    return {"width": width, "height": height, "pixels": base64.b64encode(shades.tobytes()).decode()}
