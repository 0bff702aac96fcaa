"""The last line of `demo` can be typed as it stands there."""

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from allyouneed.interfaces.commands.demo import _program


@pytest.mark.parametrize("is_on_the_path", [True, False])
def test_the_command_that_is_told_can_be_run_from_here(
    is_on_the_path: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    programs = Path(sys.executable).parent
    monkeypatch.setenv("PATH", str(programs) if is_on_the_path else str(tmp_path))
    monkeypatch.chdir(programs.parents[1])
    told = _program()
    assert (told == "allyouneed") == is_on_the_path
    shown = subprocess.run(
        f"{told} --version", shell=True, check=True, capture_output=True, text=True, env={**os.environ}
    )
    assert shown.stdout.strip()
    assert shlex.split(told)[0] == told or told.endswith("-m allyouneed")
