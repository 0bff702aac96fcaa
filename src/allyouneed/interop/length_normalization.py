"""Length normalisation as other software has it: scores are divided by n^exponent, for n tokens."""

from allyouneed.config.run import SearchConfig

DIFFERENCES = {
    "gnmt": "it divides scores by n^alpha for n tokens, where allyouneed has ((5 + n) / 6)^alpha",
    "average": "it divides scores by the number of tokens, like allyouneed",
    "none": "it compares scores as they are, like allyouneed",
}
"""Length normalisation of the model -> what other software makes of it."""


def length_exponent(search: SearchConfig) -> float:
    """The exponent that comes nearest to what the model's own search does."""
    return {"gnmt": search.length_penalty, "average": 1.0, "none": 0.0}[search.length_normalization]
