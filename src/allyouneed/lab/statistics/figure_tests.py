"""Tests of figures, from counts of each sentence, which rows keep, or else from their outputs."""

import functools
import math
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from allyouneed.data.lines import read_lines
from allyouneed.errors import DataError
from allyouneed.evaluation import choose_tokens
from allyouneed.evaluation.significance import Counts, bleu_counts, bleu_of_counts, resampled_scores
from allyouneed.lab.paper.experiment import HYPOTHESES, LOSSES, REFERENCES, RESULT, kept_file
from allyouneed.tasks.parsing.bracket_f1 import Brackets, score_tree
from allyouneed.tasks.parsing.trees import tree_of


def _counts_in(lines: Sequence[str]) -> NDArray[np.int64]:
    return np.array([[int(count) for count in line.split("\t")] for line in lines])


def _losses_in(lines: Sequence[str]) -> NDArray[np.float64]:
    losses = np.array([[float(value) for value in line.split("\t")] for line in lines])
    if not (np.isfinite(losses).all() and losses[:, 1].min() > 0):
        raise ValueError("no loss and number of tokens in each line")
    return losses


def _mean_loss(sums: Counts) -> float:
    return float(sums[0] / sums[1])


def _bleu_counts(outputs: Sequence[str], references: Sequence[str]) -> Counts:
    return bleu_counts(outputs, references, tokens=choose_tokens("", references))


def _bracket_counts(trees: Sequence[str], references: Sequence[str]) -> NDArray[np.int64]:
    pairs = zip(references, trees, strict=True)
    found = (score_tree(tree_of(gold), tree_of(tree) if tree else None).brackets for gold, tree in pairs)
    return np.array([[brackets.matched, brackets.gold, brackets.test] for brackets in found])


def _log(value: float) -> float:
    return math.log(value) if value > 0 else -math.inf


class FigureTest(NamedTuple):
    """The test of a figure."""

    kept: str
    """File with the counts of each sentence in a line, separated by tabs."""
    score: Callable[[Counts], float]
    """The tested score, from the sums of the counts."""
    margin: float
    """Rows whose tested scores differ by less are equivalent."""
    margin_in_words: str
    deviation_in_words: Callable[[float], str]
    """A standard deviation of the tested score, in words."""
    scale: Callable[[float], float] = float
    """The figure -> the tested score."""
    read: Callable[[Sequence[str]], Counts] = _counts_in
    """Lines of `kept` -> counts, [sentences, counts]."""
    count_outputs: Callable[[Sequence[str], Sequence[str]], Counts] | None = None
    """Outputs, references -> counts, if the file `kept` is missing."""


TESTS = {
    "perplexity": FigureTest(
        LOSSES,
        _mean_loss,
        math.log(1.02),
        "2% of perplexity",
        lambda deviation: f"{deviation:.1%} of perplexity",
        _log,
        _losses_in,
    ),
    "bleu": FigureTest(
        "bleu.tsv",
        bleu_of_counts,
        0.5,
        "0.5 BLEU",
        lambda deviation: f"{deviation:.2f} BLEU",
        count_outputs=_bleu_counts,
    ),
    "bracket_f1": FigureTest(
        "brackets.tsv",
        lambda sums: Brackets(*sums.tolist()).f1,
        0.5,
        "0.5 bracket F1",
        lambda deviation: f"{deviation:.2f} bracket F1",
        count_outputs=_bracket_counts,
    ),
}
"""Figure -> its test. The margins are ours: half of the 0.9 BLEU that section 6.2 calls worse, and a quarter
of the difference between the perplexities, 5.29 and 4.92."""


def find_test(figure: str) -> FigureTest | None:
    """The test of a figure; `bleu_21_30`, the BLEU of sentences with 21 to 30 tokens, is tested as BLEU."""
    return TESTS.get(_tested_as(figure))


class Kept(NamedTuple):
    """The counts of a figure that a row and seed has kept, or the outputs and references to count.

    Its methods raise a DataError if a file is damaged.
    """

    figure: str
    files: Sequence[Path]
    lines: tuple[tuple[str, ...], ...]
    """The lines of these files."""

    @property
    def name(self) -> str:
        """Name of the file that the counts are kept in."""
        return kept_file(TESTS[_tested_as(self.figure)].kept, suffix_of(self.figure))

    @property
    def num_sentences(self) -> int:
        """Number of sentences that the figure is of."""
        return len(self.lines[0])

    def counts(self) -> Counts:
        """The counts of each sentence, [sentences, counts]."""
        return self._found(_counts)

    def count_lines(self) -> Iterable[str]:
        """The lines of the file of counts."""
        if len(self.lines) == 1:  # as they were written
            return self.lines[0]
        return ("\t".join(map(str, counts)) for counts in self.counts().tolist())

    def resampled(self) -> Counts:
        """Scores on test sets drawn from this one with replacement, [samples]."""
        return self._found(_resampled)

    def damaged(self) -> DataError:
        """The error for a damaged file."""
        file = self.files[0]
        return DataError(f"{file}: is damaged; delete {file.with_name(RESULT)} to compute the row again")

    def _found(self, compute: Callable[[str, tuple[tuple[str, ...], ...]], Counts]) -> Counts:
        try:
            found = compute(_tested_as(self.figure), self.lines)
        except (DataError, ValueError, TypeError, IndexError, ArithmeticError):
            raise self.damaged() from None
        if not np.isfinite(found).all():
            raise self.damaged()
        return found


def kept_of(figure: str, folder: Path) -> Kept | None:
    """The kept counts or outputs of a figure in a row's folder; None if too little to test the figure."""
    test = find_test(figure)
    if test is None:
        return None
    suffix = suffix_of(figure)
    # Outputs first: counts of an earlier computation may still be there.
    for names in [[HYPOTHESES, REFERENCES], [test.kept]] if test.count_outputs else [[test.kept]]:
        files = [folder / kept_file(file, suffix) for file in names]
        if all(file.is_file() for file in files):
            return Kept(figure, files, tuple(tuple(read_lines(file)) for file in files))
    return None


def suffix_of(figure: str) -> str:
    """The part of a figure's name after that of its test, such as `_21_30`."""
    return figure.removeprefix(_tested_as(figure))


def _tested_as(figure: str) -> str:
    return next((name for name in TESTS if f"{figure}_".startswith(f"{name}_")), figure)


def _counts(name: str, lines: tuple[tuple[str, ...], ...]) -> Counts:
    test = TESTS[name]
    if len(lines) == 1:
        return test.read(*lines)
    assert test.count_outputs is not None
    return test.count_outputs(*lines)


@functools.lru_cache(maxsize=1_000)  # the report is written anew after each row
def _resampled(name: str, lines: tuple[tuple[str, ...], ...]) -> NDArray[np.float64]:
    return resampled_scores(_counts(name, lines), TESTS[name].score)
