"""Length normalisation in other software: the score of n tokens is divided by n^exponent."""

from allyouneed.config.run import SearchConfig

DIFFERENCES = {
    "gnmt": "it divides scores by n^alpha for n tokens, where allyouneed has ((5 + n) / 6)^alpha",
    "average": "it divides scores by the number of tokens, like allyouneed",
    "none": "it compares scores as they are, like allyouneed",
}
"""Length normalisation of the model -> how the search of other software compares."""


def length_exponent(search: SearchConfig) -> float:
    """The exponent that comes closest to the model's own length normalisation."""
    return {"gnmt": search.length_penalty, "average": 1.0, "none": 0.0}[search.length_normalization]
