"""Any number of processes makes the same updates; one that dies or hangs is found out, and costs little."""

import contextlib
import json
import os
import re
import signal
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.forking.forker import Forker
from tests.patience import PATIENCE_SECONDS, wait_until

from allyouneed.config.run import RunConfig
from allyouneed.storage.run_log import read_log

if TYPE_CHECKING:
    from tests.reliability.conftest import Laboratory

NUM_UPDATES = 20
MOST_SECONDS_TO_BE_BACK = 15.0
MOST_SECONDS_TO_NAME_A_HANGING_PROCESS = 120.0


class Launched:
    """A `torchrun` with its processes."""

    def __init__(
        self, forker: Forker, num_processes: int, *program: str | Path, restarts: int = 0, output: Path
    ) -> None:
        self._launcher = forker.start(
            *("--standalone", "--nproc-per-node", str(num_processes), "--max-restarts", str(restarts)),
            *program,
            output=output,
            environment={"OMP_NUM_THREADS": "1"},
            is_launcher=True,
        )
        self._code: int | None = None

    def wait(self) -> int:
        """The exit code of the launcher; one that hangs is a failure."""
        if self._code is None:
            wait_until(self._launcher.has_ended, self.said, pause_seconds=0.02)
            self._code = self._launcher.wait()
        return self._code

    def said(self) -> str:
        return self._launcher.said()

    def signal_all(self, number: int) -> None:
        """Send a signal to the launcher and to all its processes, as a batch system does.

        The launcher passes it on, so that a process gets it twice.
        """
        for pid in (*self._pids().values(), self._launcher.pid):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)

    def pid_of(self, rank: int) -> int:
        """The process of this rank."""
        return self._pids()[rank]

    def _pids(self) -> dict[int, int]:
        """Rank -> process."""
        pids = {}
        for folder in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                parent = int(folder.joinpath("stat").read_bytes().rpartition(b")")[2].split()[1])
                found = re.search(rb"(?:^|\0)RANK=(\d+)\0", folder.joinpath("environ").read_bytes())
                if parent == self._launcher.pid and found:
                    pids[int(found[1])] = int(folder.name)
        return pids

    def kill(self) -> None:
        """Leave nothing behind."""
        if self._code is None:
            self.signal_all(signal.SIGKILL)
            self._code = self._launcher.wait()


Launch = Callable[..., Launched]


@pytest.fixture
def launch(forker: Forker, tmp_path: Path) -> Iterator[Launch]:
    """Starts programs under `torchrun`."""
    launched: list[Launched] = []

    def start(num_processes: int, *program: str | Path, restarts: int = 0) -> Launched:
        output = tmp_path / f"launched-{len(launched)}.txt"
        launched.append(Launched(forker, num_processes, *program, restarts=restarts, output=output))
        return launched[-1]

    yield start
    for one in launched:
        one.kill()


@pytest.fixture
def train(launch: Launch, laboratory: "Laboratory") -> Launch:
    """Starts `allyouneed train RUN OPTIONS` under `torchrun`."""

    def start(num_processes: int, run: Path, *options: str | Path, restarts: int = 0) -> Launched:
        program = ("-m", "allyouneed", *laboratory.arguments(run, *options))
        return launch(num_processes, *program, restarts=restarts)

    return start


@pytest.fixture(scope="session")
def whole_of_two(laboratory: "Laboratory") -> str:
    """What a run in two processes ends with that nothing disturbs."""
    run = laboratory.folder / "whole-of-two"
    program = ("-m", "allyouneed", *laboratory.arguments(run))
    launched = Launched(laboratory.forker, 2, *program, output=run.with_suffix(".txt"))
    assert launched.wait() == 0, launched.said()
    return laboratory.bits(run)


def losses(run: Path) -> list[float]:
    """The loss of every update."""
    return [event["loss"] for event in read_log(run / "log.jsonl") if event["event"] == "train"]


def wait_for_step(run: Path, step: int, launched: Launched) -> None:
    """Return when the update of this number has been logged."""
    log = run / "log.jsonl"
    wait_until(
        lambda: log.exists() and any(event.get("step", 0) >= step for event in read_log(log)),
        launched.said,
        pause_seconds=0.02,
    )


def num_starts(run: Path) -> int:
    return sum(event["event"] == "start" for event in read_log(run / "log.jsonl"))


def wait_for_starts(run: Path, number: int, launched: Launched, seconds: float) -> float:
    """Return when the run has been started so many times, with the seconds that it took."""
    return wait_until(lambda: num_starts(run) >= number, launched.said, seconds=seconds, pause_seconds=0.02)


@dataclass(frozen=True)
class Exact:
    """Trains in float64, where rounding makes no difference, and looks at the losses."""

    launch: Launch
    laboratory: "Laboratory"
    folder: Path

    def losses(self, num_processes: int, *, sharded: bool = False) -> list[float]:
        """Those of all updates."""
        script, run = Path(__file__).with_name("train_exactly.py"), self.folder / f"exact-{num_processes}"
        data, config = (self.laboratory.folder / name for name in ("data", "config.toml"))
        changed = RunConfig.from_toml(config).replace(training={"num_steps": NUM_UPDATES, "sharded": sharded})
        run.with_suffix(".toml").write_text(changed.to_toml())
        launched = self.launch(num_processes, script, run, data, run.with_suffix(".toml"))
        assert launched.wait() == 0, launched.said()
        found = losses(run)
        assert len(found) == NUM_UPDATES
        return found


@pytest.mark.slow
@pytest.mark.parametrize(
    ("num_processes", "sharded"),
    [(3, True), (2, False), (4, False)],
)
@pytest.mark.release
def test_one_process_and_several_make_the_same_updates_also_with_a_sharded_model(
    launch: Launch, laboratory: "Laboratory", tmp_path: Path, num_processes: int, sharded: bool
) -> None:
    """Three processes share four micro-batches, so that two of them compute one for nothing.

    Promise: Equal updates.
    """
    exact = Exact(launch, laboratory, tmp_path)
    alone = exact.losses(1)
    assert exact.losses(num_processes, sharded=sharded) == pytest.approx(alone, rel=1e-9, abs=0)


def test_one_process_and_two_make_the_same_first_update_in_single_precision(
    laboratory: "Laboratory", whole_of_two: str
) -> None:
    """Promise: Equal updates."""
    alone, two = (losses(laboratory.folder / name)[0] for name in ("whole", "whole-of-two"))
    assert two == pytest.approx(alone, rel=1e-6, abs=0)


@pytest.mark.parametrize(
    ("kills", "seconds"),
    [(1, PATIENCE_SECONDS), pytest.param(20, MOST_SECONDS_TO_BE_BACK, marks=pytest.mark.release)],
)
def test_a_killed_process_is_replaced_in_time_and_the_run_ends_with_the_same_bits(
    train: Launch,
    laboratory: "Laboratory",
    whole_of_two: str,
    tmp_path: Path,
    kills: int,
    seconds: float,
    record_property: Callable[[str, object], None],
) -> None:
    """Promise: Lost processes."""
    slowest = 0.0
    for number in range(kills):
        run = tmp_path / f"run-{number}"
        launched = train(2, run, restarts=3)
        wait_for_step(run, 5 + 40 * number // kills, launched)
        before = num_starts(run)
        os.kill(launched.pid_of(number % 2), signal.SIGKILL)
        slowest = max(slowest, wait_for_starts(run, before + 1, launched, seconds))
        assert launched.wait() == 0, launched.said()
        assert laboratory.bits(run) == whole_of_two
    record_property("kill -9 of a process of two", kills)
    record_property("slowest return in seconds", round(slowest, 1))


def test_sigterm_to_all_processes_saves_and_the_run_ends_with_the_same_bits(
    train: Launch,
    laboratory: "Laboratory",
    whole_of_two: str,
    tmp_path: Path,
) -> None:
    """Promise: Lost processes."""
    run = tmp_path / "run"
    launched = train(2, run)
    wait_for_step(run, 7, launched)
    launched.signal_all(signal.SIGTERM)
    assert launched.wait() != 0  # 1, whatever its processes return
    ended = json.loads((run / "exit.json").read_bytes())
    assert (ended["code"], ended["reason"]) == (143, "SIGTERM")
    assert (run / "latest").read_bytes() == f"step-{ended['step']:08d}\n".encode()
    resumed = train(2, run, "--resume")
    assert resumed.wait() == 0, resumed.said()
    assert laboratory.bits(run) == whole_of_two


def test_a_run_goes_on_in_another_number_of_processes_with_the_same_batches_and_says_so(
    train: Launch,
    laboratory: "Laboratory",
    tmp_path: Path,
) -> None:
    """Promise: Other numbers of processes."""
    run = tmp_path / "run"
    launched = train(2, run, "--steps", "10")
    assert launched.wait() == 0, launched.said()
    program = laboratory.start(run, "--steps", "20")
    assert program.wait() == 0, program.said()
    assert losses(run) == pytest.approx(losses(laboratory.whole)[:20], rel=1e-3)
    notices = [event["text"] for event in read_log(run / "log.jsonl") if event["event"] == "notice"]
    assert [re.findall(r"\d+", text) for text in notices] == [["1", "2"]]


def test_a_run_that_is_there_is_not_resumed_by_a_restart(
    train: Launch,
    laboratory: "Laboratory",
    tmp_path: Path,
) -> None:
    """Promise: Lost processes."""
    run = tmp_path / "run"
    assert laboratory.start(run, "--steps", "3").wait() == 0
    before = (run / "log.jsonl").read_bytes()
    launched = train(2, run, "--steps", "9", restarts=1)
    assert launched.wait() != 0
    assert "continue with --resume" in launched.said()
    assert (run / "log.jsonl").read_bytes() == before


@pytest.mark.release
def test_more_processes_than_micro_batches_are_told(train: Launch, tmp_path: Path) -> None:
    """Promise: Other numbers of processes."""
    launched = train(6, tmp_path / "run", "--steps", "2")
    assert launched.wait() == 0, launched.said()
    assert "only 4 of 6 processes" in launched.said()


@pytest.mark.release
@pytest.mark.parametrize("rank", [0, 1])
def test_a_hanging_process_is_named_in_time(train: Launch, tmp_path: Path, rank: int) -> None:
    """Promise: Faulty processes."""
    run = tmp_path / "run"
    launched = train(2, run)
    wait_for_step(run, 5, launched)
    os.kill(launched.pid_of(rank), signal.SIGSTOP)
    wait_until(
        lambda: f"process {rank} of 2 has not answered" in launched.said(),
        launched.said,
        seconds=MOST_SECONDS_TO_NAME_A_HANGING_PROCESS,
        pause_seconds=0.1,
    )


def test_a_process_with_other_weights_is_named(
    launch: Launch, laboratory: "Laboratory", tmp_path: Path
) -> None:
    """Promise: Faulty processes."""
    script, folder = Path(__file__).with_name("train_with_a_flipped_bit.py"), laboratory.folder
    launched = launch(3, script, tmp_path / "run", folder / "data", folder / "config.toml", "1")
    assert launched.wait() != 0
    assert "process 1 of 3 has other weights than process 0 at step 10" in launched.said()
    assert not (tmp_path / "run" / "latest").exists()


@pytest.mark.release
def test_a_sharded_run_that_was_stopped_ends_with_the_same_bits(
    train: Launch,
    laboratory: "Laboratory",
    tmp_path: Path,
) -> None:
    """Promise: Lost processes."""
    whole, stopped = tmp_path / "whole", tmp_path / "stopped"
    launched = train(2, whole, "--set", "training.sharded=true")
    assert launched.wait() == 0, launched.said()
    launched = train(2, stopped, "--set", "training.sharded=true")
    wait_for_step(stopped, 7, launched)
    launched.signal_all(signal.SIGTERM)
    launched.wait()
    assert json.loads((stopped / "exit.json").read_bytes())["code"] == 143
    resumed = train(2, stopped, "--resume", "--set", "training.sharded=true")
    assert resumed.wait() == 0, resumed.said()
    assert laboratory.bits(stopped) == laboratory.bits(whole)
