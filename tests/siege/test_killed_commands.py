"""`kill -9` of commands that make something: it is there whole or not at all, and the next one makes it."""

import random
import shutil
import signal
import time
from pathlib import Path

import pytest
from tests.forking.forker import Program
from tests.siege.conftest import Record, Siege
from tests.siege.judgement import snapshot

COMMANDS: dict[str, tuple[str, ...]] = {
    "average": ("average", "run", "--out", "made"),
    "export": ("export", "model", "made", "--to", "huggingface"),
    "prepare": ("prepare", "made", "--source", "text.en", "--target", "text.toy", "--vocab-size", "280"),
    "shortlist": ("shortlist", "data", "--out", "made"),
}


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("kills", [4, pytest.param(40, marks=pytest.mark.release)])
def test_a_killed_command_leaves_all_or_nothing_and_the_next_one_makes_it(
    siege: Siege, tmp_path: Path, command: str, kills: int, record_property: Record
) -> None:
    shutil.copytree(siege.stock, tmp_path / "folder")
    folder = tmp_path / "folder"
    before = snapshot(folder)
    for _ in range(kills):
        program = siege.forker.start(*COMMANDS[command], folder=str(folder))
        time.sleep(random.uniform(0, 0.15))
        program.signal(signal.SIGKILL)
        assert program.wait() in (0, -signal.SIGKILL), program.said()
        if (folder / "made").exists():
            check = siege.forker.start("verify", "made", folder=str(folder))
            assert check.wait() == 0, check.said()
            shutil.rmtree(folder / "made")
    program = siege.forker.start(*COMMANDS[command], folder=str(folder))
    assert program.wait() == 0, program.said()
    after = snapshot(folder)
    assert {name: after[name] for name in before} == before
    assert [name for name in after if name not in before and name.split("/")[0] != "made"] == []
    record_property("kill -9", kills)


@pytest.mark.parametrize("kills", [4, pytest.param(40, marks=pytest.mark.release)])
def test_an_experiment_that_is_killed_again_and_again_ends_as_if_it_had_not_been(
    siege: Siege, tmp_path: Path, kills: int, record_property: Record
) -> None:
    shutil.copytree(siege.stock / "model", tmp_path / "model")

    def start(out: str) -> Program:
        command = ("reproduce", "figures", "--model", "model", "--out", out)
        return siege.forker.start(*command, folder=str(tmp_path))

    whole = start("whole")
    assert whole.wait() == 0, whole.said()
    for _ in range(kills):
        program = start("killed")
        time.sleep(random.uniform(0, 0.5))
        program.signal(signal.SIGKILL)
        assert program.wait() in (0, -signal.SIGKILL), program.said()
    program = start("killed")
    assert program.wait() == 0, program.said()
    assert set(snapshot(tmp_path / "killed")) == set(snapshot(tmp_path / "whole"))
    record_property("kill -9", kills)
