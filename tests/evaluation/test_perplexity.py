import math

import pytest

from allyouneed.evaluation.perplexity import perplexity


def test_perplexity_of_uniform_guessing_is_the_size_of_the_vocabulary() -> None:
    assert perplexity(7 * math.log(37_000), 7).value == pytest.approx(37_000)


def test_perplexity_is_the_inverse_geometric_mean_of_the_probabilities() -> None:
    probabilities = [1 / 2, 1 / 8, 1]
    score = perplexity(-sum(map(math.log, probabilities)), len(probabilities))
    assert score.value == pytest.approx(16 ** (1 / 3))


def test_signature_says_what_is_counted() -> None:
    assert perplexity(1.0, 1).signature.startswith(
        "per:word-piece|end:counted|label-smoothing:no|version:allyouneed-"
    )


def test_a_loss_that_no_float_can_hold_the_exponential_of_is_an_infinite_perplexity() -> None:
    assert perplexity(1e30, 1).value == math.inf
