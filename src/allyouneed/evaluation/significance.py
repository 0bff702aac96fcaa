"""Tests whether two systems differ by more than the choice of test sentences explains (Koehn 2004)."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sacrebleu import BLEU

from allyouneed.evaluation.bleu import WORDS, BleuTokens
from allyouneed.evaluation.scores import aligned_references

NUM_SAMPLES = 1_000
SIGNIFICANT = 0.05
"""A p-value below this is called significant."""
LEAST_SENTENCES = 30
"""With fewer sentences, test sets drawn from them say little about others: nothing is called significant."""
_SEED = 12_345
_MAX_ORDER = 4

Counts = NDArray[np.int64] | NDArray[np.float64]
"""Counts, or other sums, from which a metric is computed."""


def bleu_counts(
    hypotheses: Sequence[str], *references: Sequence[str], tokens: BleuTokens = WORDS
) -> NDArray[np.int64]:
    """Counts per sentence: matches and n-grams of each order, lengths of hypothesis and reference."""
    metric = BLEU(tokenize=tokens.tokenizer, force=True)
    rows = zip(hypotheses, *aligned_references(hypotheses, references), strict=True)
    scores = [
        metric.corpus_score([line], [[right] for right in row if right is not None]) for line, *row in rows
    ]
    return np.array([[*s.counts, *s.totals, s.sys_len, s.ref_len] for s in scores])


def bleu_of_counts(counts: Counts) -> float:
    """BLEU from the sums of counts over a test set."""
    matches, totals = counts[:_MAX_ORDER].tolist(), counts[_MAX_ORDER : 2 * _MAX_ORDER].tolist()
    hypothesis_length, reference_length = counts[2 * _MAX_ORDER :].tolist()
    score = BLEU.compute_bleu(matches, totals, hypothesis_length, reference_length, smooth_method="exp")
    return float(score.score)


@dataclass(frozen=True)
class Comparison:
    """The scores of two systems on the same sentences."""

    baseline: float
    system: float
    p_value: float
    """Probability of a difference at least this large, either way, between equally good systems."""
    interval: tuple[float, float]
    """Range of the difference in 95 of 100 test sets."""
    signature: str
    num_sentences: int

    @property
    def difference(self) -> float:
        """The system's score minus the baseline's, in points."""
        return self.system - self.baseline

    @property
    def verdict(self) -> str:
        """The p-value in words."""
        if self.num_sentences < LEAST_SENTENCES:
            return f"too few sentences to tell; give at least {LEAST_SENTENCES}"
        return "significant" if self.p_value < SIGNIFICANT else "not significant"


def paired_bootstrap(
    baseline: Sequence[str],
    system: Sequence[str],
    *references: Sequence[str],
    tokens: BleuTokens = WORDS,
    num_samples: int = NUM_SAMPLES,
) -> Comparison:
    """BLEU of two systems' translations of the same sentences, and the significance of their difference.

    Test sets are drawn from this one with replacement. Their differences, shifted to mean 0, simulate equally
    good systems; the p-value is the share of them that are at least as large as the observed difference,
    either way (Riezler and Maxwell 2005). sacreBLEU's own test takes absolute differences before the shift,
    which makes p-values smaller.

    Args:
        baseline: Translations by one system.
        system: Translations by the other system.
        *references: Reference translations, or several lists of them.
        tokens: Tokens that BLEU counts.
        num_samples: Number of test sets to draw.

    Raises:
        DataError: The numbers of lines differ, or are 0.
    """
    counts = [bleu_counts(lines, *references, tokens=tokens) for lines in (baseline, system)]
    of_baseline, of_system = (bleu_of_counts(found.sum(axis=0)) for found in counts)
    first, second = (resampled_scores(found, bleu_of_counts, num_samples) for found in counts)
    differences = second - first
    p_value = share_as_large(differences - differences.mean(), of_system - of_baseline)
    low, high = np.percentile(differences, (2.5, 97.5))
    scored = _bleu_signature(aligned_references(baseline, references), tokens)
    signature = f"{scored}|bs:{num_samples}|seed:{_SEED}|test:riezler-maxwell"
    return Comparison(of_baseline, of_system, p_value, (float(low), float(high)), signature, len(baseline))


def _bleu_signature(references: Sequence[Sequence[Any]], tokens: BleuTokens) -> str:
    """Signature of BLEU on these references; blank ones give it too, as only their number counts."""
    blank = [[line and "" for line in lines] for lines in references]
    return str(BLEU(tokenize=tokens.tokenizer, force=True, references=blank).get_signature())


def resampled_scores(
    counts: Counts, score: Callable[[Counts], float], num_samples: int = NUM_SAMPLES
) -> NDArray[np.float64]:
    """Scores of a system on test sets drawn from this one with replacement, [num_samples].

    All systems with as many sentences get the same draws, so their scores are paired. `score` is computed
    from the sums of `counts` [sentences, counts].
    """
    generator = np.random.default_rng(_SEED)
    share = np.full(len(counts), 1 / len(counts))
    return np.array([score(generator.multinomial(len(counts), share) @ counts) for _ in range(num_samples)])


def bootstrap_p_value(baseline: Counts, system: Counts, score: Callable[[Counts], float]) -> float:
    """P-value of the difference of two systems, from their counts; see `paired_bootstrap`."""
    differences = resampled_scores(system, score) - resampled_scores(baseline, score)
    observed = score(system.sum(axis=0)) - score(baseline.sum(axis=0))
    return share_as_large(differences - differences.mean(), observed)


def share_as_large(by_chance: NDArray[np.float64], observed: float) -> float:
    """P-value: share of the differences `by_chance` at least as large as the observed one, either way."""
    return float(((np.abs(by_chance) >= abs(observed)).sum() + 1) / (by_chance.size + 1))
