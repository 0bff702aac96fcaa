"""SIGTERM and SIGINT, at any time: everything is saved at the exact step, soon, and the run can go on."""

import json
import random
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from allyouneed.config.run import RunConfig
from allyouneed.data.corpus_files import CorpusFiles
from allyouneed.storage.run_directory import RunDirectory

if TYPE_CHECKING:
    from tests.reliability.conftest import Laboratory

Record = Callable[[str, object], None]

LAST_STEP = 50


@pytest.fixture(scope="module")
def validating(
    laboratory: "Laboratory", tmp_path_factory: pytest.TempPathFactory, toy_text: Path
) -> "Laboratory":
    """As the laboratory, but with a validation every 20 steps that takes far longer than a step."""
    folder = tmp_path_factory.mktemp("validating")
    train = CorpusFiles(toy_text / "train.en", toy_text / "train.toy")
    valid = CorpusFiles([toy_text / "train.en"] * 5, [toy_text / "train.toy"] * 5)
    config = RunConfig.from_toml(laboratory.folder / "config.toml")
    config = config.replace(training={"validate_every_steps": 20})
    return type(laboratory).build(laboratory.forker, folder, train, valid, config)


def stop_cleanly(laboratory: "Laboratory", run: Path, after_step: int, number: signal.Signals) -> int:
    """Start or resume, stop by a signal once `after_step` is done, and return the step that was saved."""
    program = laboratory.start(run)
    laboratory.wait_for(run, "train", after_step)
    time.sleep(random.uniform(0, 0.02))  # somewhere in the accumulation of the next step, or in a save
    assert laboratory.stop(program, run, number) == 128 + number, program.said()
    assert f"{run}: stopped by {number.name} with everything saved; continue with --resume" in program.said()
    ended = json.loads((run / "exit.json").read_bytes())
    done = laboratory.logged(run, "train")[-1]
    assert ended == {"code": 128 + number, "step": done, "reason": number.name}
    assert RunDirectory(run).marked("latest") == done
    assert RunDirectory(run).resumable_steps()[-1] == done
    laboratory.require_sound(run)
    return done


@pytest.mark.parametrize(
    ("number", "num_signals"),
    [
        (signal.SIGTERM, 4),
        (signal.SIGINT, 1),
        (signal.SIGHUP, 1),
        pytest.param(signal.SIGTERM, 20, marks=pytest.mark.release),
        pytest.param(signal.SIGINT, 20, marks=pytest.mark.release),
    ],
)
def test_a_signal_at_a_random_time_saves_the_exact_step_and_no_step_is_lost_or_done_twice(
    laboratory: "Laboratory",
    tmp_path: Path,
    number: signal.Signals,
    num_signals: int,
    record_property: Record,
) -> None:
    """Promise: Signals."""
    signals = 0
    while signals < num_signals:
        run, step = tmp_path / f"run-{signals}", 0
        while signals < num_signals and step < LAST_STEP - 15:
            step = stop_cleanly(laboratory, run, step + random.randint(1, 12), number)
            signals += 1
        laboratory.finish(run)
        assert laboratory.logged(run, "train") == [*range(1, LAST_STEP + 1)]
    record_property(number.name, signals)


def test_ten_successive_resumes_within_one_epoch_end_with_the_same_bits(
    laboratory: "Laboratory", tmp_path: Path, record_property: Record
) -> None:
    """Promise: Signals."""
    run, step = tmp_path / "run", 0
    for _ in range(10):
        step = stop_cleanly(laboratory, run, step + 1, signal.SIGTERM)
        progress = json.loads((RunDirectory(run).state(step) / "state.json").read_bytes())
        assert (progress["position"]["epoch"], progress["position"]["step"]) == (0, step)
    laboratory.finish(run)
    assert laboratory.logged(run, "train") == [*range(1, LAST_STEP + 1)]
    record_property("resumes in one epoch", 10)


@pytest.mark.parametrize("num_pairs", [2, pytest.param(20, marks=pytest.mark.release)])
def test_a_second_signal_stops_at_once_and_leaves_a_run_that_ends_with_the_same_bits(
    laboratory: "Laboratory", tmp_path: Path, num_pairs: int, record_property: Record
) -> None:
    """Promise: Signals."""
    for pair in range(num_pairs):
        run = tmp_path / f"run-{pair}"
        program = laboratory.start(run)
        laboratory.wait_for(run, "train", random.randint(1, 35))
        numbers = random.choices([signal.SIGTERM, signal.SIGINT], k=2)
        program.signal(numbers[0])
        time.sleep(0.1 if pair == 0 else random.uniform(0, 0.1))
        program.signal(numbers[1])
        assert program.wait() in {128 + number for number in numbers}, program.said()
        laboratory.require_sound(run)
        assert not list(run.rglob("*.tmp-*"))
        laboratory.finish(run)
    record_property("pairs of signals", num_pairs)


@pytest.mark.parametrize("num_signals", [3, pytest.param(30, marks=pytest.mark.release)])
def test_a_signal_while_a_run_starts_ends_it_at_once(
    laboratory: "Laboratory", tmp_path: Path, num_signals: int, record_property: Record
) -> None:
    """Promise: Signals."""
    run = tmp_path / "run"
    for _ in range(num_signals):
        program = laboratory.start(run)
        time.sleep(random.uniform(0, 0.15))
        # Before the program has read its arguments the system's own handler ends it: 143 to a shell, too.
        ended = laboratory.stop(program, run, signal.SIGTERM)
        assert ended in (128 + signal.SIGTERM, -signal.SIGTERM), program.said()
        laboratory.require_sound(run)
    laboratory.finish(run)
    record_property("SIGTERM at the start", num_signals)


@pytest.mark.parametrize("num_signals", [1, pytest.param(10, marks=pytest.mark.release)])
def test_a_signal_during_validation_saves_the_step_and_the_run_ends_with_the_same_bits(
    validating: "Laboratory", tmp_path: Path, num_signals: int, record_property: Record
) -> None:
    """Promise: Signals."""
    for number in range(num_signals):
        run, step = tmp_path / f"run-{number}", random.choice([20, 40])
        program = validating.start(run)
        validating.wait_for(run, "train", step)  # logged when the validation begins
        time.sleep(random.uniform(0, 0.1))
        assert step not in validating.logged(run, "validate")
        assert validating.stop(program, run, signal.SIGTERM) == 128 + signal.SIGTERM, program.said()
        assert RunDirectory(run).marked("latest") == step
        assert step not in validating.logged(run, "validate")  # given up, and made up for afterwards
        validating.require_sound(run)
        validating.finish(run)
        assert sorted(set(validating.logged(run, "validate"))) == [20, 40, 50]
    record_property("SIGTERM in a validation", num_signals)
