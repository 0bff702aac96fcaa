"""Word and character error rates of transcriptions, computed by jiwer."""

from collections.abc import Sequence
from importlib.metadata import version
from typing import Any

from allyouneed.errors import DataError, UsageError
from allyouneed.evaluation.scores import Score, aligned_references


def word_error_rate(hypotheses: Sequence[str], *references: Sequence[str]) -> Score:
    """Percentage of words to insert, delete or replace; above 100 if hypotheses are too long.

    Raises:
        DataError: The counts differ, or a reference is empty.
        UsageError: jiwer is not installed, or there are several references.
    """
    return _rate("wer", hypotheses, references)


def character_error_rate(hypotheses: Sequence[str], *references: Sequence[str]) -> Score:
    """Percentage of characters to insert, delete or replace; raises as `word_error_rate`."""
    return _rate("cer", hypotheses, references)


def share_exact(hypotheses: Sequence[str], *references: Sequence[str]) -> Score:
    """Percentage of hypotheses that equal their reference."""
    equal = sum(map(str.__eq__, hypotheses, references[0]))
    return Score("exact", 100 * equal / len(hypotheses), "lines:equal")


def _rate(name: str, hypotheses: Sequence[str], references: Sequence[Sequence[str]]) -> Score:
    jiwer = require_jiwer()
    require_references(name, references)
    [wanted] = aligned_references(hypotheses, references)
    found = getattr(jiwer, name)(wanted, [*hypotheses])
    return Score(name, 100 * found, f"jiwer:{version('jiwer')}|case:mixed|corpus")


def require_references(name: str, references: Sequence[Sequence[str]]) -> None:
    """Raise UsageError if there are several, or none; raise DataError if a line is empty."""
    if len(references) != 1:
        raise UsageError(f"{name}: has one reference for each line; give one file", settings=["reference"])
    if empty := [number for number, line in enumerate(references[0], 1) if not line.strip()]:
        raise DataError(f"reference {empty[0]}: is empty; leave out such lines")


def require_jiwer() -> Any:
    """The package jiwer; raises UsageError if it is not installed."""
    try:
        import jiwer
    except ImportError:
        raise UsageError("error rates need jiwer; pip install 'allyouneed[speech]'") from None
    return jiwer
