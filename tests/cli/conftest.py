"""Commands run within the test's process, which spares each of them the import of torch."""

import io
import operator
import os
import pty
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from allyouneed.cli.line_output import same_but_for_rounding
from allyouneed.cli.program import main
from allyouneed.native.library import available

RunCommand = Callable[..., tuple[int, bytes, str]]
RunOnTerminal = Callable[..., tuple[str, str]]


@pytest.fixture
def pictures() -> None:
    """Lets runs draw pictures."""


@pytest.fixture(autouse=True)
def no_pictures(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise they do not, as it would take half of a short training."""
    if "pictures" not in request.fixturenames:
        monkeypatch.setattr("allyouneed.tasks.plots.plot_run", lambda run: [])


@pytest.fixture
def run_command(capfdbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch) -> RunCommand:
    """Run `allyouneed ARGUMENTS` on `stdin`; its exit code, standard output and standard error."""

    def run(*arguments: str | Path, stdin: bytes = b"") -> tuple[int, bytes, str]:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        code = main([str(argument) for argument in arguments])
        out, err = capfdbinary.readouterr()
        return code, out, err.decode()

    return run


@pytest.fixture
def translate(run_command: RunCommand, toy_model: Path) -> RunCommand:
    """Run `allyouneed translate` with the toy model on `stdin`."""
    return lambda stdin, *options: run_command("translate", toy_model, *options, stdin=stdin)


@pytest.fixture
def same_in_company() -> Callable[[bytes, bytes], bool]:
    """Whether outputs of other batches are as alike as they should be: to the bit with the kernels in C."""
    return operator.eq if "float32" in available() else same_but_for_rounding


@pytest.fixture
def run_on_terminal() -> RunOnTerminal:
    """Run Python code whose standard error alone is a terminal; what came on stdout, and on the terminal."""

    def run(code: str, **environment: str) -> tuple[str, str]:
        terminal, end = pty.openpty()
        settings = {k: v for k, v in os.environ.items() if k not in ("NO_COLOR", "FORCE_COLOR")}
        environment = settings | {"TERM": "xterm", "COLUMNS": "120"} | environment
        command = [sys.executable, "-c", code]
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=end, env=environment, check=True)
        os.close(end)
        shown = b"".join(iter(lambda: _read_terminal(terminal), b""))
        os.close(terminal)
        return done.stdout.decode(), shown.decode()

    return run


def _read_terminal(terminal: int) -> bytes:
    try:
        return os.read(terminal, 1 << 16)
    except OSError:  # Linux reports the end of a terminal like this
        return b""
