"""The settings of search in a folder of Hugging Face."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from allyouneed.errors import ModelError
from allyouneed.interop.foreign_files import json_object
from allyouneed.interop.foreign_search import search_settings

_BEAM, _EXPONENT = "num_beams", "length_penalty"
_SAME = "no_repeat_ngram_size", "repetition_penalty"
"""Settings that have the same name and meaning as ours."""


def search_of(path: Path, settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of `SearchConfig` that a folder gives, as far as our search has them.

    Args:
        path: The folder.
        settings: The content of its `config.json`, where transformers had these settings once.

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
