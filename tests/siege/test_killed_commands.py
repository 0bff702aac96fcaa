"""`kill -9` of commands that make something: it is there whole or not at all, and the next one makes it."""

import os
import random
import shutil
import signal
from pathlib import Path

import pytest
from tests.forking.forker import Program
from tests.patience import wait_until
from tests.siege.conftest import Record, Siege
from tests.siege.judgement import snapshot

COMMANDS = {
    "average": (("average", "run", "--out", "made"), 5),
    "export": (("export", "model", "made", "--to", "huggingface"), 7),
    "prepare": (
        ("prepare", "made", "--source", "text.en", "--target", "text.toy", "--vocab-size", "280"),
        14,
    ),
    "shortlist": (("shortlist", "data", "--out", "made"), 2),
}
"""What is run, and how many files and folders it makes at least."""
MOST_TRIES = 20
"""For one kill: a program that ends before it is hit is started again."""


def num_names(folder: Path) -> int:
    """Files and folders below a folder that a program may be changing; 0 where it is not there."""
    return sum(len(folders) + len(files) for _, folders, files in os.walk(folder))


def killed(program: Program, folder: Path, wanted: int) -> bool:
    """Kill a program once so many names are below a folder; whether that, and nothing else, has ended it."""
    wait_until(lambda: (folder.is_dir() and num_names(folder) >= wanted) or program.has_ended(), program.said)
    program.signal(signal.SIGKILL)
    code = program.wait()
    assert code in (0, -signal.SIGKILL), program.said()
    return code == -signal.SIGKILL


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("kills", [2, pytest.param(40, marks=pytest.mark.release)])
def test_a_killed_command_leaves_all_or_nothing_and_the_next_one_makes_it(
    siege: Siege, tmp_path: Path, command: str, kills: int, record_property: Record
) -> None:
    """It is killed while it is writing, when so many files and folders are there.

    Promise: Leftovers.
    """
    shutil.copytree(siege.stock, tmp_path / "folder")
    folder, draw = tmp_path / "folder", random.Random(f"killed-{command}")
    made, content = folder / "made", folder / "made.tmp-unfinished" / "content"
    before = snapshot(folder)

    arguments, most = COMMANDS[command]

    def start() -> Program:
        return siege.forker.start(*arguments, folder=str(folder))

    for _ in range(kills):
        for _ in range(MOST_TRIES):
            hit = killed(start(), content, draw.randint(0, most))
            assert hit or made.is_dir()
            if made.exists():
                check = siege.forker.start("verify", "made", folder=str(folder))
                assert check.wait() == 0, check.said()
                shutil.rmtree(made)
            if hit:
                break
        assert hit, "the program has always ended before it could be killed"
    program = start()
    assert program.wait() == 0, program.said()
    assert num_names(made) >= most
    after = snapshot(folder)
    assert {name: after[name] for name in before} == before
    assert [name for name in after if name not in before and name.split("/")[0] != "made"] == []
    record_property("kill -9", kills)


@pytest.mark.parametrize("kills", [1, pytest.param(40, marks=pytest.mark.release)])
def test_an_experiment_that_is_killed_again_and_again_ends_as_if_it_had_not_been(
    siege: Siege, tmp_path: Path, kills: int, record_property: Record
) -> None:
    """Promise: Leftovers."""
    shutil.copytree(siege.stock / "model", tmp_path / "model")

    def start(out: str) -> Program:
        command = ("reproduce", "figures", "--model", "model", "--out", out)
        return siege.forker.start(*command, folder=str(tmp_path))

    whole = start("whole")
    assert whole.wait() == 0, whole.said()
    draw, most = random.Random("killed-reproduce"), num_names(tmp_path / "whole")
    for _ in range(kills):
        assert killed(start("killed"), tmp_path / "killed", draw.randint(0, most))
    program = start("killed")
    assert program.wait() == 0, program.said()
    assert set(snapshot(tmp_path / "killed")) == set(snapshot(tmp_path / "whole"))
    record_property("kill -9", kills)
