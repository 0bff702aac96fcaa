"""Where a command may not write it says so in one line, and touches nothing."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.packages import require_packages

from allyouneed.storage.publish import publish_directory, read_manifest

RunCommand = Callable[..., tuple[int, bytes, str]]
Commands = dict[str, Callable[[str | Path], list[str | Path]]]


@pytest.fixture(scope="session")
def commands(toy_text: Path, toy_data: Path, toy_run: Path, toy_model: Path) -> Commands:
    """What makes a directory: its name -> its arguments for a target."""
    text = ["--source", toy_text / "train.en", "--target", toy_text / "train.toy", "--tokenizer", "byte"]
    return {
        "prepare": lambda target: ["prepare", target, *text],
        "average": lambda target: ["average", toy_run, "--out", target],
        "shortlist": lambda target: ["shortlist", toy_data, "--out", target],
        "export": lambda target: ["export", toy_model, target, "--to", "huggingface"],
        "copy": lambda target: ["copy", toy_model, target, "--precision", "int8"],
        "train": lambda target: ["train", target, "--data", toy_data, "--device", "cpu", "--steps", "1"],
    }


NAMES = ("prepare", "average", "shortlist", "export", "copy", "train")
PUBLISHING = NAMES[:-1]


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory, which holds a file."""
    (tmp_path / "file").write_bytes(b"precious")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def require_export(name: str) -> None:
    if name == "export":
        require_packages("transformers")


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    ("target", "expected"), [("/", 2), ("", 2), (".", 2), ("file", 2), ("file/x", 6), ("x/..", 2)]
)
def test_a_target_that_cannot_be_is_refused_in_one_line(
    run_command: RunCommand, commands: Commands, here: Path, name: str, target: str, expected: int
) -> None:
    require_export(name)
    code, out, err = run_command(*commands[name](target))
    assert (code, out, err.count("\n")) == (expected, b"", 1), err
    assert err.startswith("allyouneed: error[")
    assert (here / "file").read_bytes() == b"precious"
    assert [path.name for path in here.iterdir()] == ["file"]


@pytest.mark.parametrize("name", NAMES)
def test_a_working_directory_that_is_gone_is_told_in_one_line(
    run_command: RunCommand, commands: Commands, here: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (here / "gone").mkdir()
    monkeypatch.chdir(here / "gone")
    (here / "gone").rmdir()
    code, out, err = run_command(*commands[name]("x"))
    assert (code, out) == (6, b"")
    assert err == (
        "allyouneed: error[E-DISK]: the working directory has been deleted; change to one that is there\n"
    )


@pytest.mark.parametrize("name", PUBLISHING)
def test_of_two_at_once_the_second_is_refused_and_the_first_ends_unharmed(
    run_command: RunCommand, commands: Commands, here: Path, name: str
) -> None:
    """Promise: Shared targets."""
    require_export(name)
    with publish_directory(here / "out", "data") as first:
        (first / "file").write_bytes(b"first")
        code, out, err = run_command(*commands[name](here / "out"))
    assert (code, out, err.count("\n")) == (8, b"", 1), err
    assert f"error[E-LOCKED]: {here / 'out'}: process {os.getpid()} on " in err
    assert read_manifest(here / "out", "data")["files"]["file"]["size"] == 5


@pytest.mark.parametrize("name", PUBLISHING)
def test_what_a_killed_process_left_is_removed_with_a_notice(
    run_command: RunCommand, commands: Commands, here: Path, name: str
) -> None:
    require_export(name)
    left = here / "out.tmp-unfinished"
    (left / "content").mkdir(parents=True)
    (left / "lock").write_bytes(f"77 on {os.uname().nodename}\n\n".encode())
    code, _, err = run_command(*commands[name](here / "out"))
    assert code == 0, err
    assert f"allyouneed: NOTICE: {here / 'out'}: removed what process 77 on " in err
    assert sorted(path.name for path in here.iterdir()) == ["file", "out"]
    assert run_command("verify", here / "out")[0] == 0


@pytest.mark.parametrize("name", PUBLISHING)
def test_what_appears_at_the_target_meanwhile_is_left_alone(
    run_command: RunCommand, commands: Commands, here: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The folder appears when the first file of the new directory is synced."""
    require_export(name)
    sync = os.fsync

    def appear_and_sync(descriptor: int) -> None:
        (here / "out").mkdir(exist_ok=True)
        (here / "out" / "precious").write_bytes(b"x")
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", appear_and_sync)
    code, out, err = run_command(*commands[name](here / "out"))
    assert (code, out) == (2, b"")
    assert f"{here / 'out'}: has appeared while it was being made, and is left as it is" in err
    assert [path.name for path in (here / "out").iterdir()] == ["precious"]
    assert sorted(path.name for path in here.iterdir()) == ["file", "out"]
