"""chrF of a corpus (Popović 2015)."""

from collections.abc import Sequence

from allyouneed.evaluation.scores import Score, aligned_references


def chrf(hypotheses: Sequence[str], *references: Sequence[str]) -> Score:
    """chrF2 by sacreBLEU's defaults: n-grams of 1 to 6 characters, recall weighted by 2 (Popović 2015).

    With several references, the one that is most similar to a hypothesis counts.

    Raises:
        DataError: The counts of hypotheses and references differ, or are 0.
    """
    from sacrebleu import CHRF

    metric = CHRF()
    value = metric.corpus_score(hypotheses, aligned_references(hypotheses, references)).score
    return Score("chrf", value, str(metric.get_signature()))
