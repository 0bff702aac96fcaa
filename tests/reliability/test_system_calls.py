"""Faults at exact points: at each call by which a run that resumes and saves touches its directory."""

import re
import shutil
import signal
import subprocess
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.forking.forker import Program
    from tests.reliability.conftest import Laboratory

Record = Callable[[str, object], None]

CALLS = "openat,write,pwrite64,fsync,ftruncate,rename,renameat,renameat2,mkdir,unlink,unlinkat,rmdir"
SAVED = 40
ONE_STEP = ("--steps", "41")
"""Resumed at step 40, a run makes one update, saves, deletes what is superseded, and ends."""
TWO_STEPS = ("--steps", "42", "--set", "training.checkpoint_every_steps=41")
"""The same, and then it goes on."""
EXIT_CODES = {
    "signal=KILL": {-signal.SIGKILL},
    "signal=TERM": {128 + signal.SIGTERM, 0},
    "error=ENOSPC": {6, 0},
    "error=EIO": {6, 0},
    "error=EACCES": {6, 0},
}
"""Fault -> how the program ends: some errors, such as one in a deletion, it can live
with, and it ends with 0 where all updates were done when the signal came."""


@dataclass(frozen=True)
class Call:
    """One system call of a program that concerns its run."""

    name: str
    when: int
    """Which of the calls of this name it is, counted from 1."""
    line: str
    """As strace writes it."""

    def writes(self) -> bool:
        """Whether it changes anything: a kill at a call that only reads is one at the next that does not."""
        return self.name != "openat" or any(flag in self.line for flag in ("O_WRONLY", "O_RDWR"))


@dataclass(frozen=True)
class Subject:
    """A run that is stopped at a step, and every call that it makes when it goes on by one step."""

    run: Path
    calls: Sequence[Call]

    def calls_for(self, fault: str, num_points: int | None) -> Sequence[Call]:
        """So many of the calls where the fault may matter, spread evenly; by default all of them."""
        calls = [call for call in self.calls if call.writes() or fault.startswith("error")]
        if num_points is None:
            return calls
        stride = len(calls) // num_points
        return calls[len(fault) % stride :: stride][:num_points]


def traced(
    laboratory: "Laboratory", run: Path, options: Sequence[str], inject: str | None = None
) -> tuple["Program", str]:
    """Go on with the run under strace; the program, and what strace has seen."""
    program = laboratory.start(run, *options, paused=True)
    trace = run.with_name(f"{run.name}.trace")
    command = ["strace", "-y", "-o", str(trace), "-e", f"trace={CALLS}", "-p", str(program.pid)]
    command += ["-e", f"inject={inject}"] if inject else []
    with subprocess.Popen(command, stderr=subprocess.PIPE) as strace:
        assert strace.stderr
        first = strace.stderr.readline().decode()
        program.signal(signal.SIGCONT)
    if not first.endswith("attached\n"):
        program.wait()
        pytest.skip(f"NOT RUN: strace may not trace here: {first.strip()}")
    return program, trace.read_bytes().decode(errors="replace")


@pytest.fixture(scope="module")
def subject(laboratory: "Laboratory", tmp_path_factory: pytest.TempPathFactory) -> Subject:
    if shutil.which("strace") is None:
        pytest.skip("NOT RUN: needs strace")
    run = tmp_path_factory.mktemp("subject") / "run"
    assert laboratory.start(run, "--steps", str(SAVED)).wait() == 0
    copy = Path(shutil.copytree(run, run.with_name("traced")))
    program, trace = traced(laboratory, copy, ONE_STEP)
    assert program.wait() == 0, program.said()
    return Subject(run, calls_of(trace, copy))


def calls_of(trace: str, run: Path) -> list[Call]:
    """The calls of a program that concern its run."""
    names: Counter[str] = Counter()
    calls = []
    for line in trace.split("\n"):
        if found := re.match(r"(\w+)\(", line):
            names[found[1]] += 1
            if str(run) in line:
                calls.append(Call(found[1], names[found[1]], line))
    assert len(calls) > 100
    return calls


@pytest.mark.parametrize(
    ("fault", "num_points"),
    [
        ("signal=KILL", 12),
        *((fault, 3) for fault in list(EXIT_CODES)[1:]),
        *(pytest.param(fault, None, marks=pytest.mark.release) for fault in EXIT_CODES),
    ],
)
def test_a_fault_at_a_call_leaves_a_run_that_ends_with_the_same_bits(
    laboratory: "Laboratory",
    subject: Subject,
    tmp_path: Path,
    fault: str,
    num_points: int | None,
    record_property: Record,
) -> None:
    """Promise: Kills."""
    codes: Counter[int] = Counter()
    surprises = []
    for number, call in enumerate(subject.calls_for(fault, num_points)):
        run = Path(shutil.copytree(subject.run, tmp_path / f"run-{number}"))
        options = TWO_STEPS if fault == "signal=TERM" else ONE_STEP
        program, trace = traced(laboratory, run, options, f"{call.name}:{fault}:when={call.when}")
        code = program.wait()
        codes[code] += 1
        if not as_promised(program, code, fault, trace):
            surprises.append(f"{call}: exit code {code}\n{program.said()}")
        laboratory.require_sound(run)
        laboratory.finish(run)
        shutil.rmtree(run)
    assert not surprises, "\n".join(surprises)
    for code, count in codes.items():
        record_property(f"{fault} with exit code {code}", count)


def as_promised(program: "Program", code: int, fault: str, trace: str) -> bool:
    """Whether the fault took place, and the program ended as it should and said why in one line."""
    took_place = code == -signal.SIGKILL or "(INJECTED)" in trace or "--- SIGTERM" in trace
    return (
        took_place
        and code in EXIT_CODES[fault]
        and "Traceback" not in program.said()
        and [line[:25] for line in program.errors()] == ["allyouneed: error[E-DISK]"] * (code == 6)
    )
