import itertools
import math
import os
import shutil
import signal
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

import pytest
import torch
from tests.stores import write_store
from torch import Tensor, nn

from allyouneed.config.run import RunConfig, TrainingConfig
from allyouneed.data.store import PairStore
from allyouneed.errors import DataError, DivergedError, ModelError
from allyouneed.hardware.machine import environment
from allyouneed.model.encoder_decoder import EncoderDecoder
from allyouneed.runs.loading import model_of
from allyouneed.storage.checkpoint import load_checkpoint, save_checkpoint
from allyouneed.storage.publish import sha256_of
from allyouneed.storage.run_directory import RunDirectory, resolve_model
from allyouneed.storage.run_log import Event, read_log
from allyouneed.training.meters import Validation, validation_loss
from allyouneed.training.optimizer import inverse_square_root
from allyouneed.training.trainer import Corpus, Trainer

CPU = torch.device("cpu")
LAST_STEP = 12
SCHEDULE = TrainingConfig(warmup_steps=20, learning_rate_factor=2.0)


class NewTrainer(Protocol):
    def __call__(
        self, run: Path, corpus: Corpus | None = None, bleu: list[float] | None = None, **training: object
    ) -> Trainer: ...


@pytest.fixture(scope="module")
def new_trainer(config: RunConfig, corpus: Corpus) -> NewTrainer:
    """A trainer in `run`, of the corpus without validation, or of another, perhaps with BLEU as scripted."""
    unvalidated = replace(corpus, valid=None)

    def build(
        run: Path, corpus: Corpus | None = None, bleu: list[float] | None = None, **training: object
    ) -> Trainer:
        run.mkdir(exist_ok=True)
        given, scores = config.replace(training=training), iter(bleu or ())
        return Trainer(
            given,
            corpus or unvalidated,
            RunDirectory(run),
            CPU,
            validation=Validation(lambda model: {"bleu": next(scores)} if bleu else {}, "bleu"),
        )

    return build


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory, new_trainer: NewTrainer) -> Path:
    """A run that nothing has interrupted."""
    run = tmp_path_factory.mktemp("whole")
    new_trainer(run).train()
    return run


def resume(trainer: Trainer) -> Trainer:
    if steps := trainer.run.resumable_steps():
        trainer.resume(steps[-1])
    return trainer


def computing(trainer: Trainer) -> list[EncoderDecoder]:
    """The copies of the model that compute its updates."""
    team = trainer._learner._accumulation._team
    assert team is not None
    models = [team._copies._idle.get() for _ in range(team.size)]
    for model in models:
        team._copies._idle.put(model)
    return models


def interrupt(trainer: Trainer, micro_batch: int) -> Trainer:
    """Let the program be told to stop while it computes the micro-batch of that number, from 1."""
    numbers = itertools.count(1)

    def count(module: nn.Module, arguments: Any, output: Tensor) -> None:
        if next(numbers) == micro_batch:
            signal.raise_signal(signal.SIGTERM)

    for model in computing(trainer):
        model.register_forward_hook(count)
    return trainer


def bits(run: Path, step: int = LAST_STEP) -> tuple[str, str]:
    """What the model and the training state of a step are, to the bit."""
    directory = RunDirectory(run)
    return (
        sha256_of(directory.checkpoint(step) / "model.safetensors"),
        sha256_of(directory.state(step) / "state.safetensors"),
    )


def events(run: Path, event: str) -> list[Event]:
    return [logged for logged in read_log(run / "log.jsonl") if logged["event"] == event]


def test_an_interrupted_run_with_a_deadline_goes_on_to_the_same_bits(
    run: Path, new_trainer: NewTrainer
) -> None:
    planned: dict[str, Any] = {"schedule": "linear_decay", "planned_seconds": 1e6, "moved_end": (5, 20)}
    (whole := run.with_name("whole")).mkdir()
    new_trainer(whole, **planned).train()
    for micro_batch in 5, 4:
        assert interrupt(resume(new_trainer(run, **planned)), micro_batch).train() == signal.SIGTERM
    resume(new_trainer(run, **planned)).train()
    assert bits(run) == bits(whole)


def test_a_run_that_is_late_moves_its_end_once_and_is_resumed_with_it(
    run: Path, new_trainer: NewTrainer
) -> None:
    new_trainer(run, schedule="linear_decay", planned_seconds=1e-6, checkpoint_every_steps=2).train()
    recorded = RunConfig.from_toml(run / "config.toml").training
    assert (recorded.num_steps, recorded.moved_end) == (5, (4, 12))
    (told,) = events(run, "notice")
    assert "slower than planned: the run ends after 5 updates instead of 12" in told["text"]
    assert RunDirectory(run).checkpoint_steps()[-1] == 5
    assert load_checkpoint(RunDirectory(run).checkpoint(5)).config.training == recorded


@pytest.mark.parametrize(
    ("seconds", "given", "taken"), [(1e6, 0.6, 1.0), (599.0, 0.6, 0.6), (1e6, 0.7, 0.7), (None, 0.6, 0.6)]
)
def test_a_budget_ends_with_the_best_length_penalty_if_it_has_time_and_none_was_given(
    run: Path, config: RunConfig, corpus: Corpus, seconds: float | None, given: float, taken: float
) -> None:
    begun = config.replace(
        training={
            **{"schedule": "linear_decay", "planned_seconds": seconds, "moved_end": (3, 20)},
            **{"checkpoint_every_steps": 6, "keep_checkpoints": 2},
        },
        search={"length_penalty": given},
    )
    validation = Validation(lambda model: {"bleu": 1.0}, "bleu", "", "", lambda model, alpha: -abs(alpha - 1))
    Trainer(begun, corpus, RunDirectory(run), CPU, validation=validation).train()
    configs = [load_checkpoint(RunDirectory(run).checkpoint(step)).config for step in (6, LAST_STEP)]
    assert [each.search.length_penalty for each in configs] == [given, taken]
    if taken != given:
        assert RunConfig.from_toml(run / "config.toml") == configs[-1]
    notices = [event["text"] for event in events(run, "notice")]
    assert any("length penalty 1, by bleu" in text for text in notices) == (taken != given)


def test_a_run_is_logged_from_start_to_end(run: Path, new_trainer: NewTrainer) -> None:
    assert new_trainer(run, validate_every_steps=3).train() is None
    (start,) = events(run, "start")
    # 16 * 16 embeddings, then attention, feed-forward and normalisation of an encoder and a decoder layer.
    attention, feed_forward, norm = 4 * (16 * 16 + 16), 16 * 32 + 32 + 32 * 16 + 16, 2 * 16
    parameters = 16 * 16 + 3 * attention + 2 * feed_forward + 5 * norm
    expected = {"event": "start", "step": 0, "num_steps": 12, "parameters": parameters, "processes": 1}
    assert start == {**expected, "budgets": {}, "environment": environment(CPU)}
    logged = events(run, "train")
    assert [event["step"] for event in logged] == [3, 6, 9, 12]
    for event in logged:
        assert event["learning_rate"] == inverse_square_root(event["step"], 16, SCHEDULE)
        assert event["perplexity"] == pytest.approx(math.exp(event["loss"]))
        assert 0 < event["share_of_peak"] < 1
        assert event["memory_bytes"] > 2**26
    assert [event["step"] for event in events(run, "checkpoint")] == [4, 8, 12]


def test_what_is_logged_is_reported(run: Path, config: RunConfig, corpus: Corpus) -> None:
    told: list[Event] = []
    Trainer(config, corpus, RunDirectory(run), CPU, report=told.append).train()
    assert told == list(read_log(run / "log.jsonl"))


def test_the_first_update_moves_weights_by_the_learning_rate_as_adam_does(
    run: Path, new_trainer: NewTrainer
) -> None:
    trainer = new_trainer(run, num_steps=1)
    before = torch.cat([weight.detach().flatten() for weight in trainer.model.parameters()])
    trainer.train()
    moved = (torch.cat([weight.detach().flatten() for weight in trainer.model.parameters()]) - before).abs()
    rate = inverse_square_root(1, 16, SCHEDULE)
    assert moved.median().item() == pytest.approx(rate, rel=1e-3)
    assert moved.max().item() <= 1.001 * rate


def test_a_run_learns(run: Path, config: RunConfig, corpus: Corpus) -> None:
    training = {
        "micro_batch_tokens": 128,
        "num_steps": 120,
        "warmup_steps": 50,
        "learning_rate_factor": 0.3,
        "checkpoint_every_steps": None,
        "validate_every_steps": 40,
    }
    learner = config.replace(model={"dropout": 0.0}, training=training)
    Trainer(learner, corpus, RunDirectory(run), CPU).train()
    losses = [event["loss"] for event in events(run, "validate")]
    assert losses == sorted(losses, reverse=True)
    assert losses[-1] < 0.7 * math.log(11)  # to know which ids there are, and nothing else, is log 11


def test_a_validation_is_of_the_weights_of_its_step_without_dropout(
    run: Path, new_trainer: NewTrainer, corpus: Corpus
) -> None:
    assert corpus.valid is not None
    new_trainer(run, corpus, validate_every_steps=4).train()
    logged = events(run, "validate")
    assert [event["step"] for event in logged] == [4, 8, 12]
    for event in logged:
        model = model_of(load_checkpoint(RunDirectory(run).checkpoint(event["step"])))
        assert event["loss"] == pytest.approx(validation_loss(model, corpus.valid), rel=1e-6)


def test_validating_does_not_change_what_is_trained(
    run: Path, whole: Path, new_trainer: NewTrainer, corpus: Corpus
) -> None:
    new_trainer(run, corpus, validate_every_steps=1).train()
    assert bits(run) == bits(whole)


@pytest.mark.parametrize(
    "micro_batch", [1, 5, 40, *(pytest.param(number, marks=pytest.mark.release) for number in (2, 4, 18, 23))]
)
def test_a_run_stopped_in_any_micro_batch_goes_on_to_the_same_bits(
    run: Path, whole: Path, new_trainer: NewTrainer, micro_batch: int
) -> None:
    trainer = interrupt(new_trainer(run), micro_batch)
    assert trainer.train() is signal.SIGTERM
    assert trainer.step == micro_batch // 4  # four make an update; the one that was begun is not made
    assert RunDirectory(run).resumable_steps()[-1:] == ([trainer.step] if trainer.step else [])
    resumed = resume(new_trainer(run))
    assert resumed.step == trainer.step
    assert resumed.train() is None
    assert bits(run) == bits(whole)


def test_ten_stops_in_a_row_lead_to_the_same_bits(run: Path, whole: Path, new_trainer: NewTrainer) -> None:
    for _ in range(10):
        assert interrupt(resume(new_trainer(run)), micro_batch=6).train() is signal.SIGTERM
    resume(new_trainer(run)).train()
    assert [event["step"] for event in events(run, "start")] == list(range(11))
    assert bits(run) == bits(whole)


def test_a_run_in_bfloat16_goes_on_to_the_same_bits(tmp_path: Path, new_trainer: NewTrainer) -> None:
    whole, stopped = tmp_path / "whole", tmp_path / "stopped"
    new_trainer(whole, precision="bfloat16", num_steps=4).train()
    interrupt(new_trainer(stopped, precision="bfloat16", num_steps=4), micro_batch=10).train()
    resume(new_trainer(stopped, precision="bfloat16", num_steps=4)).train()
    assert bits(stopped, 4) == bits(whole, 4)


def test_wherever_a_save_is_cut_short_a_whole_checkpoint_is_left_and_the_run_goes_on_to_the_same_bits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, new_trainer: NewTrainer
) -> None:
    """A moment is a copy of the run as a kill would leave it before a file is synced, renamed or deleted."""
    run = tmp_path / "run"
    settings: dict[str, Any] = {"checkpoint_every_steps": 1, "keep_checkpoints": 1}
    new_trainer(run, num_steps=3, **settings).train()
    moments: list[Path] = []

    def copy_before(name: str) -> None:
        act = getattr(os, name)

        def copy_and_act(*arguments: Any, **options: Any) -> Any:
            moments.append(tmp_path / f"{len(moments)}-before-{name}")
            shutil.copytree(run, moments[-1])
            return act(*arguments, **options)

        monkeypatch.setattr(os, name, copy_and_act)

    acts = {"fsync", "rename", "replace", "unlink", "rmdir"}
    for name in acts:
        copy_before(name)
    resume(new_trainer(run, num_steps=4, **settings)).train()
    monkeypatch.undo()

    assert {moment.name.partition("-before-")[2] for moment in moments} == acts
    for moment in moments:
        model_of(load_checkpoint(resolve_model(moment)))
        with RunDirectory(moment).locked():
            assert not list(moment.rglob("*.tmp-*"))
            resume(new_trainer(moment, num_steps=4, **settings)).train()
        assert bits(moment, 4) == bits(run, 4)
        assert RunDirectory(moment).marked("latest") == 4


def test_the_newest_checkpoints_are_kept_and_the_best(
    run: Path, new_trainer: NewTrainer, corpus: Corpus
) -> None:
    bleu = [1.0, 7.0, 2.0, 3.0, 4.0, 5.0]
    new_trainer(
        run, corpus, bleu, checkpoint_every_steps=1, keep_checkpoints=3, validate_every_steps=2
    ).train()
    directory = RunDirectory(run)
    assert directory.checkpoint_steps() == [4, 10, 11, 12]
    assert directory.resumable_steps() == [11, 12]
    assert (directory.marked("latest"), directory.marked("best")) == (12, 4)


def test_the_best_model_is_saved_where_no_checkpoint_is_due(
    run: Path, new_trainer: NewTrainer, corpus: Corpus
) -> None:
    new_trainer(run, corpus, [5.0, 6.0, 4.0], checkpoint_every_steps=None, validate_every_steps=4).train()
    assert RunDirectory(run).checkpoint_steps() == [4, 8, 12]
    assert RunDirectory(run).marked("best") == 8


def test_lost_patience_ends_a_run(run: Path, new_trainer: NewTrainer, corpus: Corpus) -> None:
    trainer = new_trainer(run, corpus, [1.0, 5.0, 3.0, 4.0], validate_every_steps=2, patience=2)
    assert trainer.train() is None
    assert trainer.step == RunDirectory(run).marked("latest") == 8
    assert RunDirectory(run).marked("best") == 4


def test_a_resumed_run_has_the_patience_that_was_left(
    run: Path, new_trainer: NewTrainer, corpus: Corpus
) -> None:
    stopped = new_trainer(run, corpus, [1.0, 5.0, 3.0], validate_every_steps=2, patience=2)
    interrupt(stopped, micro_batch=26).train()
    assert stopped.step == 6
    (run / "best").unlink()
    resumed = resume(new_trainer(run, corpus, [3.0, 4.0], validate_every_steps=2, patience=2))
    assert resumed.train() is None  # the validation that the signal ended is made up for
    assert (resumed.step, RunDirectory(run).marked("best")) == (8, 4)
    with_none_left = resume(new_trainer(run, corpus, [], validate_every_steps=2, patience=2))
    assert with_none_left.train() is None
    assert with_none_left.step == 8


def test_checkpoints_are_due_by_time_too(run: Path, new_trainer: NewTrainer) -> None:
    new_trainer(run, checkpoint_every_steps=None, checkpoint_every_minutes=1e-9, num_steps=3).train()
    assert RunDirectory(run).checkpoint_steps() == [1, 2, 3]


def test_the_last_step_is_saved_whatever_is_due(run: Path, new_trainer: NewTrainer) -> None:
    new_trainer(run, checkpoint_every_steps=None).train()
    assert RunDirectory(run).resumable_steps() == [LAST_STEP]


def test_a_finished_run_has_nothing_left_to_do(whole: Path, new_trainer: NewTrainer) -> None:
    before = {path: path.stat().st_mtime_ns for path in whole.glob("*/*/*")}
    assert resume(new_trainer(whole)).train() is None
    assert {path: path.stat().st_mtime_ns for path in whole.glob("*/*/*")} == before


def test_a_run_that_is_asked_for_fewer_updates_than_it_has_made_ends_at_once(
    run: Path, whole: Path, new_trainer: NewTrainer
) -> None:
    shutil.copytree(whole, run, dirs_exist_ok=True)
    assert resume(new_trainer(run, num_steps=5)).train() is None
    assert bits(run) == bits(whole)


def test_making_up_for_a_validation_never_leaves_the_run_without_a_checkpoint(
    run: Path, new_trainer: NewTrainer, corpus: Corpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first validation is always the best, so that its step is saved once more."""
    stopped = new_trainer(run, corpus, [1.0], checkpoint_every_steps=None, validate_every_steps=4)
    interrupt(stopped, micro_batch=17).train()  # the first forward pass of the validation
    assert RunDirectory(run).resumable_steps() == [4]
    sync = os.fsync

    def look_and_sync(file: int) -> None:
        assert RunDirectory(run).resumable_steps()
        sync(file)

    monkeypatch.setattr(os, "fsync", look_and_sync)
    resumed = resume(new_trainer(run, corpus, [1.0] * 3, checkpoint_every_steps=None, validate_every_steps=4))
    assert resumed.train() is None
    assert [event["step"] for event in events(run, "validate")] == [4, 8, 12]


def test_a_run_is_not_resumed_on_other_data(
    tmp_path: Path, whole: Path, new_trainer: NewTrainer, corpus: Corpus
) -> None:
    pairs = [(ids, ids, line) for line, ids in enumerate([[5, 6], [7], [8, 9, 10]] * 60, start=1)]
    write_store(tmp_path / "other", pairs, vocabulary_size=16)
    others = (
        replace(corpus, facts={"corpus": "changed"}),
        replace(corpus, train=PairStore(tmp_path / "other")),
    )
    for other in others:
        with pytest.raises(DataError, match=f"{whole}: was trained on other data"):
            new_trainer(whole, other).resume(LAST_STEP)


@pytest.mark.parametrize("learning_rate_factor", [1e30, 1e38])
def test_a_run_that_diverges_ends_before_anything_that_is_not_finite_is_saved(
    run: Path, new_trainer: NewTrainer, learning_rate_factor: float
) -> None:
    trainer = new_trainer(run, learning_rate_factor=learning_rate_factor, checkpoint_every_steps=1)
    with pytest.raises(
        DivergedError, match=r"updates 2 to 4 were .*all checkpoints are from before.*learning_rate_factor"
    ):
        trainer.train()
    for step in RunDirectory(run).checkpoint_steps():
        model_of(load_checkpoint(RunDirectory(run).checkpoint(step)))
    assert all(math.isfinite(event["loss"]) for event in events(run, "train"))


def spoil(trainer: Trainer, updates: set[int], spoilt_by: float = math.nan) -> Trainer:
    """Let the gradient of the output matrix be not finite in these updates."""
    for model in computing(trainer):
        model.embeddings.matrix("output").register_hook(
            lambda gradient: gradient * spoilt_by if trainer.step + 1 in updates else gradient
        )
    return trainer


@pytest.mark.parametrize("spoilt_by", [math.nan, math.inf, 1e22])
def test_an_update_that_is_not_finite_is_skipped_and_the_run_goes_on(
    run: Path, new_trainer: NewTrainer, spoilt_by: float
) -> None:
    """Promise: Numbers."""
    trainer = spoil(new_trainer(run, checkpoint_every_steps=1, keep_checkpoints=12), {5, 6, 9}, spoilt_by)
    assert trainer.train() is None
    assert [event["text"] for event in events(run, "notice")] == [
        "skipped 1 update whose gradient was not finite or too large"
    ] * 3
    directory = RunDirectory(run)
    weights = [sha256_of(directory.checkpoint(step + 1) / "model.safetensors") for step in range(LAST_STEP)]
    unchanged = [step for step in range(2, LAST_STEP + 1) if weights[step - 1] == weights[step - 2]]
    assert unchanged == [5, 6, 9]
    assert {int(entry["step"]) for entry in trainer.optimizer.state.values()} == {LAST_STEP - 3}


def test_a_skipped_update_is_counted_across_a_resume(run: Path, new_trainer: NewTrainer) -> None:
    """Promise: Numbers."""
    spoil(new_trainer(run, num_steps=4), {3, 4}).train()
    with pytest.raises(DivergedError, match="updates 3 to 5 were not finite"):
        spoil(resume(new_trainer(run)), {5}).train()


def test_three_updates_in_a_row_that_are_not_finite_end_a_run_naming_module_and_lines(
    run: Path, new_trainer: NewTrainer, corpus: Corpus
) -> None:
    """Promise: Numbers."""
    trainer = new_trainer(run)

    def overflow(module: nn.Module, inputs: tuple[Tensor], output: Tensor) -> Tensor | None:
        """Stands for a layer that cannot bear updates 6 and 7, and one micro-batch of update 8."""
        spoilt = trainer.step in (5, 6) or (trainer.step >= 7 and output.shape[:2] == shape)
        return output * math.inf if spoilt else None

    planned = next(trainer.schedule.batches_from(7))
    lengths = [1 + int(corpus.train.target_lengths[pairs].max()) for pairs in planned.micro_batches]
    shape = (len(planned.micro_batches[1]), lengths[1])
    for model in (*computing(trainer), trainer.model):  # the update is repeated with the latter
        model.get_submodule("decoder.0.feed_forward.inner").register_forward_hook(overflow)
    with pytest.raises(DivergedError) as error:
        trainer.train()
    lines = sorted(corpus.train.line_numbers[planned.micro_batches[1]].tolist())
    assert "updates 6 to 8 were not finite" in error.value.messages[0]
    assert "the output of decoder.0.feed_forward.inner is not finite on lines" in error.value.messages[0]
    assert f"lines {', '.join(map(str, lines))} of the training text" in error.value.messages[0]
    assert {int(entry["step"]) for entry in trainer.optimizer.state.values()} == {5}


def test_a_checkpoint_that_is_not_finite_is_not_resumed(
    run: Path, whole: Path, new_trainer: NewTrainer
) -> None:
    shutil.copytree(whole, run, dirs_exist_ok=True)
    path = RunDirectory(run).checkpoint(LAST_STEP)
    checkpoint = load_checkpoint(path)
    name, weight = next(iter(checkpoint.weights.items()))
    weight[0] = math.nan
    shutil.rmtree(path)
    save_checkpoint(path, checkpoint.config, checkpoint.weights, checkpoint.attachments, {})
    with pytest.raises(ModelError, match=f"{name} holds values that are not finite"):
        new_trainer(run).resume(LAST_STEP)
