"""What 3.5 says of sinusoids is so."""

import pytest

from allyouneed.lab.paper.extrapolation import largest_error_of_shift


@pytest.mark.parametrize("offset", [1, 5, 60])
def test_a_position_further_on_is_a_linear_function_of_the_position(offset: int) -> None:
    assert largest_error_of_shift(64, offset) < 1e-5
