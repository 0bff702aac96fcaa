"""Tests of figures, from counts of each sentence, which rows keep in one compressed file."""

import functools
import io
import math
import zipfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from allyouneed.errors import DataError
from allyouneed.evaluation.significance import Counts, bleu_of_counts, resampled_scores
from allyouneed.lab.paper.experiment import RESULT
from allyouneed.storage.publish import replaced_file
from allyouneed.tasks.parsing.bracket_f1 import Brackets, score_tree
from allyouneed.tasks.parsing.trees import Tree

COUNTS = "counts.npz"
"""File of a row and seed: figure -> counts of each sentence, [sentences, counts]."""
_MOST_BYTES = 2**26 - 1
"""Largest size of the counts in a file, unpacked."""


def _log(value: float) -> float:
    return math.log(value) if value > 0 else -math.inf


class FigureTest(NamedTuple):
    """The test of a figure."""

    num_counts: int
    """Number of counts of a sentence."""
    score: Callable[[Counts], float]
    """The tested score, from the sums of the counts."""
    margin: float
    """Rows whose tested scores differ by less are equivalent."""
    margin_in_words: str
    deviation_in_words: Callable[[float], str]
    """A standard deviation of the tested score, in words."""
    scale: Callable[[float], float] = float
    """The figure -> the tested score."""


TESTS = {
    # counts: sum of the losses of the target tokens in nats, number of these tokens
    "perplexity": FigureTest(
        2,
        lambda sums: float(sums[0]) / float(sums[1]),
        math.log(1.02),
        "2% of perplexity",
        lambda deviation: f"{deviation:.1%} of perplexity",
        _log,
    ),
    # those of `bleu_counts`
    "bleu": FigureTest(10, bleu_of_counts, 0.5, "0.5 BLEU", lambda deviation: f"{deviation:.2f} BLEU"),
    # those of `bracket_counts`
    "bracket_f1": FigureTest(
        3,
        lambda sums: Brackets(*sums.tolist()).f1,
        0.5,
        "0.5 bracket F1",
        lambda deviation: f"{deviation:.2f} bracket F1",
    ),
}
"""Figure -> its test. The margins are ours: half of the 0.9 BLEU that section 6.2 calls worse, and a quarter
of the difference between the perplexities, 5.29 and 4.92."""


def find_test(figure: str) -> FigureTest | None:
    """The test of a figure; `bleu_21_30`, the BLEU of sentences with 21 to 30 tokens, is tested as BLEU."""
    return next((test for name, test in TESTS.items() if f"{figure}_".startswith(f"{name}_")), None)


def bracket_counts(gold: Sequence[Tree], trees: Sequence[Tree | None]) -> NDArray[np.int64]:
    """Brackets of each sentence: matched, in the gold tree, and in the other."""
    found = [score_tree(*pair).brackets for pair in zip(gold, trees, strict=True)]
    return np.array([[brackets.matched, brackets.gold, brackets.test] for brackets in found])


def keep_counts(folder: Path, counts: Mapping[str, Counts]) -> None:
    """Add counts of figures to those that the folder of a row keeps, in the smallest types that hold them."""
    file, kept = folder / COUNTS, dict[str, Counts]()
    if file.is_file():
        with suppress(ValueError):  # of an interrupted computation
            kept = read_counts(file.read_bytes())
    arrays = {}
    for figure, found in sorted({**kept, **counts}.items()):
        smallest = np.float32 if found.dtype.kind == "f" else np.min_scalar_type(found.max())
        arrays[figure] = np.asfortranarray(found, smallest)  # columns compress better than rows
    with replaced_file(file) as aside, aside.open("wb") as stream:
        np.savez_compressed(stream, allow_pickle=False, **arrays)


def read_counts(content: bytes) -> dict[str, Counts]:
    """Figure -> counts of each sentence, [sentences, counts], from the content of `COUNTS`.

    Raises:
        ValueError: It is damaged, or holds anything else.
    """
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            is_fitting = sum(entry.file_size for entry in archive.infolist()) <= _MOST_BYTES
        arrays = dict(np.load(io.BytesIO(content))) if is_fitting else {}
        shapes = {figure: (test.num_counts,) for figure in arrays if (test := find_test(figure))}
        is_whole = bool(arrays) and all(
            len(array) and array.shape[1:] == shapes.get(figure) for figure, array in arrays.items()
        )
        counts: dict[str, Counts] = {
            figure: array.astype(np.float64 if array.dtype.kind == "f" else np.int64)
            for figure, array in arrays.items()
        }
    except Exception as error:  # of any kind, if the file is hostile
        raise ValueError("holds no counts") from error
    if not is_whole:
        raise ValueError("holds other arrays than counts of sentences")
    return counts


class DrawnScores(NamedTuple):
    """Scores of a figure on test sets drawn with replacement from the sentences of a row and seed."""

    scores: NDArray[np.float64]
    """[samples]."""
    num_sentences: int


def drawn_scores(figure: str, folder: Path) -> DrawnScores | None:
    """The scores on drawn test sets, by the counts in a row's folder; None if it has none of the figure.

    Raises:
        DataError: The file of the counts is damaged.
    """
    file = folder / COUNTS
    if find_test(figure) is None or not file.is_file():
        return None
    try:
        return _drawn(figure, file.read_bytes())
    except (ValueError, ArithmeticError):
        raise damaged_counts(folder) from None


@functools.lru_cache(maxsize=1_000)  # the report is written anew after each row
def _drawn(figure: str, content: bytes) -> DrawnScores | None:
    counts, test = read_counts(content).get(figure), find_test(figure)
    if counts is None or test is None:
        return None
    scores = resampled_scores(counts, test.score) if np.isfinite(counts).all() else np.array(np.nan)
    if not np.isfinite(scores).all():
        raise ValueError("gives no scores")
    return DrawnScores(scores, len(counts))


def damaged_counts(folder: Path) -> DataError:
    """The error for a row whose file of counts is damaged."""
    return DataError(f"{folder / COUNTS}: is damaged; delete {folder / RESULT} to compute the row again")
