"""Tests whether two systems differ by more than the choice of test sentences explains (Koehn 2004)."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import sacrebleu
from numpy.typing import NDArray
from sacrebleu import BLEU

from allyouneed.evaluation.score import require_aligned

NUM_SAMPLES = 1_000
SIGNIFICANT = 0.05
"""A p-value below this is called significant."""
_SEED = 12_345
_MAX_ORDER = 4


@dataclass(frozen=True)
class SummedMetric:
    """A metric of a test set, computed from the sums of counts per sentence."""

    counts: Callable[[Sequence[str], Sequence[str]], NDArray[np.int64]]
    """Outputs, references -> counts per sentence, [sentences, counts]."""
    score: Callable[[NDArray[np.int64]], float]
    """The score, from the sums of the counts."""
    signature: str


def _bleu_counts(hypotheses: Sequence[str], references: Sequence[str]) -> NDArray[np.int64]:
    """Counts per sentence: matches and n-grams of each order, lengths of hypothesis and reference."""
    require_aligned(hypotheses, references)
    metric = BLEU(force=True)
    pairs = zip(hypotheses, references, strict=True)
    scores = [metric.corpus_score([line], [[right]]) for line, right in pairs]
    return np.array([[*s.counts, *s.totals, s.sys_len, s.ref_len] for s in scores])


def _bleu(counts: NDArray[np.int64]) -> float:
    """BLEU from the sums of counts over a test set."""
    matches, totals = counts[:_MAX_ORDER].tolist(), counts[_MAX_ORDER : 2 * _MAX_ORDER].tolist()
    hypothesis_length, reference_length = counts[2 * _MAX_ORDER :].tolist()
    score = BLEU.compute_bleu(matches, totals, hypothesis_length, reference_length, smooth_method="exp")
    return float(score.score)


BLEU_13A = SummedMetric(
    _bleu_counts, _bleu, f"nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:{sacrebleu.__version__}"
)
"""BLEU with sacreBLEU's defaults and signature."""


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

    @property
    def difference(self) -> float:
        """The system's score minus the baseline's, in points."""
        return self.system - self.baseline


def paired_bootstrap(
    baseline: Sequence[str], system: Sequence[str], references: Sequence[str], num_samples: int = NUM_SAMPLES
) -> Comparison:
    """BLEU (13a) of two systems, and the significance of their difference.

    Test sets are drawn from this one with replacement. Their differences, shifted to mean 0, simulate equally
    good systems; the p-value is the share of them that are at least as large as the observed difference,
    either way (Riezler and Maxwell 2005). sacreBLEU's own test takes absolute differences before the shift,
    which makes p-values smaller.

    Args:
        baseline: Translations by one system.
        system: Translations of the same sentences by the other system.
        references: Reference translations.
        num_samples: Number of test sets to draw.

    Raises:
        DataError: The numbers of lines differ, or are 0.
    """
    return paired_bootstrap_of_runs([baseline], [system], references, num_samples)


def paired_bootstrap_of_runs(
    baselines: Sequence[Sequence[str]],
    systems: Sequence[Sequence[str]],
    references: Sequence[str],
    num_samples: int = NUM_SAMPLES,
    metric: SummedMetric = BLEU_13A,
) -> Comparison:
    """Run `paired_bootstrap` with any metric over several runs of each system on the same sentences.

    Each sentence is drawn together with its outputs by all runs, because these outputs are not independent
    of each other.

    Args:
        baselines: Outputs of one system, one list per run.
        systems: Outputs of the other system, one list per run.
        references: Reference outputs.
        num_samples: Number of test sets to draw.
        metric: Metric of outputs and references.
    """
    counts = [
        np.sum([metric.counts(lines, references) for lines in runs], axis=0) for runs in (baselines, systems)
    ]
    of_baseline, of_system = (metric.score(found.sum(axis=0)) for found in counts)
    generator = np.random.default_rng(_SEED)
    share = np.full(len(references), 1 / len(references))
    differences = np.empty(num_samples)
    for sample in range(num_samples):
        drawn = generator.multinomial(len(references), share)
        scores = [metric.score(drawn @ found) for found in counts]
        differences[sample] = scores[1] - scores[0]
    as_large = np.abs(differences - differences.mean()) >= abs(of_system - of_baseline)
    low, high = np.percentile(differences, (2.5, 97.5))
    p_value = float((as_large.sum() + 1) / (num_samples + 1))
    signature = f"{metric.signature}|bs:{num_samples}|seed:{_SEED}"
    return Comparison(of_baseline, of_system, p_value, (float(low), float(high)), signature)
