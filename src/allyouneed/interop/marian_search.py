"""The settings of search in the `decoder.yml` beside a model of Marian."""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from allyouneed.config.run import SearchConfig
from allyouneed.errors import ModelError, UsageError
from allyouneed.interop.marian_yaml import DECODER_SETTINGS, read_yaml
from allyouneed.storage.publish import read_published

_NORMALIZATIONS = {0.0: "none", 1.0: "average"}
"""Exponent of the length that divides a score -> `SearchConfig.length_normalization`."""


def search_settings(model: Path) -> dict[str, Any]:
    """The settings of `SearchConfig` that a file beside the model gives, as far as our search has them.

    Raises:
        ModelError: One of them is no number.
    """
    for pattern in DECODER_SETTINGS:
        path = model.parent / pattern.format(model=model.name)
        if path.is_file():
            found = read_yaml(read_published(path), path)
            return _beam(found, path) | _normalization(found, path)
    return {}


def _beam(settings: Mapping[str, Any], path: Path) -> dict[str, Any]:
    if (size := _number(settings, "beam-size", path)) is None:
        return {}
    try:
        return {"beam_size": SearchConfig.checked(beam_size=int(size)).beam_size}
    except UsageError:  # wider than our search can be
        return {}


def _normalization(settings: Mapping[str, Any], path: Path) -> dict[str, Any]:
    exponent = _number(settings, "normalize", path)
    return {"length_normalization": _NORMALIZATIONS[exponent]} if exponent in _NORMALIZATIONS else {}


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
