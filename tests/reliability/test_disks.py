"""A disk that is full or read-only ends a run with exit code 6 and costs it nothing but the time."""

import random
import re
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.forking.forker import Program
    from tests.reliability.conftest import Laboratory

Record = Callable[[str, object], None]


class Disk:
    """A file system of 8 MB in memory."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()
        done = subprocess.run(
            ["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", folder], capture_output=True, check=False
        )
        if done.returncode:
            pytest.skip(f"NOT RUN: needs the right to mount a disk: {done.stderr.decode().strip()}")

    def fill_up_to(self, free_bytes: int) -> None:
        (self.folder / "ballast").write_bytes(bytes((8 << 20) - free_bytes))

    def remount(self, option: str) -> None:
        subprocess.run(["mount", "-o", f"remount,{option}", self.folder], check=True)

    def unmount(self) -> None:
        subprocess.run(["umount", self.folder], check=True)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    disk = Disk(tmp_path / "disk")
    yield disk
    disk.unmount()


def require_refusal(program: "Program", run: Path) -> str:
    """The one line in which the program says that the disk has stopped it."""
    assert program.wait() == 6, program.said()
    assert "Traceback" not in program.said()
    (message,) = program.errors()
    assert message.startswith(f"allyouneed: error[E-DISK]: {run}"), message
    assert not list(run.rglob("*.tmp-*"))
    return message


@pytest.mark.parametrize("num_disks", [2, pytest.param(20, marks=pytest.mark.release)])
def test_a_run_that_fills_its_disk_keeps_what_it_has_and_goes_on_when_there_is_room(
    laboratory: "Laboratory", disk: Disk, num_disks: int, record_property: Record
) -> None:
    """Promise: Disks."""
    for number in range(num_disks):
        run = disk.folder / f"run-{number}"
        disk.fill_up_to(random.randrange(450_000, 600_000))
        message = require_refusal(laboratory.start(run), run)
        assert re.search(r"No space left on device.*; [\d,]+ bytes are free there; make room", message)
        laboratory.require_sound(run)
        trained = max(laboratory.logged(run, "train"))
        saved = max(laboratory.logged(run, "checkpoint"), default=0)
        assert trained - saved <= 10
        disk.remount("size=64m")
        laboratory.finish(run)
        subprocess.run(["rm", "-r", run], check=True)
        disk.remount("size=8m")
    record_property("full disks", num_disks)


def test_a_run_for_which_there_is_no_room_is_not_begun(laboratory: "Laboratory", disk: Disk) -> None:
    """Promise: Disks."""
    disk.fill_up_to(200_000)
    run = disk.folder / "run"
    message = require_refusal(laboratory.start(run), run)
    assert re.search(r"needs [\d,]+ bytes; [\d,]+ bytes are free there; make room", message)
    assert laboratory.logged(run, "train") == []
    disk.remount("size=64m")
    laboratory.finish(run)


def test_a_read_only_disk_is_refused_and_the_run_goes_on_when_it_can_be_written(
    laboratory: "Laboratory", disk: Disk
) -> None:
    """Promise: Disks."""
    run = disk.folder / "run"
    program = laboratory.start(run)
    laboratory.wait_for(run, "train", 20)
    program.signal(signal.SIGTERM)
    assert program.wait() == 143
    before = {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}
    disk.remount("ro")
    assert "Read-only file system" in require_refusal(laboratory.start(run), run)
    assert {path: path.read_bytes() for path in run.rglob("*") if path.is_file()} == before
    laboratory.require_sound(run)
    disk.remount("rw")
    laboratory.finish(run)
