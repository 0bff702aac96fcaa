"""On a Ray cluster, `prepare` and `translate` give the bytes of one process, though processes are killed.

Promise: Clusters.
"""

import contextlib
import hashlib
import importlib.util
import json
import os
import random
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from subprocess import DEVNULL, PIPE
from tempfile import TemporaryFile

import pytest
from tests.conftest import TOY_WORDS
from tests.patience import PATIENCE_SECONDS, outputs_at_the_end, wait_until

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="NOT RUN: needs ray"),
]
_PATIENCE_SECONDS = 4 * PATIENCE_SECONDS  # for 200,000 lines, too
PROGRAM = [sys.executable, "-m", "allyouneed"]


def text(num_lines: int, seed: int = 1) -> bytes:
    draw = random.Random(seed)
    lines = (" ".join(draw.choices(TOY_WORDS, k=draw.randint(1, 6))) for _ in range(num_lines))
    return "".join(f"{line}\n" for line in lines).encode()


def run(*arguments: str | Path, stdin: bytes = b"", code: int = 0) -> "subprocess.CompletedProcess[bytes]":
    found = subprocess.run(
        [*PROGRAM, *arguments], input=stdin, capture_output=True, timeout=_PATIENCE_SECONDS, check=False
    )
    assert found.returncode == code, found.stderr.decode()
    return found


def kill_computing_for(program: int, num_kills: int, may_kill: Callable[[], bool]) -> None:
    """Kill so many of the processes that compute for a program."""
    killed: set[int] = set()

    def has_killed() -> bool:
        if may_kill():
            for process in computing_for(program) - killed:
                if len(killed) < num_kills:
                    os.kill(process, signal.SIGKILL)
                    killed.add(process)
        return len(killed) == num_kills

    wait_until(has_killed, pause_seconds=0.05)


def computing_for(program: int) -> set[int]:
    """The processes under a program that carry out a task."""
    found = set()
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it has just ended
            if (folder / "cmdline").read_bytes().startswith(b"ray::_called") and program in above(folder):
                found.add(int(folder.name))
    return found


def above(folder: Path) -> Iterator[int]:
    """The process that has started one, the one that has started that, and so on."""
    while folder.name != "0":
        folder = folder.with_name((folder / "stat").read_text().rpartition(")")[2].split()[1])
        yield int(folder.name)


def translated_with_a_kill(
    model: Path,
    folder: Path,
    lines: bytes,
    when: Callable[[], bool],
    *,
    kills: int = 1,
    options: tuple[str, ...] = (),
    code: int = 0,
) -> bytes:
    ray = "--engine", "ray", "--workers", "2", "--parts", folder
    command: list[str | Path] = [*PROGRAM, "translate", model, *ray, *options]
    with TemporaryFile() as file:
        file.write(lines)
        file.seek(0)
        with subprocess.Popen(command, stdin=file, stdout=PIPE, stderr=PIPE) as process:
            kill_computing_for(process.pid, kills, when)
            written, said = outputs_at_the_end(process, _PATIENCE_SECONDS)
            assert (process.returncode, written) == (code, b""), said
            return said


def complaints(said: bytes) -> list[bytes]:
    """What a program has said, without the rate, which slow ones tell."""
    return [line for line in said.splitlines() if not line.endswith(b" lines/s")]


def whole(folder: Path) -> bytes:
    names = json.loads((folder / "parts.json").read_bytes())["parts"]
    assert sorted(names) == sorted(path.name for path in folder.glob("part-*"))
    return b"".join((folder / name).read_bytes() for name in names)


@pytest.mark.release
def test_a_process_that_is_killed_changes_nothing(toy_model: Path, tmp_path: Path) -> None:
    lines = text(2_100).replace(b"\n", b"\nbad \xff\n", 3) + b"\n"  # for three calls of 1,024
    options = "--n-best", "2", "--alignments", "--beam-size", "3"
    expected = run("translate", toy_model, *options, stdin=lines, code=9)
    folder = tmp_path / "parts"
    said = translated_with_a_kill(toy_model, folder, lines, lambda: True, options=options, code=9)
    assert whole(folder) == expected.stdout
    assert complaints(said) == complaints(expected.stderr) != []
    again = run("translate", toy_model, *options, "--parts", folder, stdin=lines)
    assert b"continuing; 1 of the parts are there" in again.stderr
    assert whole(folder) == expected.stdout


def test_prepared_data_has_the_bytes_of_one_process(tmp_path: Path) -> None:
    source, target = tmp_path / "text.en", tmp_path / "text.de"
    source.write_bytes(text(30_000))
    target.write_bytes(text(30_000, seed=2))
    options = "--source", source, "--target", target, "--vocab-size", "300"
    run("prepare", tmp_path / "one", *options, "--workers", "0")
    run("prepare", tmp_path / "ray", *options, "--engine", "ray", "--workers", "2")
    names = sorted(path.relative_to(tmp_path / "one") for path in (tmp_path / "one").rglob("*.*"))
    assert len(names) > 8
    for name in names:
        assert (tmp_path / "ray" / name).read_bytes() == (tmp_path / "one" / name).read_bytes(), name


def test_a_process_that_needs_more_than_any_machine_has_is_refused(
    toy_model: Path, toy_text: Path, tmp_path: Path
) -> None:
    files = "--source", toy_text / "train.en", "--target", toy_text / "train.toy", "--vocab-size", "290"
    for arguments, said in (
        (
            ("prepare", tmp_path / "data", *files, "--workers", "0"),
            "--workers 0: the engine ray needs a core",
        ),
        (("translate", toy_model, "--workers", "1", "--device", "cuda"), "the cores (1) and GPUs (1) that"),
    ):
        [line] = run(*arguments, "--engine", "ray", stdin=b"sun\n", code=2).stderr.decode().splitlines()
        assert said in line


@pytest.mark.parametrize("all_there", [False, True], ids=["waits for lines", "waits for the cluster"])
def test_a_stop_is_the_one_of_every_command(toy_model: Path, tmp_path: Path, all_there: bool) -> None:
    lines = tmp_path / "lines"
    lines.write_bytes(text(50_000 if all_there else 3_000))
    command: list[str | Path] = [*PROGRAM, "translate", toy_model, "--engine", "ray", "--workers", "1"]
    with (
        subprocess.Popen(["cat", lines, *([] if all_there else ["-"])], stdin=PIPE, stdout=PIPE) as source,
        subprocess.Popen(command, stdin=source.stdout, stdout=DEVNULL, stderr=PIPE) as process,
    ):
        wait_until(lambda: computing_for(process.pid), pause_seconds=0.05)
        process.send_signal(signal.SIGTERM)
        _, said = outputs_at_the_end(process, _PATIENCE_SECONDS)
        source.kill()
        assert (process.returncode, complaints(said)) == (143, [])


def test_an_error_of_the_caller_ends_the_cluster_once(toy_model: Path, tmp_path: Path) -> None:
    program = """
from allyouneed import Cluster
import ray
try:
    with Cluster(1) as cluster:
        for found in cluster.map(abs, range(-9, 0)):
            assert found == 9
            raise KeyError("mine")
except KeyError:
    assert not ray.is_initialized()
try:
    with Cluster(1) as cluster:
        [*cluster.map(len, [3])]
except Exception as error:
    print(type(error).__name__, error)
"""
    found = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, timeout=_PATIENCE_SECONDS, check=True
    )
    assert found.stderr == b""
    assert found.stdout.startswith(
        b"InternalError a process of the cluster failed: TypeError: object of type"
    )


def test_a_cluster_that_is_not_there_is_told_in_one_line(
    toy_model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAY_ADDRESS", "127.0.0.1:1")
    for more in ([], ["--workers", "2"]):
        found = run("translate", toy_model, "--engine", "ray", *more, stdin=b"sun\n", code=2)
        [line] = found.stderr.decode().splitlines()
        assert ("RAY_ADDRESS=127.0.0.1:1: no cluster" in line) == (not more)
        assert ("--workers: the cluster of RAY_ADDRESS" in line) == bool(more)


@pytest.mark.release
def test_two_hundred_thousand_lines_though_processes_are_killed(
    toy_model: Path, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    lines = text(200_000)
    expected = run("translate", toy_model, stdin=lines).stdout
    folder = tmp_path / "parts"
    translated_with_a_kill(toy_model, folder, lines, lambda: any(folder.glob("part-*")), kills=3)
    assert hashlib.sha256(whole(folder)).digest() == hashlib.sha256(expected).digest()
    record_property("lines", expected.count(b"\n"))
