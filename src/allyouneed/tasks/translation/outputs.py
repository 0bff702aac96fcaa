"""What a translator puts out: texts with scores, from samples and from parts too."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from allyouneed.evaluation import pairwise_chrf
from allyouneed.inference.minimum_bayes_risk import rank_by_expected_utility

_WRITTEN_WITHOUT_SPACES = {"bo", "dz", "ja", "km", "lo", "my", "th", "wuu", "yue", "zh"}
"""Languages (ISO 639) whose sentences follow each other without a space between them."""


END_PIECE = "</s>"
"""The end symbol in print."""


@dataclass(frozen=True)
class Translation:
    """An output of a translator."""

    text: str
    score: float
    """The log-probability divided by the length penalty; with `mbr`, the expected chrF, from 0 to 100. Of a
    text in parts, the mean of their scores, each counted as often as it has tokens, the end symbol too."""
    tokens: list[str] = field(default_factory=list, repr=False)
    """The sub-word pieces of the text, in print, and the end symbol `</s>`, behind each part of a text in
    parts. An output that was cut at its greatest length has no end symbol, a blank text no token."""
    token_log_probs: list[float] = field(default_factory=list, repr=False)
    """Natural logarithm of the probability of each of these tokens."""
    alignment: list[tuple[int, int]] | None = field(default=None, repr=False)
    """The words (source, target) that belong together, counted from 0, if they were asked for; words are what
    white space separates."""


class Part(NamedTuple):
    """A part of a text, with its translations, best first."""

    translations: list[Translation]
    source: str


def least_risk(drawn: Sequence[Translation]) -> list[Translation]:
    """The different ones of some samples, that of least risk first."""
    ranked = rank_by_expected_utility([translation.text for translation in drawn], pairwise_chrf)
    return [replace(drawn[index], score=utility) for index, utility in ranked]


def join_parts(parts: Sequence[Part], language: str) -> list[Translation]:
    """The translations of a text from those of its parts.

    The n-th best has the n-th best of each part, and the last one of a part that has fewer.

    Args:
        parts: In their order.
        language: Code of the language that they are in; it says whether a space stands between sentences.
    """
    if len(parts) == 1:
        return parts[0].translations
    space = "" if language in _WRITTEN_WITHOUT_SPACES else " "
    ranks = range(max(len(part.translations) for part in parts))
    return [
        _join(parts, [part.translations[min(rank, len(part.translations) - 1)] for part in parts], space)
        for rank in ranks
    ]


def _join(parts: Sequence[Part], found: Sequence[Translation], space: str) -> Translation:
    num_tokens = [len(each.tokens) + (each.tokens[-1:] != [END_PIECE]) for each in found]
    total = sum(translation.score * num for translation, num in zip(found, num_tokens, strict=True))
    return Translation(
        space.join(translation.text for translation in found),
        total / sum(num_tokens),
        [token for translation in found for token in translation.tokens],
        [log_prob for translation in found for log_prob in translation.token_log_probs],
        _join_alignments(parts, found),
    )


def _join_alignments(parts: Sequence[Part], found: Sequence[Translation]) -> list[tuple[int, int]] | None:
    alignment: list[tuple[int, int]] = []
    num_source_words = num_target_words = 0
    for part, translation in zip(parts, found, strict=True):
        if translation.alignment is None:
            return None
        alignment += [(i + num_source_words, j + num_target_words) for i, j in translation.alignment]
        num_source_words += len(part.source.split())
        num_target_words += len(translation.text.split())
    return alignment
