"""Times that are estimates are told as roughly as they are known."""

import pytest

from allyouneed.runs.rehearsal_text import about


@pytest.mark.parametrize(
    ("seconds", "told"),
    [
        (0.04, "about 0.04 seconds"),
        (1, "about 1 second"),
        (89, "about 89 seconds"),
        (719.8, "about 12 minutes"),
        (23_318, "about 6.5 hours"),
        (129_600, "about 1.5 days"),
        (1e9, "about 12,000 days"),
        (float("inf"), "over 1,000 years"),
    ],
)
def test_an_estimate_has_two_digits(seconds: float, told: str) -> None:
    assert about(seconds) == told
