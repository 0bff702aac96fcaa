"""Search in other software, which divides the score of n tokens by n^exponent, in terms of ours."""

from typing import Any

from allyouneed.config.run import SearchConfig
from allyouneed.errors import UsageError

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

    Args:
        exponent: Exponent of the number of tokens that divides a score.
        others: Settings of `SearchConfig`. Like the exponent they are left out if they are None, or not among
            the values that ours can have.
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
