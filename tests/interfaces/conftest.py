"""Commands run within the test's process, which spares each of them the import of torch."""

import io
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from allyouneed.interfaces.cli import main

RunCommand = Callable[..., tuple[int, bytes, str]]


@pytest.fixture
def run_command(capfdbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch) -> RunCommand:
    """Run `allyouneed ARGUMENTS` on `stdin`; its exit code, standard output and standard error."""

    def run(*arguments: str | Path, stdin: bytes = b"") -> tuple[int, bytes, str]:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        code = main([str(argument) for argument in arguments])
        out, err = capfdbinary.readouterr()
        return code, out, err.decode()

    return run
