"""chrF: the F-score of character n-grams, which does without words and so without a tokeniser."""

from collections.abc import Sequence

from sacrebleu import CHRF

from allyouneed.evaluation.score import Score, require_aligned


def chrf(hypotheses: Sequence[str], references: Sequence[str]) -> Score:
    """chrF2 as sacreBLEU computes it by default: 1 to 6 characters, recall counted twice (Popović 2015).

    Raises:
        DataError: There is not one hypothesis for each reference.
    """
    require_aligned(hypotheses, references)
    metric = CHRF()
    value = metric.corpus_score(hypotheses, [references]).score
    return Score("chrf", value, str(metric.get_signature()))
