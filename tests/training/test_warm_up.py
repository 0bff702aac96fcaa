"""A warm-up that does not fit the length of a run is told before the run, and again at its end."""

from pathlib import Path

import pytest

from allyouneed.config.run import TrainingConfig
from allyouneed.storage.run_log import Event
from allyouneed.training.optimizer import WarmUpWatch, inverse_square_root, warm_up_remark

TRAINING = TrainingConfig(num_steps=8_000, warmup_steps=2_000, learning_rate_factor=2.5)
RUN = Path("runs/first")


@pytest.fixture
def said() -> list[str]:
    return []


def event(name: str, step: int, used: dict[str, float] | None = None) -> Event:
    return {"event": name, "step": step, **(used or {})}


def start(**budgets: float) -> Event:
    return event("start", 0) | {"budgets": {name: (0.0, budget) for name, budget in budgets.items()}}


def test_two_fifths_of_the_run_may_be_warm_up_and_no_more() -> None:
    assert warm_up_remark(TRAINING, 5_000) == ""
    assert warm_up_remark(TRAINING, 4_999) == (
        "training.warmup_steps = 2,000 is too long for a run of 4,999 updates; train longer, or train a new "
        "run with training.warmup_steps=999 and training.learning_rate_factor=1.8"
    )
    assert "a run of 1 update; " in warm_up_remark(TRAINING, 1)


def test_the_proposed_settings_fit_and_have_the_same_peak() -> None:
    remark = warm_up_remark(TRAINING, 187)
    assert remark.endswith("training.warmup_steps=37 and training.learning_rate_factor=0.34")
    proposed = TRAINING.model_copy(update={"warmup_steps": 37, "learning_rate_factor": 0.34})
    assert warm_up_remark(proposed, 187) == ""
    peaks = [inverse_square_root(each.warmup_steps, 128, each) for each in (TRAINING, proposed)]
    assert peaks[0] == pytest.approx(peaks[1], rel=0.02)


def test_a_number_of_updates_is_judged_at_the_start_and_at_the_end(said: list[str]) -> None:
    watch = WarmUpWatch(RUN, TRAINING.model_copy(update={"num_steps": 187}), said.append)
    for seen in start(), event("train", 50), event("train", 100):
        watch.see(seen)
    assert len(said) == 1
    assert said[0].startswith(
        "runs/first: training.warmup_steps = 2,000 is too long for a run of 187 updates"
    )
    watch.end(187)
    assert said == [said[0]] * 2


@pytest.mark.parametrize("name", ["seconds", "matmul_flops"])
def test_a_budget_is_judged_once_enough_of_it_is_used(said: list[str], name: str) -> None:
    watch = WarmUpWatch(RUN, TRAINING, said.append)
    for seen in start(**{name: 720.0}), event("train", 3, {name: 10.0}), event("validate", 3):
        watch.see(seen)
    assert said == []  # what was measured may be too little
    watch.see(event("train", 11, {name: 40.0}))
    watch.see(event("train", 187, {name: 719.0}))
    assert len(said) == 1
    assert "is too long for a run of 200 updates; " in said[0]
    watch.end(187)
    assert "is too long for a run of 187 updates; " in said[1]


def test_a_resumed_run_is_judged_at_its_end_only(said: list[str]) -> None:
    watch = WarmUpWatch(RUN, TRAINING, said.append)
    for seen in start(seconds=720.0) | {"step": 100}, event("train", 150, {"seconds": 600.0}):
        watch.see(seen)
    assert said == []
    watch.end(187)
    assert len(said) == 1


def test_a_budget_in_which_the_warm_up_fits_is_not_remarked(said: list[str]) -> None:
    watch = WarmUpWatch(RUN, TRAINING, said.append)
    for seen in start(seconds=720.0), event("train", 500, {"seconds": 40.0}), event("checkpoint", 500):
        watch.see(seen)
    watch.end(8_000)
    assert said == []
