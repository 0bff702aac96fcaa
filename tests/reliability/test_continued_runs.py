"""Runs that continue a model, replay other data and freeze parameters keep the promises of all runs."""

import os
import random
import shutil
import signal
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.forking.forker import Forker, Program
from tests.reliability.test_processes import Launched, losses, wait_for_step
from tests.reliability.test_system_calls import Subject, calls_of, traced

from allyouneed.config.run import RunConfig
from allyouneed.data.corpus_files import CorpusFiles
from allyouneed.storage.run_directory import RunDirectory

if TYPE_CHECKING:
    from tests.reliability.conftest import Laboratory

Record = Callable[[str, object], None]


@dataclass(frozen=True)
class Continued:
    """Starts runs that continue a model, each of which has to end as the one that nothing disturbs."""

    laboratory: "Laboratory"
    model: Path

    def start(self, run: Path, model: Path) -> Program:
        """Begin or go on with the run; without the copy of the model and any other option if it is gone."""
        if model.exists():
            return self.laboratory.start(run, "--init-from", model)
        data = ("--data", self.laboratory.folder / "data")
        return self.laboratory.forker.start("train", run, *data, "--device", "cpu", "--resume")

    def copy(self, path: Path) -> Path:
        """A copy of the model."""
        return Path(shutil.copytree(self.model, path))


@pytest.fixture(scope="module")
def continued(
    tmp_path_factory: pytest.TempPathFactory, forker: Forker, laboratory: "Laboratory", toy_text: Path
) -> Continued:
    """The laboratory's model goes on with the other direction of its text, and replays its own."""
    folder = tmp_path_factory.mktemp("continued")
    checkpoint = RunDirectory(laboratory.whole).checkpoint(50)
    model = Path(shutil.copytree(checkpoint, folder / "model"))
    replay = {"replay": str(laboratory.folder / "data"), "replay_share": 0.25}
    config = RunConfig.from_toml(laboratory.folder / "config.toml").replace(
        training={"init_from": str(model), "frozen": ["encoder.0.feed_forward.*"], **replay}
    )
    files = CorpusFiles(toy_text / "train.toy", toy_text / "train.en")
    return Continued(type(laboratory).build(forker, folder, files, CorpusFiles(), config), model)


@pytest.mark.parametrize("num_runs", [1, pytest.param(25, marks=pytest.mark.release)])
def test_a_killed_run_that_continues_a_model_ends_with_the_same_bits_without_the_model(
    continued: Continued, tmp_path: Path, num_runs: int, record_property: Record
) -> None:
    """Promise: Continued models."""
    laboratory, draw = continued.laboratory, random.Random(1)
    for number in range(num_runs):
        run, model = tmp_path / f"run-{number}", continued.copy(tmp_path / "model")
        for event, step in (("start", 0), ("train", draw.randint(1, 45))):
            program = continued.start(run, model)
            laboratory.wait_for(run, event, step)
            program.signal(signal.SIGKILL)
            assert program.wait() == -signal.SIGKILL, program.said()
            laboratory.require_sound(run)
            if RunDirectory(run).resumable_steps():
                shutil.rmtree(model, ignore_errors=True)
        assert not model.exists()
        program = continued.start(run, model)
        assert program.wait() == 0, program.said()
        assert laboratory.bits(run) == laboratory.bits(laboratory.whole)
    record_property("kill -9", 2 * num_runs)


@pytest.mark.parametrize("num_points", [2, pytest.param(None, marks=pytest.mark.release)])
def test_a_kill_at_a_call_while_a_model_is_taken_over_leaves_a_run_that_ends_with_the_same_bits(
    continued: Continued, tmp_path: Path, num_points: int | None, record_property: Record
) -> None:
    """Promise: Continued models."""
    if shutil.which("strace") is None:
        pytest.skip("NOT RUN: needs strace")
    laboratory, whole = continued.laboratory, tmp_path / "whole"
    program, trace = traced(laboratory, whole, ("--steps", "1"))
    assert program.wait() == 0, program.said()
    calls = Subject(whole, calls_of(trace, whole)).calls_for("signal=KILL", num_points)
    codes: Counter[int] = Counter()
    for number, call in enumerate(calls):
        run = tmp_path / f"run-{number}"
        program, _ = traced(laboratory, run, ("--steps", "1"), f"{call.name}:signal=KILL:when={call.when}")
        codes[program.wait()] += 1
        laboratory.require_sound(run)
        laboratory.finish(run)
        shutil.rmtree(run)
    assert codes == {-signal.SIGKILL: len(calls)}
    record_property("kill -9", len(calls))


@pytest.mark.release
def test_two_processes_continue_a_model_as_one_does_and_end_with_the_same_bits_after_a_kill(
    continued: Continued, tmp_path: Path
) -> None:
    """Promise: Continued models."""
    laboratory = continued.laboratory
    ends = []
    for name, restarts in (("whole", 0), ("killed", 3)):
        run, model = tmp_path / name, continued.copy(tmp_path / "model")
        program = ("-m", "allyouneed", *laboratory.arguments(run, "--init-from", model))
        output = tmp_path / f"{name}.txt"
        launched = Launched(laboratory.forker, 2, *program, restarts=restarts, output=output)
        try:
            wait_for_step(run, 5, launched)
            shutil.rmtree(model)
            if restarts:
                os.kill(launched.pid_of(1), signal.SIGKILL)
            assert launched.wait() == 0, launched.said()
        finally:
            launched.kill()
        ends.append(laboratory.bits(run))
    assert ends[0] == ends[1]
    alone, two = losses(laboratory.whole), losses(tmp_path / "whole")
    assert two[0] == pytest.approx(alone[0], rel=1e-6, abs=0)
    assert two[:10] == pytest.approx(alone[:10], rel=1e-3)
