"""Teachers' translations of texts: the best of several for each line (Kim and Rush 2016).

Where a line has a reference, the translation most similar to it is the best (their sequence-level
interpolation). Elsewhere it is the one with the least Bayes risk.
"""

import re
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from sacrebleu import CHRF

from allyouneed.data.corpus_files import CorpusFiles
from allyouneed.data.monolingual_text import MonolingualText, rank
from allyouneed.data.tab_separated import Columns
from allyouneed.evaluation.pairwise_chrf import pairwise_chrf
from allyouneed.inference.sampling import rank_by_expected_utility
from allyouneed.preparation.prepared_data import PreparedData
from allyouneed.runs.row_file import RowFile
from allyouneed.runs.synthetic_pairs import SyntheticPairs

if TYPE_CHECKING:
    from allyouneed.tasks.translation.outputs import Translation
    from allyouneed.tasks.translation.translator import Translator

_MEASURED_LINES, _LINES_PER_MEASUREMENT, _MEASURED_SECONDS = 256, 32, 20.0
"""Lines by which the speed of a teacher is measured: at most, in a call, and the time after which no other
call is made."""
_UNFINISHED = -1_000.0
"""Score of a translation that is blank, or has no end: lower than any other."""
_CHRF = CHRF()
_SEPARATORS = re.compile(r"[\t\r\n\0]")

Line = tuple[str, str | None]
"""A source line and its reference, if it has one."""


@dataclass(frozen=True)
class SourceText:
    """Source lines for teachers to translate, in an order that says nothing about them.

    Corpora are often sorted, or one follows another; so the first lines stand for all.
    """

    file: Path
    """The file of the lines, to be named in messages."""
    num_lines: int
    first: Callable[[int], Sequence[Line]]
    """Function that returns the first lines, in a number."""

    @classmethod
    def of_pairs(cls, prepared: PreparedData) -> "SourceText":
        """The training sources of prepared data, with their references, in the order of their digests."""
        pairs = zip(
            *(map(_plain, prepared.lines("train", side)) for side in ("source", "target")), strict=True
        )
        lines = sorted(pairs, key=lambda pair: rank(pair[0]))
        return cls(prepared.text("train", "source"), len(lines), lambda number: lines[:number])

    @classmethod
    def of_text(cls, text: MonolingualText, prepared: PreparedData) -> "SourceText":
        """The lines of a text without translations, but for those that are too long to train on.

        Raises:
            DataError: The text does not suit the source side of `prepared`.
        """
        suitable = SyntheticPairs(text.file, "source", text, prepared)
        suitable.require_suitable()

        def first(number: int) -> Sequence[Line]:
            return [(_plain(line), None) for line in suitable.fitting(text.first(number))]

        return cls(text.file, text.num_lines, first)


@dataclass(frozen=True)
class DistilledPairs:
    """Rows of `source TAB translation TAB score TAB similarity`, one for each line of a text.

    The score is the mean log-probability of the translation's tokens, in nats. The similarity is chrF, from 0
    to 100: that to the reference or, without one, the mean over all candidates.
    """

    file: Path
    text: SourceText
    num_candidates: int
    """Number of translations to choose from. The beam is at least as wide."""

    def seconds_per_line(self, teacher: "Translator") -> float:
        """Measured seconds to translate a line and to choose its translation."""
        lines = self.text.first(_MEASURED_LINES)
        self._rows(teacher, lines[:1])  # builds what is built once
        began, num_done = time.monotonic(), 0
        while True:
            num_done += len(self._rows(teacher, lines[num_done : num_done + _LINES_PER_MEASUREMENT]))
            seconds = time.monotonic() - began
            if num_done == len(lines) or seconds > _MEASURED_SECONDS:
                return seconds / max(1, num_done)  # no line may be short enough

    def write(
        self,
        teacher: "Translator",
        number: int,
        watch: Callable[[int], AbstractContextManager[Callable[[int], None]]],
    ) -> None:
        """Write the rows of the first lines, or the rest of them; see `RowFile.complete`."""
        lines, rows = self.text.first(number), RowFile(self.file, 0, self.text.file)
        rows.complete([source for source, _ in lines], lambda part: self._rows(teacher, lines[part]), watch)

    def _rows(self, teacher: "Translator", lines: Sequence[Line]) -> list[list[str]]:
        beam_size = max(self.num_candidates, teacher.config.search.beam_size)
        sources = [source for source, _ in lines]
        found = teacher.stream(sources, n_best=self.num_candidates, beam_size=beam_size, sampling=False)
        rows = []
        for (source, reference), candidates in zip(lines, found, strict=True):
            best, similarity = chosen(candidates, reference)
            rows.append([source, _plain(best.text), f"{_score(best):.4f}", f"{similarity:.2f}"])
        return rows


def corpus_of(files: Sequence[Path], dropped_share: float) -> CorpusFiles:
    """The pairs to learn: all but the given share with the lowest scores, and those without an end."""
    filled = [file for file in files if file.stat().st_size]
    scores = [score for file in filled for score in RowFile(file, 0, file).numbers(2)]
    least = max(float(np.quantile(scores, dropped_share)), _UNFINISHED / 2)
    return CorpusFiles(pairs=filled, columns=Columns(score=3, min_score=least))


def chosen(candidates: Sequence["Translation"], reference: str | None) -> tuple["Translation", float]:
    """The best of several translations, and its similarity; see the module. The first one wins ties."""
    texts = [each.text for each in candidates]
    if reference is None:
        best, similarity = rank_by_expected_utility(texts, pairwise_chrf)[0]
    else:
        similarities = [float(_CHRF.sentence_score(text, [reference]).score) for text in texts]
        similarity = max(similarities)
        best = similarities.index(similarity)
    return candidates[best], similarity


def _score(translation: "Translation") -> float:
    if translation.is_cut or not translation.text.strip():
        return _UNFINISHED
    # A text without letters stays as it is, and has no tokens.
    return float(np.mean(translation.token_log_probs)) if translation.token_log_probs else 0.0


def _plain(line: str) -> str:
    return _SEPARATORS.sub(" ", line)
