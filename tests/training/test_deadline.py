"""A run that would be late moves its end once, to what it can still do; a run in time never does."""

import pytest

from allyouneed.config.run import TrainingConfig
from allyouneed.errors import UsageError
from allyouneed.training.deadline import SHARE_OF_UPDATES, Deadline
from allyouneed.training.optimizer import linear_decay

PLANNED = 3_600.0
TRAINING = TrainingConfig(num_steps=8_800, planned_seconds=PLANNED, schedule="linear_decay", warmup_steps=800)
"""Planned at 2.78 updates a second."""


def simulate(seconds_of: object, training: TrainingConfig = TRAINING) -> tuple[TrainingConfig, float]:
    """What becomes of the settings, and when the run ends, if update n takes `seconds_of(n)` seconds."""
    deadline, seconds, step = Deadline(), 0.0, 0
    while step < training.num_steps:
        step += 1
        seconds += seconds_of(step)  # type: ignore[operator]
        if step % 220 == 0:
            end = deadline.fitting_end(step, seconds, training, most_steps=20_000)
            if end != training.num_steps:
                moved = {"num_steps": end, "moved_end": (step, training.num_steps)}
                training = training.model_copy(update=moved)
    return training, seconds


PACE = SHARE_OF_UPDATES * PLANNED / TRAINING.num_steps


def test_a_run_at_the_planned_pace_keeps_its_end() -> None:
    training, seconds = simulate(lambda step: PACE)
    assert training == TRAINING
    assert seconds == pytest.approx(SHARE_OF_UPDATES * PLANNED)


def test_a_machine_that_becomes_three_times_slower_half_way_ends_in_time() -> None:
    training, seconds = simulate(lambda step: PACE if step <= 4_400 else 3 * PACE)
    moved_at, before = training.moved_end
    assert before == 8_800
    assert moved_at == 4_840  # after two slow intervals
    assert 0.9 * PLANNED < seconds <= PLANNED


def test_a_machine_that_becomes_slower_step_by_step_ends_in_time() -> None:
    training, seconds = simulate(lambda step: 1.1 * PACE if step <= 4_400 else 1.25 * PACE)
    assert training.moved_end == (4_840, 8_800)
    assert 0.9 * PLANNED < seconds <= PLANNED


def test_a_machine_that_is_slower_from_the_start_ends_in_time() -> None:
    training, seconds = simulate(lambda step: 2 * PACE)
    assert training.moved_end == (440, 8_800)
    assert 0.9 * PLANNED < seconds <= PLANNED


def test_a_machine_that_was_disturbed_while_it_was_measured_uses_its_time() -> None:
    training, seconds = simulate(lambda step: PACE / 2)
    assert training.moved_end == (440, 8_800)
    assert 17_600 < training.num_steps < 20_000
    assert 0.9 * PLANNED < seconds <= PLANNED
    assert simulate(lambda step: PACE / 4)[0].num_steps == 20_000


def test_a_run_is_not_made_longer_by_a_few_updates() -> None:
    early = TRAINING.model_copy(update={"planned_seconds": 10 * PLANNED})
    deadline = Deadline(0, 0.0)
    ends = [deadline.fitting_end(step, step * PACE, early, most_steps=9_000) for step in (220, 440, 660)]
    assert ends == [8_800] * 3
    assert deadline.fitting_end(880, 880 * PACE, early, most_steps=9_500) == 9_500


def test_a_run_that_is_a_little_early_keeps_its_end() -> None:
    assert simulate(lambda step: 0.9 * PACE)[0] == TRAINING


def test_a_short_disturbance_moves_nothing() -> None:
    assert simulate(lambda step: 10 * PACE if 4_000 < step <= 4_050 else PACE)[0] == TRAINING


def test_an_end_is_moved_once_and_only_where_there_is_a_plan() -> None:
    moved = TRAINING.model_copy(update={"moved_end": (100, 9_000)})
    assert simulate(lambda step: 3 * PACE, moved)[0] == moved
    unplanned = TRAINING.model_copy(update={"planned_seconds": None})
    assert simulate(lambda step: 3 * PACE, unplanned)[0] == unplanned


def test_the_rate_falls_in_a_line_to_zero_and_from_where_the_end_was_moved_in_a_steeper_one() -> None:
    rates = [linear_decay(step, 128, TRAINING) for step in range(1, 8_802)]
    assert max(rates) == rates[799] == pytest.approx(128**-0.5 * 800**-0.5)
    assert rates[399] == pytest.approx(rates[799] / 2)
    assert rates[-1] == pytest.approx(0.0)
    assert rates[4_799] == pytest.approx(rates[799] * (8_801 - 4_800) / 8_001)
    moved = TRAINING.model_copy(update={"num_steps": 6_800, "moved_end": (4_800, 8_800)})
    late = [linear_decay(step, 128, moved) for step in range(1, 6_802)]
    assert late[:4_800] == rates[:4_800]
    assert late[5_800] == pytest.approx(late[4_799] * (6_801 - 5_801) / 2_001)
    assert late[-1] == pytest.approx(0.0)


def test_a_run_that_is_shorter_than_its_warm_up_begins_at_the_rate_of_its_end() -> None:
    short = TRAINING.model_copy(update={"num_steps": 10})
    assert all(linear_decay(step, 128, short) > 0 for step in range(1, 11))


def test_a_plan_is_for_schedules_that_end() -> None:
    with pytest.raises(UsageError, match="are for schedules that end; take linear_decay"):
        TrainingConfig.checked(planned_seconds=60.0)
