"""Measures a student beside its teachers: quality, speed and size."""

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from allyouneed.evaluation.metrics import chrf, translation_metrics
from allyouneed.evaluation.scores import Metric, Score, scores_to_json
from allyouneed.storage.checkpoint import WEIGHTS
from allyouneed.storage.run_directory import resolve_model

if TYPE_CHECKING:
    from allyouneed.tasks.translation.translator import Translator

_ROUNDS = 3
_SECONDS_PER_ROUND = 5.0
"""Time that the slowest model has in each round, for sentences together and again for sentences alone."""
_MOST_ALONE = 100
"""Greatest number of sentences that are translated alone."""


@dataclass(frozen=True)
class ModelFigures:
    """The measurements of a model."""

    num_bytes: int
    """Size of its weights on disk, of all models of an ensemble."""
    sentences_per_second: float
    """Speed in batches, on all threads that a translator takes by default."""
    milliseconds_alone: float
    """Time of a sentence that is translated alone."""
    scores: list[Score]
    """BLEU and chrF."""
    outputs: list[str]

    def to_json(self) -> dict[str, Any]:
        """The numbers for JSON."""
        return {
            "bytes": self.num_bytes,
            "sentences_per_second": round(self.sentences_per_second, 1),
            "milliseconds_alone": round(self.milliseconds_alone, 2),
            "scores": scores_to_json(self.scores),
        }


def measure(
    models: Sequence[tuple[Sequence[Path | str], "Translator"]],
    sources: Sequence[str],
    references: Sequence[str],
    target_language: str,
    say: Callable[[str], None] = lambda line: None,
) -> list[ModelFigures]:
    """Measure models on the same sentences; they take turns, as the speed of a machine varies.

    Args:
        models: The directories of each model, or of the models of an ensemble, and its translator.
        sources: One or more sentences. All are translated and scored; some, if it takes long, are timed.
        references: Their reference translations.
        target_language: Code of the references' language, "" if unknown.
        say: Receives a line if metrics are left out.
    """
    outputs, slowest = [], 0.0
    for _, translator in models:
        began = time.monotonic()
        outputs.append([each.text for each in translator.translate(sources)])
        slowest = max(slowest, time.monotonic() - began)
    together = sources[: max(1, int(len(sources) * _SECONDS_PER_ROUND / slowest))]
    alone = together[:_MOST_ALONE]
    rounds = [
        [(_seconds(each, [together]), _seconds(each, [[text] for text in alone])) for _, each in models]
        for _ in range(_ROUNDS)
    ]
    metrics: list[Metric] = [translation_metrics(target_language, references, say)[0], chrf]
    measured = []
    for (paths, _), found, turns in zip(models, outputs, zip(*rounds, strict=True), strict=True):
        seconds, seconds_alone = (statistics.median(each) for each in zip(*turns, strict=True))
        size = sum((resolve_model(Path(path)) / WEIGHTS).stat().st_size for path in paths)
        scores = [metric(found, references) for metric in metrics]
        speeds = len(together) / seconds, 1_000 * seconds_alone / len(alone)
        measured.append(ModelFigures(size, *speeds, scores, found))
    return measured


def _seconds(translator: "Translator", calls: Sequence[Sequence[str]]) -> float:
    began = time.monotonic()
    for texts in calls:
        translator.translate(texts)
    return time.monotonic() - began
