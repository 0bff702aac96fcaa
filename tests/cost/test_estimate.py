"""Costs agree with the paper's figures, with sums by hand, and with what PyTorch counts while it computes."""

from typing import get_args

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from allyouneed.config.fidelity import with_recipe
from allyouneed.config.model import ModelConfig
from allyouneed.config.presets import PRESETS, base, big
from allyouneed.config.run import RunConfig
from allyouneed.cost.estimate import (
    PUBLISHED,
    cost,
    flops_per_target_token,
)
from allyouneed.model.sizes import count_parameters
from allyouneed.model.transformer import Transformer
from allyouneed.training.memory_estimate import activations_per_token

UNEVEN = ModelConfig(
    source_vocab_size=97, target_vocab_size=97, d_model=20, d_ff=44, num_layers=3, num_heads=2, d_k=7, d_v=5
)


def test_base_costs_what_a_sum_by_hand_gives() -> None:
    projections = 512 * (3 * 512) + 512 * 512  # queries, keys, values; outputs
    attention = projections + 25 * 512 + 25 * 512  # scores; mixtures of 25 values
    feed_forward = 512 * 2048 + 2048 * 512
    encoder = 6 * (attention + feed_forward)
    decoder = 6 * (attention + attention + feed_forward)
    forward = 2 * (encoder + decoder + 512 * 37_000)
    assert flops_per_target_token(base().model, 25) == 3 * forward == 380_669_952


@pytest.mark.parametrize("architecture", get_args(ModelConfig.model_fields["architecture"].annotation))
def test_every_architecture_has_flops_and_memory(architecture: str) -> None:
    found = cost(base().replace(model={"architecture": architecture}), 25)
    assert found.training_flops > 0
    assert found.memory.activations_estimate > 0


def test_the_whole_run_costs_its_tokens_times_the_cost_of_one() -> None:
    config = base().replace(training={"batch_tokens": 742, "num_steps": 11})
    assert cost(config, 25).training_flops == 380_669_952 * 700 * 11


OVER_PARAMETERS = UNEVEN.replace(
    feed_forward="parameters", parameter_heads=3, parameter_d_k=5, parameter_d_v=4, parameter_pairs=11
)


@pytest.mark.parametrize(
    "config", [UNEVEN, OVER_PARAMETERS, UNEVEN.replace(attention="additive", norm="pre")]
)
@pytest.mark.parametrize("backward", [False, True])
def test_pytorch_counts_the_same_flops_while_it_computes(config: ModelConfig, backward: bool) -> None:
    length, sentences = 9, 2
    model = Transformer(config)
    ids = torch.randint(5, 97, (sentences, length))
    with FlopCounterMode(display=False) as counter:
        logits = model.project(model(ids, ids))
        if backward:
            logits.sum().backward()
    expected = sentences * length * flops_per_target_token(config, length)
    assert counter.get_total_flops() == (expected if backward else expected // 3)


@pytest.mark.parametrize(("preset", "share"), [("base", 0.29), ("big", 0.42)])
def test_the_count_is_a_part_of_the_papers_estimate(preset: str, share: float) -> None:
    found = cost(PRESETS[preset](), 25)
    assert found.published is not None
    assert found.published.training_flops is not None
    assert found.training_flops / found.published.training_flops == pytest.approx(share, abs=0.005)


def test_the_papers_estimates_are_those_of_table_2() -> None:
    estimates = {name: row.training_flops for name, row in PUBLISHED.items() if row.training_flops}
    assert estimates == {"base": pytest.approx(3.3e18, rel=0.01), "big": pytest.approx(2.3e19, rel=0.01)}


@pytest.mark.parametrize("name", PUBLISHED)
def test_the_published_count_comes_out_with_the_vocabulary_named_beside_it(name: str) -> None:
    row = PUBLISHED[name]
    sizes = {"source_vocab_size": row.vocab_size, "target_vocab_size": row.vocab_size}
    found = cost(PRESETS[name]().replace(model=sizes), 25)
    assert round(found.parameters / 1e6) == row.parameters_millions
    assert found.published == row


def test_the_paper_has_no_figure_for_a_model_of_other_sizes() -> None:
    assert cost(base().replace(model={"num_layers": 5}), 25).published is None
    assert cost(base().replace(model={"positions": "learned"}), 25).published is None
    assert cost(base().replace(model={"tied_embeddings": "none"}), 25).published is None


def test_the_papers_figures_are_those_of_its_sizes_whatever_else_is_varied() -> None:
    assert cost(big().replace(model={"dropout": 0.1}), 25).published == PUBLISHED["big"]
    for preset in ("base", "big"):
        released = with_recipe("released-2017", PRESETS[preset]())
        assert cost(released, 25).published == PUBLISHED[preset]
    pre_norm = {"norm": "pre", "attention": "unscaled", "decoder_start": "zeros"}
    assert cost(base().replace(model=pre_norm), 25).published == PUBLISHED["base"]


def test_parameters_are_counted_by_part_and_without_memory() -> None:
    learned = UNEVEN.replace(positions="learned", max_positions=13, tied_embeddings="none")
    counts = count_parameters(learned)
    model = Transformer(learned)
    assert counts["positions"] == 2 * 13 * 20
    assert counts["embeddings"] == 3 * 97 * 20
    assert counts["encoder"] == sum(p.numel() for p in model.encoder.parameters())
    assert counts["decoder"] == sum(p.numel() for p in model.decoder.parameters())
    assert sum(counts.values()) == sum(p.numel() for p in model.parameters())
    assert sum(count_parameters(UNEVEN.replace(d_model=10**6)).values()) > 1e9


def test_weights_gradients_and_moments_take_sixteen_bytes_a_parameter() -> None:
    found = cost(base(), 25)
    memory = found.memory
    assert memory.weights + memory.gradients + memory.moments == 16 * found.parameters
    assert found.checkpoint_bytes + found.state_bytes == 12 * found.parameters


def test_a_micro_batch_is_what_training_would_choose() -> None:
    assert cost(RunConfig(), 25).micro_batch_tokens == 26_500 // 4
    given = base().replace(training={"micro_batch_tokens": 700})
    assert cost(given, 25).micro_batch_tokens == 700
    assert cost(given, 25).memory.activations_estimate == 4 * 700 * activations_per_token(given.model, 25)
