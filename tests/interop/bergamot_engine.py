"""Bergamot's engine, as npm has it: Node runs it, and `BERGAMOT_TRANSLATOR` names its unpacked package.

It is installed by `npm install @browsermt/bergamot-translator@0.4.9`, and not by the tests.
"""

import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

PACKAGE = os.environ.get("BERGAMOT_TRANSLATOR", "")
needs_bergamot = pytest.mark.skipif(
    not PACKAGE or shutil.which("node") is None, reason="NOT RUN: needs Node and BERGAMOT_TRANSLATOR"
)


def translated_by_bergamot(model: Path, texts: Sequence[str], scratch: Path) -> list[str]:
    """The engine's translations by the folder of a model, which has a `config.yml`; one text at a time."""
    shutil.copytree(Path(PACKAGE, "worker"), workers := scratch / "worker")
    (workers / "package.json").write_bytes(b'{"type": "commonjs"}')
    script = Path(__file__).with_name("bergamot.cjs")
    return written_lines(["node", script, workers, model], texts)


def written_lines(command: Sequence[str | Path], texts: Sequence[str]) -> list[str]:
    """The lines that a program writes for texts."""
    given = "".join(f"{text}\n" for text in texts).encode()
    done = subprocess.run([*map(str, command)], input=given, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout.decode().splitlines()
