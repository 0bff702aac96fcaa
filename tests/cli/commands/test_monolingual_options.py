"""`train --budget --monolingual` is one command, also after a kill, and says what is wrong in one line."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.cli.commands.test_train import TINY
from tests.conftest import TOY_WORDS

from allyouneed.config.run import RunConfig
from allyouneed.runs import budgeting

RunCommand = Callable[..., tuple[int, bytes, str]]
STEPS = (
    *("training.num_steps=2", "training.moved_end=[1,2]", "training.warmup_steps=1"),
    *("training.schedule=linear_decay", "training.validate_every_steps=9"),
)


@pytest.fixture
def text(tmp_path: Path) -> Path:
    (tmp_path / "more.toy").write_bytes("".join(f"{word[::-1]}o\n" for word in TOY_WORDS).encode())
    return tmp_path / "more.toy"


@pytest.fixture
def train(
    run_command: RunCommand, tmp_path: Path, toy_data: Path, monkeypatch: pytest.MonkeyPatch
) -> RunCommand:
    """`allyouneed train` of a tiny model for two updates on the toy data."""
    monkeypatch.setattr(budgeting, "_MEASURED_SHARE", 1e-9)
    command = "train", tmp_path / "run", "--data", toy_data, "--set", *TINY[:-1], *STEPS
    return lambda *options: run_command(*command, *options)


@pytest.mark.usefixtures("pictures")
def test_the_steps_are_told_and_shown_and_the_run_is_a_model_with_scores(
    train: RunCommand, tmp_path: Path, toy_text: Path, text: Path
) -> None:
    run, held_out = tmp_path / "run", toy_text / "valid"
    tests = f"--test-source={held_out}.en", f"--test-reference={held_out}.toy"
    code, out, err = train("--budget", "1h", "--monolingual", text, *tests)
    assert code == 0
    assert f"{run}: {text}: 12 lines, and 0 repeats; a reverse model takes about 18 minutes" in err
    assert f"{run}/monolingual/reverse: size: tiny" in err
    assert f"{run}: 12 lines of {text} are translated in about " in err
    assert f"finished; translate with `allyouneed translate {run}`" in err
    assert out.startswith(b"BLEU ")
    assert (run / "monolingual" / "reverse" / "loss.png").is_file()
    assert RunConfig.from_toml(run / "monolingual" / "reverse" / "config.toml").training.num_steps == 2
    again = train("--budget", "1h", "--monolingual", text, *tests, "--resume")
    assert (again[0], again[1]) == (0, out)
    code, _, err = train("--budget", "1h", "--resume")
    assert (code, err.count("\n")) == (2, 1)
    assert f"{run}: was begun with another budget, text or settings; give --resume alone to go on" in err


def test_the_steps_can_be_rehearsed(train: RunCommand, tmp_path: Path, text: Path) -> None:
    code, out, err = train("--budget", "1h", "--monolingual-source", text, "--dry-run", "--json")
    assert code == 0
    assert json.loads(out)["updates"] == 2
    assert "a forward model takes about 18 minutes, its translations at most about 9 minutes" in err
    assert f"{tmp_path}/run: about 33 minutes or more are for the model itself" in err
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        (["--monolingual", "{text}"], 2, "--monolingual: is part of a budget; give a time, such as --budget"),
        (["--monolingual-source", "{text}"], 2, "--monolingual-source: is part of a budget"),
        (
            ["--monolingual", "{text}", "--budget", "1h", "--init-from", "x"],
            2,
            "--monolingual: trains new models; leave out --init-from and --replay",
        ),
        (["--monolingual", "none", "--budget", "1h"], 3, "none: no such file; check the path"),
        (["--monolingual", "/dev/null", "--budget", "1h"], 2, "/dev/null: is a pipe"),
        (["--monolingual", "{text}", "--budget", "60s"], 2, "--budget: give 67 seconds or more"),
    ],
)
def test_wrong_options_are_told_in_one_line_before_a_run_is_made(
    train: RunCommand, tmp_path: Path, text: Path, options: list[str], code: int, message: str
) -> None:
    found, out, err = train(*(option.format(text=text) for option in options))
    assert (found, out, err.count("\n")) == (code, b"", 1)
    assert message in err
    assert not (tmp_path / "run").exists()
