"""The contenders are of the same size, do the same arithmetic in the same precision, and learn."""

import sys
from itertools import islice

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.modules.module import register_module_forward_hook
from torch.utils.flop_counter import FlopCounterMode

from allyouneed.config.run import RunConfig
from allyouneed.data.batch_plans import Batch
from allyouneed.lab.bench.contenders import OURS, missing_package
from allyouneed.lab.bench.training_contenders import CONTENDERS, TrainingContender, cut_rows
from allyouneed.lab.bench.training_workloads import equal_lengths, make_batches, multi30k_lengths
from allyouneed.training.flops import training_flops

pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning")

VOCAB_SIZE, LENGTH = 97, 11
CONFIG = RunConfig().replace(
    model={
        "source_vocab_size": VOCAB_SIZE,
        "target_vocab_size": VOCAB_SIZE,
        "d_model": 24,
        "d_ff": 40,
        "num_layers": 2,
        "num_heads": 2,
    },
    training={"batch_tokens": 7 * LENGTH, "precision": "float32", "warmup_steps": 20},
)


def contender(name: str, precision: str = "float32") -> TrainingContender:
    if requirement := missing_package(name):
        pytest.skip(f"NOT RUN: needs {requirement}")
    torch.manual_seed(1)
    config = CONFIG.replace(training={"precision": precision})
    return CONTENDERS[name](config, LENGTH, torch.device("cpu"))


def full_batch() -> Batch:
    """Seven pairs without padding."""
    return next(make_batches(equal_lengths(LENGTH), 7 * LENGTH, VOCAB_SIZE))


def num_trained(model: nn.Module) -> int:
    return sum(parameter.numel() for parameter in model.parameters() if parameter.requires_grad)


def test_marian_has_exactly_our_parameters() -> None:
    positions = 2 * LENGTH * 24  # of sinusoids, fixed, of either side; Marian keeps them as parameters
    ours, marian = contender(OURS).model, contender("marian").model
    assert num_trained(marian) in (num_trained(ours), num_trained(ours) + positions)
    in_positions = sum(p.numel() for name, p in marian.named_parameters() if "positions" in name)
    assert sum(p.numel() for p in marian.parameters()) - in_positions == num_trained(ours)


def test_the_tutorials_model_has_two_more_embeddings_and_two_more_normalisations() -> None:
    untied, bias, normalisations = 2 * VOCAB_SIZE * 24, VOCAB_SIZE, 2 * 2 * 24
    expected = num_trained(contender(OURS).model) + untied + bias + normalisations
    assert num_trained(contender("tutorial").model) == expected


@pytest.mark.parametrize("name", CONTENDERS)
def test_pytorch_counts_the_flops_that_are_told(name: str) -> None:
    batch = full_batch()
    expected = training_flops(CONFIG.model, 7, LENGTH, LENGTH, batch.num_target_tokens)
    # In bfloat16 ours is plain attention; of the fused kernels not all are known to the counter.
    step = contender(name, "bfloat16").step
    with sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter:
        step(batch)
    assert counter.get_total_flops() == pytest.approx(expected, rel=0.02)


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
@pytest.mark.parametrize("name", CONTENDERS)
def test_products_are_in_the_precision_asked_for_and_weights_in_float32(name: str, precision: str) -> None:
    chosen = contender(name, precision)
    dtypes = set()
    handle = register_module_forward_hook(
        lambda module, inputs, output: dtypes.add(output.dtype) if isinstance(module, nn.Linear) else None
    )
    chosen.step(full_batch())  # ours by copies of the model
    handle.remove()
    assert dtypes == {getattr(torch, precision)}
    assert {parameter.dtype for parameter in chosen.model.parameters()} == {torch.float32}


@pytest.mark.parametrize("name", CONTENDERS)
def test_every_contender_learns_to_copy(name: str) -> None:
    chosen = contender(name)
    # All batches copy from one handful of sentences of uneven lengths.
    found = next(make_batches(np.minimum(multi30k_lengths(), LENGTH - 1)[:40], 7 * LENGTH, VOCAB_SIZE))
    shifted = np.pad(found.source, ((0, 0), (1, 0)), constant_values=1)[:, :-1]
    tokens = int((found.source != 0).sum())
    batch = Batch(found.source, np.where(shifted == 2, 0, shifted), found.source, tokens, found.pairs)
    losses = [chosen.step(batch).item() for _ in range(60)]
    assert losses[0] == pytest.approx(np.log(VOCAB_SIZE), rel=0.35)
    assert min(losses[-5:]) < losses[0] / 2


def test_our_micro_batches_hold_all_rows_of_a_batch_once() -> None:
    (batch,) = islice(make_batches(multi30k_lengths(), 999, VOCAB_SIZE), 1)
    parts = cut_rows(batch, 4)
    assert len(parts) == 4
    for name in ("source", "target_input", "target_output", "pairs"):
        assert np.array_equal(np.concatenate([getattr(part, name) for part in parts]), getattr(batch, name))
    assert sum(part.num_target_tokens for part in parts) == batch.num_target_tokens


def test_a_batch_of_fewer_rows_than_parts_is_cut_into_rows() -> None:
    (batch,) = islice(make_batches(equal_lengths(50), 120, VOCAB_SIZE), 1)
    assert [len(part.pairs) for part in cut_rows(batch, 4)] == [1, 1]


def test_what_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "transformers", None)
    assert missing_package("marian") == "allyouneed[bench]"
    assert missing_package("tutorial") is None
