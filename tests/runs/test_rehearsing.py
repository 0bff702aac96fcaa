"""A rehearsal counts what training then does, refuses what training would refuse, and writes nothing.

Times that are estimates are told as roughly as they are known.
"""

import fcntl
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from torch.utils.flop_counter import FlopCounterMode

from allyouneed import RunConfig, train
from allyouneed.data.batch_plans import make_batch, plan_epoch
from allyouneed.errors import DiskError, LockedError, UsageError
from allyouneed.model.transformer import Transformer
from allyouneed.preparation.prepared_data import PreparedData
from allyouneed.runs import pace
from allyouneed.runs.pace import about
from allyouneed.runs.rehearsing import Rehearsal, rehearse
from allyouneed.storage.run_log import read_log
from allyouneed.symbols import PADDING
from allyouneed.training.update import accumulate_gradient

CONFIG = RunConfig().replace(
    model={"d_model": 16, "d_ff": 32, "num_heads": 2, "num_layers": 1},
    training={
        "batch_tokens": 300,
        "micro_batch_tokens": 100,
        "num_steps": 30,
        "precision": "float32",
        "checkpoint_every_steps": 10,
        "keep_checkpoints": 2,
        "warmup_steps": 100,
    },
)


@pytest.fixture(scope="module", autouse=True)
def _short() -> object:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pace, "_WARM_UP_SECONDS", 0.1)
        yield


@pytest.fixture(scope="module")
def rehearsed(toy_data: Path) -> Rehearsal:
    return rehearse(toy_data.with_name("never"), toy_data, CONFIG)


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory, toy_data: Path) -> Path:
    """The run that was rehearsed; not to be changed."""
    run = tmp_path_factory.mktemp("rehearsed") / "run"
    train(run, toy_data, CONFIG)
    return run


def test_nothing_is_written(rehearsed: Rehearsal, toy_data: Path) -> None:
    assert not toy_data.with_name("never").exists()


def test_the_configuration_and_the_parameters_are_those_of_the_run(
    rehearsed: Rehearsal, trained: Path
) -> None:
    start = next(event for event in read_log(trained / "log.jsonl") if event["event"] == "start")
    assert rehearsed.parameters == start["parameters"]
    assert rehearsed.config == RunConfig.from_toml(trained / "config.toml")


def test_an_epoch_is_what_its_batches_hold_and_pytorch_counts(rehearsed: Rehearsal, toy_data: Path) -> None:
    store, training = PreparedData(toy_data).train, CONFIG.training
    plan = plan_epoch(
        store.source_lengths,
        store.target_lengths,
        batch_tokens=300,
        micro_batch_tokens=100,
        seed=training.seed,
        epoch=0,
    )
    batches = [make_batch(store, pairs) for i in range(plan.num_batches) for pairs in plan.batch(i)]
    model = Transformer(rehearsed.config.model).train()
    with FlopCounterMode(display=False) as counter:
        for batch in batches:
            accumulate_gradient(model, batch, batch.num_target_tokens, 0.1, "float32")
    source, target = [batch.source for batch in batches], [batch.target_output for batch in batches]
    real = [int(sum((ids != PADDING).sum() for ids in side)) for side in (source, target)]
    computed = sum(ids.size for ids in source + target)
    epoch = rehearsed.epoch
    assert (epoch.source_tokens, epoch.target_tokens) == tuple(real)
    assert (epoch.pairs, epoch.micro_batches) == (sum(map(len, source)), len(batches))
    assert epoch.updates == plan.num_batches
    assert epoch.padding_share == pytest.approx(1 - sum(real) / computed)
    assert epoch.flops == counter.get_total_flops()


def test_the_whole_run_is_its_updates_at_the_measured_speed(rehearsed: Rehearsal) -> None:
    epochs = 30 / rehearsed.epoch.updates
    assert (rehearsed.updates, rehearsed.epochs) == (30, epochs)
    assert rehearsed.training_flops == pytest.approx(epochs * rehearsed.epoch.flops)
    tokens = epochs * rehearsed.epoch.target_tokens
    assert rehearsed.training_seconds == pytest.approx(tokens / rehearsed.speed.target_tokens_per_second)
    assert 0 < rehearsed.speed.share_of_peak < 1


def test_several_updates_are_timed_but_for_long_ones_only_one(
    toy_data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pace, "_WARM_UP_SECONDS", 0.0)
    assert rehearse(toy_data.with_name("never"), toy_data, CONFIG).speed.updates == 5
    monkeypatch.setattr(pace, "_MOST_WARM_UP_SECONDS", 0.0)
    assert rehearse(toy_data.with_name("never"), toy_data, CONFIG).speed.updates == 1


@pytest.mark.parametrize("limit", ["budget_flops", "budget_seconds"])
def test_a_budget_ends_the_run_where_it_is_spent(rehearsed: Rehearsal, limit: str) -> None:
    whole = {"budget_flops": rehearsed.training_flops, "budget_seconds": rehearsed.training_seconds}
    for share, updates, ends_by in ((0.49, 15, limit), (2.0, 30, "num_steps")):
        config = rehearsed.config.replace(training={limit: share * whole[limit]})
        found = replace(rehearsed, config=config)
        assert (found.updates, found.limit) == (updates, ends_by)
    assert rehearsed.limit == "num_steps"


def test_the_disk_holds_what_was_told_before(rehearsed: Rehearsal, trained: Path) -> None:
    (checkpoint, *_), (state, *_) = (
        sorted(trained.glob(f"{kind}/*/*.safetensors")) for kind in ("checkpoints", "state")
    )
    assert checkpoint.stat().st_size == pytest.approx(rehearsed.disk.checkpoint_bytes, rel=0.15)
    assert state.stat().st_size == pytest.approx(rehearsed.disk.state_bytes, rel=0.15)
    held = sum(path.stat().st_size for path in trained.rglob("*.safetensors"))
    assert 0.3 * rehearsed.disk.most_bytes < held < 1.15 * rehearsed.disk.most_bytes


def test_a_run_that_would_be_resumed_has_the_rest_before_it(trained: Path, toy_data: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in trained.rglob("*")}
    longer = CONFIG.replace(training={"num_steps": 50})
    found = rehearse(trained, toy_data, longer, resume=True)
    assert (found.steps_done, found.updates) == (30, 20)
    assert {path: path.stat().st_mtime_ns for path in trained.rglob("*")} == before
    with pytest.raises(UsageError, match="exists; continue with resume"):
        rehearse(trained, toy_data, CONFIG)


def test_a_run_that_is_training_is_told(trained: Path, toy_data: Path) -> None:
    with (trained / "lock").open("rb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(LockedError, match=r"process \d+ on .* is training here"):
            rehearse(trained, toy_data, resume=True)


def test_a_disk_without_room_is_told(tmp_path: Path, toy_data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    total, used, _ = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: shutil._ntuple_diskusage(total, used, 1000))
    with pytest.raises(DiskError, match=r"needs [\d,]+ bytes; 1,000 bytes are free there"):
        rehearse(tmp_path / "run", toy_data, CONFIG)


@pytest.mark.parametrize(
    ("seconds", "told"),
    [
        (0.04, "about 0.04 seconds"),
        (1, "about 1 second"),
        (89, "about 89 seconds"),
        (719.8, "about 12 minutes"),
        (23_318, "about 6.5 hours"),
        (129_600, "about 1.5 days"),
        (1e9, "about 12,000 days"),
        (float("inf"), "over 1,000 years"),
    ],
)
def test_an_estimate_has_two_digits(seconds: float, told: str) -> None:
    assert about(seconds) == told
