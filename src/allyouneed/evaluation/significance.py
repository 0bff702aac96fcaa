"""Whether two systems differ by more than the choice of test sentences (Koehn 2004)."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import sacrebleu
from numpy.typing import NDArray
from sacrebleu import BLEU

from allyouneed.evaluation.score import require_aligned

NUM_SAMPLES = 1_000
SIGNIFICANT = 0.05
"""Below it a p-value is called significant."""
_SEED = 12_345
_MAX_ORDER = 4


@dataclass(frozen=True)
class SummedMetric:
    """A metric of a test set which is computed from counts of its sentences, added up."""

    counts: Callable[[Sequence[str], Sequence[str]], NDArray[np.int64]]
    """Outputs, references -> counts, [sentences, counts of each]."""
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
    """BLEU of the sums over a test set."""
    matches, totals = counts[:_MAX_ORDER].tolist(), counts[_MAX_ORDER : 2 * _MAX_ORDER].tolist()
    hypothesis_length, reference_length = counts[2 * _MAX_ORDER :].tolist()
    score = BLEU.compute_bleu(matches, totals, hypothesis_length, reference_length, smooth_method="exp")
    return float(score.score)


BLEU_13A = SummedMetric(
    _bleu_counts, _bleu, f"nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:{sacrebleu.__version__}"
)
"""As sacreBLEU computes and calls it."""


@dataclass(frozen=True)
class Comparison:
    """Two systems on the same sentences."""

    baseline: float
    system: float
    p_value: float
    """How probable so large a difference, either way, would be between systems that are equally good."""
    interval: tuple[float, float]
    """In which the difference is in 95 of 100 test sets."""
    signature: str

    @property
    def difference(self) -> float:
        """Points of the system above the baseline."""
        return self.system - self.baseline


def paired_bootstrap(
    baseline: Sequence[str], system: Sequence[str], references: Sequence[str], num_samples: int = NUM_SAMPLES
) -> Comparison:
    """BLEU (13a) of two systems, and how certain their difference is.

    Test sets are drawn from this one with replacement. Their differences, moved to have the mean 0, are those
    of systems that are equally good; the p-value is the share of them that are at least as large as the one
    observed, either way (Riezler and Maxwell 2005). sacreBLEU's own test takes absolute differences before it
    moves them, which makes p-values smaller.

    Args:
        baseline: Translations of one system.
        system: Outputs of the other system, for the same sentences.
        references: The right translations.
        num_samples: How many test sets are drawn.

    Raises:
        DataError: There are not as many lines of each.
    """
    return paired_bootstrap_of_runs([baseline], [system], references, num_samples)


def paired_bootstrap_of_runs(
    baselines: Sequence[Sequence[str]],
    systems: Sequence[Sequence[str]],
    references: Sequence[str],
    num_samples: int = NUM_SAMPLES,
    metric: SummedMetric = BLEU_13A,
) -> Comparison:
    """As `paired_bootstrap`, of any metric, over several runs of each system on the same sentences.

    A sentence is drawn with its translations by all runs: those are no more independent of each other than
    one sentence is.

    Args:
        baselines: Outputs of one system, a list for each run.
        systems: Outputs of the other systems.
        references: What is right.
        num_samples: How many test sets are drawn.
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
