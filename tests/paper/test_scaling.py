"""What 3.2.1 says of long dot products is so."""

import pytest

from allyouneed.paper.scaling import dot_product_statistics


@pytest.mark.parametrize("d_k", [4, 64, 1024])
def test_the_variance_of_dot_products_is_d_k_and_1_when_scaled(d_k: int) -> None:
    assert dot_product_statistics(d_k, False, 1)["variance"] == pytest.approx(d_k, rel=0.02)
    assert dot_product_statistics(d_k, True, 1)["variance"] == pytest.approx(1, rel=0.02)


def test_the_softmax_of_long_dot_products_lets_hardly_any_gradient_pass() -> None:
    gradients = [dot_product_statistics(d_k, False, 1)["softmax_gradient"] for d_k in (4, 64, 1024)]
    assert gradients == sorted(gradients, reverse=True)
    scaled = [dot_product_statistics(d_k, True, 1)["softmax_gradient"] for d_k in (4, 1024)]
    assert scaled[0] == pytest.approx(scaled[1], rel=0.2)
    assert gradients[2] < scaled[1] / 2
