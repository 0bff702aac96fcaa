"""Search settings of other software."""

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
    of_length: dict[str, Any] = {}
    if exponent in _EXACT:
        of_length = {"length_normalization": _EXACT[exponent]}
    elif exponent is not None:
        of_length = {"length_normalization": "gnmt", "length_penalty": exponent}
    given = [of_length, *({name: value} for name, value in others.items() if value is not None)]
    return {name: value for each in given if _is_possible(each) for name, value in each.items()}


def _is_possible(settings: dict[str, Any]) -> bool:
    try:
        SearchConfig.checked(**settings)
    except UsageError:
        return False
    return True


def marian_search(model: Path) -> dict[str, Any]:
    """The settings of `SearchConfig` that a file beside the model gives, as far as our search has them.

    Raises:
        ModelError: One of them is no number.
    """
    for pattern in DECODER_SETTINGS:
        path = model.parent / pattern.format(model=model.name)
        if path.exists():
            found = read_yaml(path)
            beam_size, exponent = (_marian_number(found, name, path) for name in ("beam-size", "normalize"))
            return search_settings(exponent, beam_size=None if beam_size is None else int(beam_size))
    return {}


def _marian_number(settings: Mapping[str, Any], name: str, path: Path) -> float | None:
    if name not in settings:
        return None
    try:
        number = float(settings[name])
    except (TypeError, ValueError):
        number = math.nan
    if not math.isfinite(number):
        raise ModelError(f"{path}: {name} = {settings[name]!r} is no number; take another copy")
    return number


_BEAM, _EXPONENT = "num_beams", "length_penalty"
_SAME = "no_repeat_ngram_size", "repetition_penalty"
"""Settings that have the same name and meaning as ours."""


def huggingface_search(path: Path, settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of `SearchConfig` that a folder gives, as far as our search has them.

    `settings` are those of `config.json`, where transformers had them once.

    Raises:
        ModelError: One of them is no number.
    """
    found = {name: (settings.get(name), path / "config.json") for name in (_BEAM, _EXPONENT, *_SAME)}
    file = path / "generation_config.json"
    if file.exists():
        found |= {name: (value, file) for name, value in json_object(file).items() if name in found}
    numbers = {name: _number(name, value, source) for name, (value, source) in found.items()}
    beam_size, exponent = numbers[_BEAM], numbers[_EXPONENT]
    if exponent is None and beam_size is not None and beam_size > 1:
        exponent = 1.0  # what transformers takes if nothing is said
    return search_settings(exponent, beam_size=beam_size, **{name: numbers[name] for name in _SAME})


def _number(name: str, value: object, path: Path) -> float | None:
    if value is not None and (isinstance(value, bool) or not isinstance(value, int | float)):
        raise ModelError(f"{path}: {name} is {value!r}, not a number; take another copy")
    return value
