"""What is measured of training: everyone's turns in every round, and medians of ratios within a round."""

from functools import partial
from itertools import islice

import pytest
import torch

from allyouneed.config.model import ModelConfig
from allyouneed.lab.bench.contenders import OURS, Entry
from allyouneed.lab.bench.training_speed import (
    Round,
    TrainingTurn,
    bench_shape,
    build_contender,
    num_turns,
    play_rounds,
    step_memory,
    summarise,
    take_turn,
)
from allyouneed.lab.bench.training_workloads import Shape, equal_lengths, make_batches, multi30k_lengths
from allyouneed.training.flops import training_flops

CPU = torch.device("cpu")
MODEL = ModelConfig(
    source_vocab_size=97, target_vocab_size=97, d_model=16, d_ff=24, num_layers=1, num_heads=2
)
TINY = Shape(MODEL, 200, 50, 2, {"short": multi30k_lengths})
OURS_FLOAT32, OURS_BFLOAT16 = Entry(OURS, "float32"), Entry(OURS, "bfloat16")
TUTORIAL = Entry("tutorial", "float32")


def test_every_entry_takes_its_turn_in_every_round_on_the_same_batches() -> None:
    advanced = []
    entries = [OURS_FLOAT32, TUTORIAL]
    rounds = list(play_rounds(TINY, entries, 2, CPU, lambda: advanced.append(1)))
    assert len(rounds) == 2
    assert len(advanced) == num_turns(TINY, entries, 2) == 2 * 3  # one round warms up
    for each in rounds:
        ours, tutorial = each.turns["short", OURS_FLOAT32], each.turns["short", TUTORIAL]
        assert (ours.target_tokens, ours.flops) == (tutorial.target_tokens, tutorial.flops)
        assert set(each.limits) == {"float32"}
    assert len({each.turns["short", TUTORIAL].flops for each in rounds}) > 1  # other batches every time


def test_a_turn_counts_real_tokens_and_the_flops_of_padded_ones() -> None:
    batches = list(islice(make_batches(multi30k_lengths(), 200, 97), 2))
    turn = take_turn(build_contender(TINY, OURS_FLOAT32, 99, CPU), batches, MODEL, CPU)
    assert turn.target_tokens == sum(int((batch.target_output != 0).sum()) for batch in batches)
    assert turn.flops == sum(
        training_flops(
            MODEL,
            len(batch.pairs),
            batch.source.shape[1],
            batch.target_output.shape[1],
            batch.num_target_tokens,
        )
        for batch in batches
    )
    assert turn.target_tokens_per_second == turn.target_tokens / turn.seconds > 0


def test_ratios_are_medians_over_pairs_of_the_same_round() -> None:
    """The machine is ten times slower in the last round: no ratio changes."""
    rounds = [
        Round(
            {"float32": 5e3 * speed, "bfloat16": 8e3 * speed},
            {
                ("short", OURS_FLOAT32): TrainingTurn(2 / speed, 100, 2_000),
                ("short", OURS_BFLOAT16): TrainingTurn(1 / speed, 100, 2_000),
                ("long", OURS_FLOAT32): TrainingTurn(5 / speed, 100, 8_000),
            },
        )
        for speed in (1.0, 1.1, 0.1)
    ]
    slow, fast, long = summarise(rounds)
    assert fast["target_tokens_per_second"]["median"] == pytest.approx(100)
    assert fast["target_tokens_per_second"]["lower_quartile"] == pytest.approx(55)
    assert fast["target_tokens_per_second"]["upper_quartile"] == pytest.approx(105)
    assert fast["times_as_fast_as"]["allyouneed float32"] == pytest.approx(
        {"median": 2, "lower_quartile": 2, "upper_quartile": 2}
    )
    assert slow["times_as_fast_as"]["allyouneed bfloat16"]["median"] == pytest.approx(0.5)
    assert slow["share_of_limit"]["median"] == pytest.approx(0.2)
    assert fast["share_of_limit"]["median"] == pytest.approx(0.25)
    assert list(long["times_as_fast_as"]) == ["allyouneed float32"]
    assert long["kept_of_first_workload"]["median"] == pytest.approx(0.4)


@pytest.mark.slow
def test_the_memory_of_a_step_holds_at_least_weights_gradients_and_moments() -> None:
    model = ModelConfig(
        source_vocab_size=20_000, target_vocab_size=20_000, d_model=128, d_ff=64, num_layers=1
    )
    embedding = 4 * 20_000 * 128
    memory = step_memory(Shape(model, 64, 64, 1, {"long": partial(equal_lengths, 16)}), OURS_FLOAT32, CPU)
    assert 4 * embedding < memory < 20 * embedding


def test_the_record_says_where_it_was_measured_and_has_no_memory_where_length_is_not_studied() -> None:
    record = bench_shape(TINY, [OURS_FLOAT32], 1, CPU)
    assert "step_memory_bytes" not in record["rows"][0]
    assert record["environment"]["threads"] == torch.get_num_threads()
    assert record["limit_flops_per_second"]["float32"]["median"] > 1e8
