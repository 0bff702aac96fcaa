"""The last line of `demo` can be typed as it stands there."""

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from allyouneed.cli.commands.demo import _program, _suggestion
from allyouneed.lab.demo.demo_run import TranslatedExample


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


RIGHT, WRONG = (
    TranslatedExample("A dog.", "Ein Hund.", "Ein Hund."),
    TranslatedExample("A cat.", "Eine Katze.", "Ein Hund."),
)


@pytest.mark.parametrize(
    ("examples", "tried"), [([WRONG, RIGHT, RIGHT], "A dog."), ([WRONG], "A cat."), ([RIGHT], "A dog.")]
)
def test_the_sentence_to_try_is_one_that_the_model_translates_rightly_if_there_is_any(
    examples: list[TranslatedExample], tried: str
) -> None:
    told = _suggestion(examples, Path("my runs/model"))
    assert shlex.split(told)[:4] == ["Try", "it:", "echo", tried]
    assert shlex.split(told)[-2:] == ["translate", "my runs/model"]
