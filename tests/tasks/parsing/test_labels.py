"""What of a label is left without its function."""

import pytest

from allyouneed.tasks.parsing.labels import without_function


@pytest.mark.parametrize(
    ("label", "bare"),
    [
        ("NP", "NP"),
        ("NP-SBJ-1", "NP"),
        ("NP=2", "NP"),
        ("ADVP|PRT-CLR", "ADVP|PRT"),
        ("-LRB-", "-LRB-"),
        ("=", "="),
        ("", ""),
    ],
)
def test_what_follows_a_hyphen_or_an_equals_sign_is_left_out(label: str, bare: str) -> None:
    assert without_function(label) == bare
