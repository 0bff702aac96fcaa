"""A signal ends the program, also one that comes while Python runs a destructor.

Promise: Signals.
"""

import signal
import subprocess
import sys

import pytest

PROGRAM = """
import signal, time
from allyouneed.cli.termination import end_by_signals

signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs ignore it
end_by_signals()

class Thing:
    def __del__(self):
        {in_destructor}

thing = Thing()
try:
    del thing
    time.sleep({seconds})
except BaseException as error:
    print("unwound", flush=True)
    raise
print("went on")
"""


def run(in_destructor: str, seconds: float) -> subprocess.CompletedProcess[str]:
    program = PROGRAM.format(in_destructor=in_destructor, seconds=seconds)
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGTERM, 128 + signal.SIGTERM), (signal.SIGINT, -signal.SIGINT)]
)
def test_a_signal_in_a_destructor_ends_the_program(number: int, code: int) -> None:
    ended = run(f"signal.raise_signal({int(number)})", 60.0)
    assert ended.returncode == code
    assert ended.stdout == "unwound\n"
    assert "Exception ignored" not in ended.stderr


INTERRUPTED = """
import signal, time
from allyouneed.cli.termination import end_by_signals
from allyouneed.training.stop_signals import StopSignals

end_by_signals()

class Thing:
    def __del__(self):
        signal.raise_signal(signal.SIGTERM)

def work():
    thing = Thing()
    del thing
    time.sleep(60.0)
    print("went on")

with StopSignals() as stop:
    print(stop.interruptible(work), stop.received.name)
"""


def test_a_signal_in_a_destructor_aborts_interruptible_work() -> None:
    ended = subprocess.run([sys.executable, "-c", INTERRUPTED], capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "None SIGTERM\n", "")


def test_other_errors_of_destructors_are_told_and_end_nothing() -> None:
    ended = run("raise ValueError('of a destructor')", 0.0)
    assert ended.returncode == 0
    assert ended.stdout == "went on\n"
    assert "Exception ignored in" in ended.stderr
    assert "ValueError: of a destructor" in ended.stderr
