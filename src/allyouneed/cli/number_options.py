"""Types of numeric options, with their bounds."""

import re
from collections.abc import Sequence
from typing import Annotated, Any

from cyclopts import Parameter
from cyclopts.validators import Number

from allyouneed.config.bounds import MAX_COUNT, MAX_OUTPUTS, MAX_THREADS

_GREATEST = 1e30


def _whole(_: type, tokens: Sequence[Any]) -> int:
    """Convert digits to a number; a fraction is rejected, not rounded."""
    written = str(tokens[0].value)
    if not re.fullmatch("[+-]?[0-9][0-9_]*", written):
        raise ValueError(f"{written!r} is not a whole number")
    return int(written)


def between(least: int, most: int) -> Parameter:
    """A whole number from `least` to `most`."""
    return Parameter(converter=_whole, validator=Number(gte=least, lte=most))


def _check_positive(_: type, value: float | None) -> None:
    if value is not None and not 0 < value <= _GREATEST:  # nan is neither
        raise ValueError(f"Must be > 0 and <= {_GREATEST:g}.")


def _check_finite(_: type, value: float | None) -> None:
    if value is not None and not -_GREATEST <= value <= _GREATEST:
        raise ValueError(f"Must be >= -{_GREATEST:g} and <= {_GREATEST:g}.")


def _check_share(_: type, value: float | None) -> None:
    if value is not None and not 0 <= value <= 1:
        raise ValueError("Must be >= 0 and <= 1.")


SEVERAL = Parameter(consume_multiple=True)
"""An option that takes several values."""

Whole = Annotated[int, Parameter(converter=_whole)]
"""A whole number whose bounds the configuration checks."""
AtLeastOne = Annotated[int, between(1, MAX_COUNT)]
Threads = Annotated[int, between(1, MAX_THREADS)]
"""Number of threads or processes."""
Port = Annotated[int, between(0, 65_535)]
Outputs = Annotated[int, between(1, MAX_OUTPUTS)]
"""Number of outputs per input."""
Positive = Annotated[float, Parameter(validator=_check_positive)]
Finite = Annotated[float, Parameter(validator=_check_finite)]
Share = Annotated[float, Parameter(validator=_check_share)]
