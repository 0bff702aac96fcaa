"""A program that waits for ever is told from one that computes, however slow and busy the machine is."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from tests.forking.fork_programs import sleeping_threads
from tests.patience import wait_until
from tests.siege.cases import translate
from tests.siege.conftest import Siege


@contextmanager
def python(program: str) -> Iterator[int]:
    """Run a program in a process group of its own; begins where it has written a line."""
    arguments = [sys.executable, "-uc", program]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, process_group=0) as process:
        assert process.stdout
        process.stdout.readline()
        try:
            yield process.pid
        finally:
            os.killpg(process.pid, signal.SIGKILL)  # its children, too


COMPUTES = "while True: pass"


@pytest.mark.parametrize(
    "program",
    [
        COMPUTES,
        f"import threading; threading.Thread(target=lambda: exec({COMPUTES!r})).start()",
        f"import subprocess, sys; subprocess.run([sys.executable, '-c', {COMPUTES!r}], timeout=60)",
    ],
    ids=["itself", "a thread", "a child"],
)
def test_what_computes_does_not_sleep(program: str) -> None:
    """Promise: Siege."""
    with python(f"print()\n{program}") as pid:
        computed = [sleeping_threads(pid) for _ in range(100)]
    assert None in computed


def test_what_sleeps_does() -> None:
    """Promise: Siege."""
    threads = "import threading, time; print(); threading.Thread(target=time.sleep, args=[600]).start()"
    with python(threads) as pid:
        wait_until(lambda: len(sleeping_threads(pid) or {}) == 2)
        assert sleeping_threads(pid) == sleeping_threads(pid)


def test_a_program_that_waits_for_ever_is_a_fault(siege: Siege) -> None:
    """Promise: Siege."""
    os.mkfifo(siege.camp / "nobody-writes")
    case = translate("of a pipe that nobody writes to", settings={"stdin": str(siege.camp / "nobody-writes")})
    found = siege.tried_case(case)
    assert found[0].startswith("ended with -9 (waited longer than it may: hangs")
