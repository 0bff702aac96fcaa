"""A budget chooses a size by the speed of the machine, and a recipe that ends in time."""

from pathlib import Path

import pytest
import torch

from allyouneed import RunConfig, continue_from
from allyouneed.config.presets import SIZES
from allyouneed.errors import UsageError
from allyouneed.hardware.devices import PYTORCH_THREADS
from allyouneed.preparation.prepared_data import PreparedData
from allyouneed.runs import budgeting
from allyouneed.runs.budgeting import Budget, advice
from allyouneed.runs.run_configuration import completed
from allyouneed.storage.run_directory import RunDirectory
from allyouneed.storage.run_log import RunLog
from allyouneed.training.deadline import SHARE_OF_UPDATES
from allyouneed.training.optimizer import learning_rate

CPU = torch.device("cpu")


@pytest.fixture
def prepared(toy_data: Path) -> PreparedData:
    return PreparedData(toy_data)


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine that trains at 10^11 FLOPs per second in float32, twice as many in bfloat16."""

    def pace(choices: budgeting._Choices, config: RunConfig) -> budgeting._Pace:
        config = completed(config, choices.prepared, choices.device)
        flops = 1e11 * (2 if config.training.precision == "bfloat16" else 1)
        tokens = flops / choices._flops_per_token(config)
        return budgeting._Pace(config, tokens, tokens / (0.9 * config.training.batch_tokens))

    monkeypatch.setattr(budgeting._Choices, "pace", pace)
    monkeypatch.setattr(budgeting, "fast_precisions", lambda device: ["float32", "bfloat16"])
    monkeypatch.setattr(budgeting, "MOST_EPOCHS", 1e9)  # the toy corpus is too small for so much time


def test_more_time_trains_a_larger_model_with_larger_batches(prepared: PreparedData, machine: None) -> None:
    minutes = [1, 10, 60, 600, 10_000, 1_000_000]
    configs = [Budget(60 * each).config(prepared, CPU) for each in minutes]
    widths = [config.model.d_model for config in configs]
    batches = [config.training.batch_tokens for config in configs]
    assert widths == sorted(widths)
    assert (widths[0], widths[-1]) == (SIZES["tiny"]["d_model"], SIZES["big"]["d_model"])
    assert len(set(widths)) >= 4
    assert batches == sorted(batches)
    assert batches[0] < batches[2] < batches[-1] == 26_500


def test_the_recipe_ends_in_time_at_a_rate_of_zero_in_the_fastest_precision(
    prepared: PreparedData, machine: None
) -> None:
    told: list[str] = []
    config = Budget(3_600).config(prepared, CPU, say=told.append)
    training = config.training
    assert (training.schedule, training.planned_seconds) == ("linear_decay", 3_600)
    assert training.precision == "bfloat16"
    choices = budgeting._Choices(3_600, prepared, CPU, 1, lambda line: None)
    tried = choices.pace(config.replace(training={"precision": "auto"}))
    tokens = SHARE_OF_UPDATES * 3_600 * tried.tokens_per_second
    assert training.batch_tokens == pytest.approx(0.65 * tokens**0.5, rel=0.01)
    seconds = training.num_steps / choices.pace(config).updates_per_second
    assert (SHARE_OF_UPDATES - 0.03) * 3_600 < seconds < (SHARE_OF_UPDATES + 0.02) * 3_600
    assert training.warmup_steps == 4_000 < training.num_steps / 5
    rates = [learning_rate(step, config) for step in (training.warmup_steps, training.num_steps + 1)]
    assert rates == [pytest.approx(0.75 / config.model.d_model, rel=0.01), pytest.approx(0.0)]
    assert [line.partition(":")[0] for line in told] == ["size", "speed", "updates", "learning rate"]


@pytest.mark.parametrize(("threads", "parts"), [(1, 2), (2, 2), (3, 3), (4, 4), (6, 4)])
def test_each_thread_has_a_micro_batch(
    prepared: PreparedData, machine: None, threads: int, parts: int
) -> None:
    with PYTORCH_THREADS.limited_to(threads):
        training = Budget(600).config(prepared, CPU).training
    assert training.micro_batch_tokens is not None
    assert round(training.batch_tokens / training.micro_batch_tokens) == parts


def test_settings_are_kept_and_a_given_model_too(prepared: PreparedData, machine: None) -> None:
    settings = (
        "training.seed=7",
        "model.dropout=0.25",
        "training.num_steps=9",
        'training.precision="float32"',
    )
    config = Budget(60.0, settings=settings).config(prepared, CPU)
    training = config.training
    assert (training.seed, config.model.dropout, training.num_steps) == (7, 0.25, 9)
    assert training.precision == "float32"
    begun = RunConfig().replace(model={"d_model": 64, "num_layers": 1, "num_heads": 2, "d_ff": 96})
    chosen = Budget(1e6, begun).config(prepared, CPU).model
    assert (chosen.d_model, chosen.d_ff, chosen.num_layers) == (64, 96, 1)


def test_a_given_batch_is_what_is_measured_and_divided(prepared: PreparedData, machine: None) -> None:
    with PYTORCH_THREADS.limited_to(2):
        training = Budget(3_600, settings=["training.batch_tokens=400"]).config(prepared, CPU).training
        assert (training.batch_tokens, training.micro_batch_tokens) == (400, 200)
        given = Budget(3_600, settings=["training.micro_batch_tokens=300"]).config(prepared, CPU).training
        assert given.micro_batch_tokens == 300


def test_a_batch_has_room_for_the_longest_sentence(
    prepared: PreparedData, machine: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(budgeting, "longest_sentence", lambda prepared, pairs: 3_000)
    with PYTORCH_THREADS.limited_to(2):
        training = Budget(60).config(prepared, CPU).training
        assert (training.batch_tokens, training.micro_batch_tokens) == (3_000, 3_000)


def test_normalisation_after_the_sums_learns_at_the_lower_rate_of_the_paper(
    prepared: PreparedData, machine: None
) -> None:
    config = Budget(600, settings=['model.norm="post"']).config(prepared, CPU)
    highest = learning_rate(config.training.warmup_steps, config)
    assert highest == pytest.approx(0.3 / config.model.d_model, rel=0.01)


def test_a_continued_model_learns_more_slowly_and_keeps_its_dropout(
    prepared: PreparedData, machine: None, toy_model: Path
) -> None:
    begun = continue_from(toy_model)
    config = Budget(600.0, begun).config(prepared, CPU)
    assert config.model == begun.model
    highest = learning_rate(config.training.warmup_steps, config)
    assert highest == pytest.approx(0.3 * 0.75 / config.model.d_model, rel=0.01)


def test_a_small_corpus_is_not_seen_for_ever(
    prepared: PreparedData, machine: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(budgeting, "MOST_EPOCHS", 100.0)
    told: list[str] = []
    config = Budget(1e7).config(prepared, CPU, say=told.append)
    assert told[2].endswith(" each pair is seen 100 times, which is enough: it takes about 15 seconds")
    assert told[0] == "size: tiny, 128 wide; small, the next, wants more text"
    store = prepared.train
    tokens = store.target_lengths.sum() + store.num_pairs
    assert config.training.num_steps * config.training.batch_tokens < 200 * tokens


def test_text_beside_the_corpus_lets_a_run_last_longer(
    prepared: PreparedData, machine: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(budgeting, "MOST_EPOCHS", 100.0)
    told: list[str] = []
    replayed = f"training.replay='{prepared.directory}'", "training.replay_share=0.5"
    alone = Budget(1e7).config(prepared, CPU).training
    beside = Budget(1e7, settings=replayed).config(prepared, CPU, say=told.append).training
    assert " each pair is seen 100 times, which is enough" in told[2]
    tokens = [each.num_steps * each.batch_tokens for each in (alone, beside)]
    assert tokens[1] == pytest.approx(2 * tokens[0], rel=0.02)


@pytest.mark.parametrize("seconds", [-1.0, 0.0, 19.9, float("nan")])
def test_a_budget_that_is_too_small_is_refused(prepared: PreparedData, seconds: float) -> None:
    with pytest.raises(UsageError, match="budget: give 20 seconds or more"):
        Budget(seconds).config(prepared, CPU)


@pytest.mark.parametrize(
    ("trained", "validated", "told"),
    [
        ([3.0, 1.0], [3.0, 2.0, 2.1], "more text would help most: it has begun to learn this text by heart"),
        ([3.0, 1.6], [3.0, 2.0], "more text would help most, then more time"),
        ([3.0, 2.2], [3.0, 2.0], "more time would help most"),
        ([3.0], [], ""),
    ],
)
def test_the_losses_tell_what_would_help(
    tmp_path: Path, trained: list[float], validated: list[float], told: str
) -> None:
    log = RunLog(tmp_path / "log.jsonl")
    for name, losses in {"train": trained, "validate": validated}.items():
        for step, loss in enumerate(losses, start=1):
            log.write(name, step=step, loss=loss)
    log.close()
    assert advice(RunDirectory(tmp_path)).startswith(told)
    assert bool(told) == bool(advice(RunDirectory(tmp_path)))
