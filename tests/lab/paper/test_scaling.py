"""What 3.2.1 says of long dot products is so."""

from functools import partial
from pathlib import Path

import pytest
import torch
from tests.stores import write_store
from tests.tiny import TinyModel

from allyouneed.data.store import PairStore
from allyouneed.lab.paper.scaling import dot_product_figures, dot_product_statistics, independent_variance
from allyouneed.model.attention import CrossAttention, SelfAttention


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


def test_dot_products_of_a_model_are_those_that_its_heads_compare(
    tiny_model: TinyModel, tmp_path: Path
) -> None:
    pairs = [([5, 6, 7, 8][: 1 + n % 4], [6, 9, 5, 7, 10][: 1 + n % 5], n) for n in range(12)]
    write_store(tmp_path / "store", pairs, vocabulary_size=11)
    store, model = PairStore(tmp_path / "store"), tiny_model().eval()
    layers = [layer for layer in model.modules() if isinstance(layer, SelfAttention | CrossAttention)]
    found: dict[tuple[int, int], list[torch.Tensor]] = {}

    def watch(
        number: int,
        layer: SelfAttention | CrossAttention,
        given: tuple[torch.Tensor, ...],
        named: dict[str, torch.Tensor],
    ) -> None:
        if isinstance(layer, SelfAttention):
            query, key, _ = layer.project(given[0])
        else:
            query, key = layer.project_query(given[0]), layer.project_memory(named["memory"])[0]
        products = torch.einsum("hqd,hkd->hqk", query[0], key[0])
        is_causal = isinstance(layer, SelfAttention) and number > 1
        rows, columns = (torch.arange(size) for size in products.shape[1:])
        is_open = rows[:, None] >= columns if is_causal else torch.ones(products.shape[1:], dtype=torch.bool)
        for head in range(layer.num_heads):
            found.setdefault((number, head), []).append(products[head][is_open])

    hooks = [
        layer.register_forward_pre_hook(partial(watch, number), with_kwargs=True)
        for number, layer in enumerate(layers)
    ]
    figures = dot_product_figures(model, store)
    for hook in hooks:
        hook.remove()
    assert [isinstance(layer, SelfAttention) for layer in layers] == [True, True, True, False, True, False]
    assert len(found) == 6 * 3
    variances = [torch.cat(products).var().item() for products in found.values()]
    assert figures["qk_variance"] == pytest.approx(sum(variances) / len(variances), rel=1e-5)
    within = [
        ((products - products.mean()).abs() <= 2 * products.std()).float().mean().item()
        for products in map(torch.cat, found.values())
    ]
    assert figures["qk_within_two"] == pytest.approx(100 * sum(within) / len(within), rel=1e-5)
    assert sum(figures["qk_histogram"]) == pytest.approx(1, abs=1e-3)
    assert all(layer.attend is None for layer in layers), "the model is as it was"


def test_independent_components_have_the_variance_of_the_footnote() -> None:
    """What `qk_independent` predicts from components, dot products of independent ones have."""
    generator = torch.Generator().manual_seed(1)
    query, key = (
        torch.randn(4_000, 16, generator=generator) * scale + shift for scale, shift in ((2, 1), (3, 0.5))
    )
    predicted = independent_variance(query, key)
    assert predicted == pytest.approx((query * key).sum(-1).var().item(), rel=0.05)
    plain = torch.randn(4_000, 16, generator=generator)
    assert independent_variance(plain, plain.flip(0)) == pytest.approx(16, rel=0.05)
