"""The settings of search in the `decoder.yml` beside a model of Marian."""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from allyouneed.errors import ModelError
from allyouneed.interop.foreign_search import search_settings
from allyouneed.interop.marian_yaml import DECODER_SETTINGS, read_yaml


def search_of(model: Path) -> dict[str, Any]:
    """The settings of `SearchConfig` that a file beside the model gives, as far as our search has them.

    Raises:
        ModelError: One of them is no number.
    """
    for pattern in DECODER_SETTINGS:
        path = model.parent / pattern.format(model=model.name)
        if path.exists():
            found = read_yaml(path)
            beam_size, exponent = (_number(found, name, path) for name in ("beam-size", "normalize"))
            return search_settings(exponent, beam_size=None if beam_size is None else int(beam_size))
    return {}


def _number(settings: Mapping[str, Any], name: str, path: Path) -> float | None:
    if name not in settings:
        return None
    try:
        number = float(settings[name])
    except (TypeError, ValueError):
        number = math.nan
    if not math.isfinite(number):
        raise ModelError(f"{path}: {name} = {settings[name]!r} is no number; take another copy")
    return number
