"""Real `allyouneed` programs that tests start, disturb and wait for, each within milliseconds."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

CLOSED = ""
"""In place of a file: the standard descriptor is closed."""
_CONFIG = """
model = {d_model = 16, d_ff = 32, num_layers = 1, num_heads = 2}
training = {batch_tokens = 160, micro_batch_tokens = 40, precision = "float32"}
"""


class Program:
    """An `allyouneed` program that runs on its own, in a process group of its own."""

    def __init__(self, forker: "Forker", pid: int, output: Path) -> None:
        self.pid = pid
        self._forker, self._output = forker, output

    def signal(self, number: int) -> None:
        """Send a signal to its whole group."""
        os.killpg(self.pid, number)

    def has_ended(self) -> bool:
        """Whether it has, and waits to be waited for."""
        return Path(f"/proc/{self.pid}/stat").read_bytes().rpartition(b")")[2].split()[0] == b"Z"

    def wait(self, *, may_sleep: bool = True) -> int:
        """Its exit code, or minus the signal that ended it; one that hangs is killed.

        Args:
            may_sleep: Whether it may wait for something for minutes, and not only for seconds.
        """
        return self._forker.ask({"wait": self.pid, "may_sleep": may_sleep})

    def said(self) -> str:
        """What it has written on standard error, and on standard output where that is the same file."""
        return self._output.read_bytes().decode(errors="backslashreplace")

    def errors(self) -> list[str]:
        """The lines in which it has told a user what went wrong."""
        return [line for line in self.said().split("\n") if line.startswith("allyouneed: error[")]


class Forker:
    """Starts programs from a process that has torch imported; see fork_programs.py.

    Args:
        data: Prepared data to train a little on, so that everything is loaded before the first program.
        config: The run's configuration (a TOML file).
        folder: Directory for the programs' outputs.
        draws: Whether programs draw each picture of a run, and not only save one that is drawn at the start.
    """

    def __init__(self, data: Path, config: Path, folder: Path, *, draws: bool = True) -> None:
        self._folder, self._started = folder, 0
        program = Path(__file__).with_name("fork_programs.py")
        self._process = subprocess.Popen(
            [sys.executable, program, data, config, *(["--draws"] if draws else [])],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )

    def ask(self, request: dict[str, Any]) -> int:
        """Its answer to one request."""
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.write(json.dumps(request).encode() + b"\n")
        self._process.stdin.flush()
        return int(self._process.stdout.readline())

    def start(
        self, *arguments: str | Path, output: Path | None = None, paused: bool = False, **others: Any
    ) -> Program:
        """Run `allyouneed ARGUMENTS`; paused, it waits for SIGCONT before it does anything.

        Args:
            *arguments: The command and its arguments.
            output: File that gets standard output and standard error; a new one by default.
            paused: Whether to wait.
            **others: Fields of `Start` in fork_programs.py.
        """
        self._started += 1
        output = output or self._folder / f"output-{self._started}.txt"
        output.touch()
        streams = {"stdout": str(output), "stderr": str(output)} | others
        wanted = {"arguments": [str(a) for a in arguments], "paused": paused, **streams}
        return Program(self, self.ask({"start": wanted}), output)

    def close(self) -> None:
        """Start no more."""
        self._process.communicate()


@pytest.fixture(scope="session")
def forker(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, toy_data: Path
) -> Iterator[Forker]:
    """Starts programs; only those of the release tier draw each of their pictures anew."""
    folder = tmp_path_factory.mktemp("programs")
    (folder / "config.toml").write_text(_CONFIG)
    draws = request.config.getoption("markexpr") == "release"
    forker = Forker(toy_data, folder / "config.toml", folder, draws=draws)
    yield forker
    forker.close()
