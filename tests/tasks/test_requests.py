"""A request says at once which text is none, such as a missing value of a table, and what it is instead."""

import re
from collections.abc import Callable
from typing import Any

import pytest

from allyouneed import ParseRequest, ScoreRequest, TranslationRequest


@pytest.mark.parametrize(
    ("wrong", "found"),
    [(None, "NoneType (None)"), (float("nan"), "float (nan)"), (b"sun", "bytes (b'sun')"), (5, "int (5)")],
)
@pytest.mark.parametrize(
    "request_of",
    [
        lambda wrong: TranslationRequest(7, wrong),
        lambda wrong: TranslationRequest(7, "sun", prefix=wrong),
        lambda wrong: ScoreRequest(7, wrong, "nus"),
        lambda wrong: ScoreRequest(7, "sun", wrong),
        lambda wrong: ParseRequest(7, wrong),
        lambda wrong: ParseRequest(7, ["sun", wrong]),
    ],
)
def test_what_is_no_text_is_named(request_of: Callable[[Any], object], wrong: object, found: str) -> None:
    with pytest.raises(TypeError, match=f"^text 7: is of type {re.escape(found)}; give a str$"):
        request_of(wrong)


def test_a_list_in_place_of_a_text_is_named_in_short() -> None:
    with pytest.raises(TypeError, match=r"^text 7: is of type list \(.{40}\); give a str$"):
        TranslationRequest(7, ["sun", "moon"] * 1_000)  # type: ignore[arg-type]
