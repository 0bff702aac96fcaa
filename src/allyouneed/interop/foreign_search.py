"""Search settings of other software."""

import contextlib
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from allyouneed.config.run import SearchConfig
from allyouneed.errors import ModelError, UsageError
from allyouneed.interop.foreign_files import json_object
from allyouneed.interop.marian_files import DECODER_SETTINGS, read_yaml

DIFFERENCES = {
    "gnmt": "it divides scores by n^alpha for n tokens, where allyouneed has ((5 + n) / 6)^alpha",
    "average": "it divides scores by the number of tokens, like allyouneed",
    "none": "it compares scores as they are, like allyouneed",
}
"""Length normalisation of the model -> how the search of other software compares."""
_EXACT = {0.0: "none", 1.0: "average"}
"""Exponent -> length normalisation, where ours has the same."""


def length_exponent(search: SearchConfig) -> float:
    """The exponent that comes closest to the model's own length normalisation."""
    return {"gnmt": search.length_penalty, "average": 1.0, "none": 0.0}[search.length_normalization]


def search_settings(exponent: float | None = None, **others: float | None) -> dict[str, Any]:
    """The settings of `SearchConfig` that come closest to those of other software.

    Those that are None, or not among the values that ours can have, are left out. Scores are divided by the
    number of tokens to the power of `exponent`.
    """
    given: list[dict[str, Any]] = [{name: value} for name, value in others.items() if value is not None]
    if exponent in _EXACT:
        given.append({"length_normalization": _EXACT[exponent]})
    elif exponent is not None:
        given.append({"length_normalization": "gnmt", "length_penalty": exponent})
    found: dict[str, Any] = {}
    for settings in given:
        with contextlib.suppress(UsageError):
            SearchConfig.checked(**settings)
            found |= settings
    return found


def marian_search(model: Path) -> dict[str, Any]:
    """The settings of `SearchConfig` that a file beside the model gives, as far as our search has them."""
    paths = (model.parent / pattern.format(model=model.name) for pattern in DECODER_SETTINGS)
    if (path := next(filter(Path.exists, paths), None)) is None:
        return {}
    found, numbers = read_yaml(path), dict[str, float]()
    for name in ("beam-size", "normalize"):
        if name not in found:
            continue
        try:
            numbers[name] = float(found[name])
        except (TypeError, ValueError):
            numbers[name] = math.nan
        if not math.isfinite(numbers[name]):
            raise ModelError(f"{path}: {name} = {found[name]!r} is no number; take another copy")
    beam_size = numbers.get("beam-size")
    return search_settings(numbers.get("normalize"), beam_size=None if beam_size is None else int(beam_size))


_BEAM, _EXPONENT = "num_beams", "length_penalty"
_SAME = "no_repeat_ngram_size", "repetition_penalty"
"""Settings that have the same name and meaning as ours."""


def huggingface_search(path: Path, settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of `SearchConfig` that a folder gives, as far as our search has them.

    `settings` are those of `config.json`, where transformers had them once.
    """
    found = {name: (settings.get(name), path / "config.json") for name in (_BEAM, _EXPONENT, *_SAME)}
    file = path / "generation_config.json"
    if file.exists():
        found |= {name: (value, file) for name, value in json_object(file).items() if name in found}
    for name, (value, source) in found.items():
        if value is not None and (isinstance(value, bool) or not isinstance(value, int | float)):
            raise ModelError(f"{source}: {name} is {value!r}, not a number; take another copy")
    numbers = {name: value for name, (value, _) in found.items()}
    if numbers[_EXPONENT] is None and (numbers[_BEAM] or 0) > 1:
        numbers[_EXPONENT] = 1.0  # what transformers takes if nothing is said
    return search_settings(numbers[_EXPONENT], beam_size=numbers[_BEAM], **{n: numbers[n] for n in _SAME})
