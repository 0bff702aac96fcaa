"""The options of every command that translates: how outputs are searched for, or drawn."""

from dataclasses import dataclass
from typing import Literal

from allyouneed.interfaces.number_options import Outputs, Whole


@dataclass(frozen=True)
class SearchOptions:
    """How a model translates; its own settings hold where nothing is given."""

    beam_size: Whole | None = None
    """Hypotheses kept a step; 1 is greedy search."""
    length_penalty: float | None = None
    """The exponent alpha of the length penalty."""
    length_normalization: Literal["gnmt", "average", "none"] | None = None
    """What scores are divided by: the paper's ((5 + n) / 6)^alpha, n, or 1."""
    coverage_penalty: float | None = None
    """The factor beta of a term of the score that falls where parts of the source get little attention."""
    min_length: Whole | None = None
    """The fewest tokens of a translation, the end symbol included."""
    max_length: Whole | None = None
    """The most tokens of a translation, the end symbol included."""
    max_extra_tokens: Whole | None = None
    """The most tokens of a translation beyond those of its source."""
    early_stopping: bool | None = None
    """Stop when as many hypotheses have ended as the beam is wide, and not only when none can be better."""
    no_repeat_ngram_size: Whole | None = None
    """No translation has the same N tokens in a row twice."""
    repetition_penalty: float | None = None
    """Multiply the log-probability of tokens that the translation has already: above 1 avoids them."""
    sampling: bool | None = None
    """Draw translations from the model's distribution, and do not search."""
    temperature: float | None = None
    """Divide log-probabilities by this before a token is drawn: below 1 the probable gain."""
    top_k: Whole | None = None
    """Draw among the K most probable tokens."""
    top_p: float | None = None
    """Draw among the fewest tokens that have this probability together: the nucleus."""
    seed: Whole | None = None
    """Seed of what is drawn: the same seed gives a line the same translations, in whatever company."""
    mbr: Outputs | None = None
    """Draw N samples a line and take the one that is most like all of them: that of least Bayes risk, with
    the chrF of sentences as the utility. Its score is its expected chrF, from 0 to 100."""


AS_THE_MODEL_SAYS = SearchOptions()
