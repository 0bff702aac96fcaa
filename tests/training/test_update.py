from collections.abc import Sequence

import numpy as np
import pytest
import torch
from tests.kernels import require_kernels
from torch import Tensor, nn

from allyouneed.config.run import Precision, RunConfig, TrainingConfig
from allyouneed.data.batch_plans import Batch, make_batch
from allyouneed.hardware import devices
from allyouneed.hardware.devices import resolve_precision
from allyouneed.model.attention import SelfAttention, fused_attention, scaled_dot_product_attention
from allyouneed.model.layers import AddAndNorm, Combine
from allyouneed.model.relative_positions import RotaryPositions
from allyouneed.model.transformer import Transformer
from allyouneed.native import gradient_kernels as gradients
from allyouneed.native.library import library as library_of_kernels
from allyouneed.training import loss, update
from allyouneed.training.distributed import Processes
from allyouneed.training.fused_operators import (
    add_and_norm_by_kernel,
    attention_by_kernel,
    short_attention_by_kernel,
    turn_pairs_by_kernel,
)
from allyouneed.training.learner import Learner
from allyouneed.training.loss import label_smoothed_cross_entropy
from allyouneed.training.trainer import Corpus, schedule_of
from allyouneed.training.update import (
    accumulate_gradient,
    batch_loss,
    packed_hidden_states,
    padded_hidden_states,
    seed_generators,
    use_fastest_operators,
)

CPU = torch.device("cpu")
PAIRS = np.arange(24)


@pytest.fixture
def model(config: RunConfig) -> Transformer:
    """In float64 and without dropout."""
    torch.manual_seed(1)
    return Transformer(config.model.replace(dropout=0.0)).double()


def batches(corpus: Corpus, *bounds: int) -> list[Batch]:
    """`PAIRS`, cut before each of `bounds`."""
    return [make_batch(corpus.train, part) for part in np.split(PAIRS, bounds)]


def gradient_of(
    model: Transformer, micro_batches: Sequence[Batch], precision: Precision = "float32"
) -> tuple[Tensor, Tensor]:
    """The gradient of a global batch in these micro-batches, all parameters in a row, and its loss."""
    model.zero_grad()
    tokens = sum(batch.num_target_tokens for batch in micro_batches)
    losses = [accumulate_gradient(model, batch, tokens, 0.1, precision) for batch in micro_batches]
    gradient = [p.grad.flatten() for p in model.parameters() if p.grad is not None]
    return torch.cat(gradient), torch.stack(losses).sum()


@pytest.mark.parametrize("bounds", [(12,), (1, 2, 20), tuple(range(1, 24))])
def test_the_gradient_of_a_global_batch_is_the_sum_over_its_micro_batches(
    model: Transformer, corpus: Corpus, bounds: tuple[int, ...]
) -> None:
    whole, loss = gradient_of(model, batches(corpus))
    cut, loss_of_cut = gradient_of(model, batches(corpus, *bounds))
    assert whole.dtype == torch.float64
    assert (whole - cut).abs().max() < 1e-6 * whole.abs().max()
    assert loss_of_cut.item() == pytest.approx(loss.item(), rel=1e-9)


def test_every_token_weighs_the_same_whatever_its_micro_batch(model: Transformer, corpus: Corpus) -> None:
    """The oracle goes sentence by sentence and sums over all tokens; a mean of means is something else."""
    micro_batches = batches(corpus, 1, 2)
    means, total, tokens = [], torch.zeros((), dtype=torch.float64), 0
    for batch in micro_batches:
        sums = []
        for index in batch.pairs:
            alone = make_batch(corpus.train, np.array([index]))
            source, target_input, target_output = map(
                torch.from_numpy, (alone.source, alone.target_input, alone.target_output)
            )
            logits = model.project(model(source, target_input))[0]
            sums.append(label_smoothed_cross_entropy(logits, target_output[0], 0.1).smoothed)
        means.append(torch.stack(sums).sum() / batch.num_target_tokens)
        total, tokens = total + torch.stack(sums).sum(), tokens + batch.num_target_tokens

    def flat_gradient(loss: Tensor) -> Tensor:
        parameters = list(model.parameters())
        return torch.cat([g.flatten() for g in torch.autograd.grad(loss, parameters, retain_graph=True)])

    found, _ = gradient_of(model, micro_batches)
    assert (found - flat_gradient(total / tokens)).abs().max() < 1e-6 * found.abs().max()
    assert (found - flat_gradient(torch.stack(means).mean())).abs().max() > 1e-2 * found.abs().max()


def test_the_loss_in_bfloat16_is_that_of_float32_within_its_precision(
    corpus: Corpus, config: RunConfig
) -> None:
    torch.manual_seed(1)
    model = Transformer(config.model).eval()
    (batch,) = batches(corpus)
    low, full = (batch_loss(model, batch, 0.1, precision) for precision in ("bfloat16", "float32"))
    assert low.smoothed.dtype == torch.float32
    assert low.smoothed.item() == pytest.approx(full.smoothed.item(), rel=0.01)
    assert low.smoothed.item() != full.smoothed.item()


def test_packed_and_padded_hidden_states_are_the_same(model: Transformer, corpus: Corpus) -> None:
    (batch,) = batches(corpus)
    packed, padded = (states(model, batch, CPU) for states in (packed_hidden_states, padded_hidden_states))
    assert len(packed) == batch.num_target_tokens
    torch.testing.assert_close(packed, padded, atol=1e-12, rtol=0)


def test_random_numbers_depend_on_the_place_in_the_run_and_on_nothing_else() -> None:
    def draw(*place: int) -> tuple[float, ...]:
        seed_generators(*place)
        return tuple(torch.rand(4).tolist())

    places = [(seed, step, micro) for seed in (1, 2, 2**63 - 1) for step in (0, 1, 10**6) for micro in (0, 1)]
    draws = [draw(*place) for place in places]
    assert len(set(draws)) == len(places)
    assert [draw(*place) for place in reversed(places)] == draws[::-1]


@pytest.mark.parametrize(
    ("has_instructions", "speed", "precision"),
    [(True, 2.0, "bfloat16"), (True, 1.0, "float32"), (True, 0.5, "float32"), (False, 2.0, "float32")],
)
def test_the_precision_is_bfloat16_by_default_only_where_a_cpu_is_faster_in_it(
    monkeypatch: pytest.MonkeyPatch, has_instructions: bool, speed: float, precision: str
) -> None:
    seconds = {torch.float32: 1.0, torch.bfloat16: 1 / speed}
    monkeypatch.setattr(torch.cpu, "_is_avx512_bf16_supported", lambda: has_instructions)
    monkeypatch.setattr(devices, "_seconds_of_product", seconds.__getitem__)
    devices._multiplies_bfloat16_faster.cache_clear()
    assert resolve_precision("auto", CPU) == precision
    assert resolve_precision("float32", CPU) == "float32"
    assert resolve_precision("bfloat16", CPU) == "bfloat16"
    assert devices.fast_precisions(CPU) == ["float32", "bfloat16"][: 1 + (precision == "bfloat16")]
    devices._multiplies_bfloat16_faster.cache_clear()


def test_the_form_of_attention_follows_the_precision_and_the_kernels(
    config: RunConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = Transformer(config.model)
    attentions = [module for module in model.modules() if isinstance(module, SelfAttention)]
    for has_kernels, in_float32, in_bfloat16 in (
        (True, short_attention_by_kernel, attention_by_kernel),
        (False, fused_attention, scaled_dot_product_attention),
    ):
        monkeypatch.setattr(update, "library", lambda has_kernels=has_kernels: has_kernels or None)
        use_fastest_operators(model, TrainingConfig(precision="bfloat16"))
        assert {module.attend for module in attentions} == {in_bfloat16}
        use_fastest_operators(model, TrainingConfig(precision="float32"))
        assert {module.attend for module in attentions} == {in_float32}


@pytest.mark.parametrize("positions", ["sinusoidal", "rotary"])
@pytest.mark.parametrize(("precision", "close"), [("float32", 1e-5), ("bfloat16", 0.04)])
def test_kernels_train_as_pytorch_does(
    corpus: Corpus,
    config: RunConfig,
    monkeypatch: pytest.MonkeyPatch,
    positions: str,
    precision: Precision,
    close: float,
) -> None:
    require_kernels()
    torch.manual_seed(1)
    settings = config.model.replace(dropout=0.0, positions=positions)  # the kernels draw other numbers
    model = Transformer(settings).train()
    found = []
    for library in (lambda: None, library_of_kernels):
        for module in (gradients, loss, update):
            monkeypatch.setattr(module, "library", library)
        use_fastest_operators(model, TrainingConfig(precision=precision))
        seed_generators(1, 1, 1)
        found.append(gradient_of(model, batches(corpus), precision))
    assert combines(model) == {add_and_norm_by_kernel}
    turns = {module.turn_pairs for module in model.modules() if isinstance(module, RotaryPositions)}
    assert turns == ({turn_pairs_by_kernel} if positions == "rotary" else set())
    for without, with_kernels in zip(*found, strict=True):
        assert (with_kernels - without).norm() < close * without.norm()
    assert not torch.equal(found[0][0], found[1][0])


def combines(model: nn.Module) -> set[Combine]:
    return {module.combine for module in model.modules() if isinstance(module, AddAndNorm)}


@pytest.mark.parametrize(("precision", "inside"), [("tf32", "high"), ("float32", "highest")])
def test_products_are_rounded_to_tf32_during_an_update_and_no_longer(
    corpus: Corpus, config: RunConfig, precision: Precision, inside: str
) -> None:
    config = config.replace(training={"precision": precision})
    learner = Learner(config, corpus.train, torch.device("cpu"), Processes(), print)
    found = set()

    def stop() -> int:
        found.add(torch.get_float32_matmul_precision())
        return 0

    batch = next(schedule_of(corpus.train, config.training).batches_from(0))
    assert learner.update(batch, 1, stop) == 0
    assert found == {inside}
    assert torch.get_float32_matmul_precision() == "highest"
