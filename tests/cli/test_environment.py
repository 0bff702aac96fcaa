"""What the environment says is corrected before a library takes it at its word."""

from pathlib import Path

import pytest

from allyouneed.cli.environment import correct_environment
from allyouneed.cli.program import main
from allyouneed.config.variables import is_home
from allyouneed.errors import talk


def test_a_home_that_is_none_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for home in ("", "relative", ".", str(tmp_path / "missing"), __file__, "a\nb"):
        monkeypatch.setenv("HOME", home)
        assert not is_home(home)
        correct_environment()
        with pytest.raises(KeyError):
            monkeypatch.delenv("HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    correct_environment()
    monkeypatch.delenv("HOME")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "name", ["WORLD_SIZE", "RANK", "LOCAL_RANK", "MASTER_PORT", "TORCHELASTIC_RESTART_COUNT"]
)
def test_variables_of_torchrun_are_looked_at_where_they_are_used_only(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for value in ("abc", "", "-1", "9" * 5_000):
        monkeypatch.setenv(name, value)
        assert main(["plan"]) == 0
        assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("environment", "is_silent"),
    [
        ({"WORLD_SIZE": "2", "RANK": "1"}, True),
        ({"WORLD_SIZE": "2", "RANK": "0"}, False),
        ({"WORLD_SIZE": "2", "RANK": "00"}, False),
        ({"WORLD_SIZE": "01", "RANK": "1"}, False),
        ({"WORLD_SIZE": "", "RANK": "1"}, False),
        ({"WORLD_SIZE": "2", "RANK": "x"}, False),
    ],
)
def test_of_several_processes_the_first_talks_as_does_one_that_is_alone(
    environment: dict[str, str],
    is_silent: bool,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert main(["plan"]) == 0
    assert talk.quiet == is_silent


@pytest.mark.parametrize("size", ["abc", "", "0", "2"])
def test_a_rehearsal_is_of_one_process(
    size: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("WORLD_SIZE", size)
    assert main(["train", str(tmp_path / "run"), "--data", "data", "--dry-run"]) == 2
    told = "--dry-run: is for one process" if size == "2" else f"WORLD_SIZE={size}: this environment variable"
    assert told in capsys.readouterr().err


@pytest.mark.parametrize(
    ("environment", "named"),
    [
        ({"WORLD_SIZE": "abc"}, "WORLD_SIZE=abc: "),
        ({"WORLD_SIZE": "0"}, "WORLD_SIZE=0: "),
        ({"WORLD_SIZE": "9" * 5_000}, "WORLD_SIZE=999"),
        ({"WORLD_SIZE": "2"}, "RANK=: "),
        ({"WORLD_SIZE": "2", "RANK": "x"}, "RANK=x: "),
        ({"WORLD_SIZE": "2", "RANK": "2"}, "RANK=2: there are 2 processes"),
        ({"WORLD_SIZE": "2", "RANK": "1", "MASTER_PORT": "http"}, "MASTER_PORT=http: "),
    ],
)
def test_training_names_the_variable_that_is_no_number(
    environment: dict[str, str],
    named: str,
    toy_data: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for name in ("WORLD_SIZE", "RANK", "MASTER_ADDR", "MASTER_PORT"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert main(["train", str(tmp_path / "run"), "--data", str(toy_data), "--device", "cpu"]) == 2
    assert named in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("command", [["plan"], ["doctor"], ["verify", "model"]])
def test_in_a_deleted_directory_every_command_says_so(
    command: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    assert main(command) == 6
    told = "allyouneed: error[E-DISK]: the working directory has been deleted; change to one that is there\n"
    assert capsys.readouterr().err == told
