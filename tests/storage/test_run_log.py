import os
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from allyouneed.errors import UsageError
from allyouneed.storage.run_log import RunLog, read_log


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "log.jsonl"


def test_what_is_written_is_read_back_in_order_before_the_log_is_closed(path: Path) -> None:
    log = RunLog(path)
    log.write("start", step=0)
    log.write("train", step=1, loss=2.5)
    assert list(read_log(path)) == [{"event": "start", "step": 0}, {"event": "train", "step": 1, "loss": 2.5}]
    log.close()


def test_a_log_that_is_opened_again_is_appended_to(path: Path) -> None:
    for step in (1, 2):
        log = RunLog(path)
        log.write("train", step=step)
        log.close()
    assert [event["step"] for event in read_log(path)] == [1, 2]


@pytest.mark.parametrize("torn", [b'{"event": "tra', b'{"event": "train", "step": 2}', b'{"\xc3'])
def test_a_torn_last_line_costs_no_other_line(path: Path, torn: bytes) -> None:
    path.write_bytes(b'{"event": "train", "step": 1}\n' + torn)
    log = RunLog(path)
    log.write("train", step=3)
    log.close()
    assert [event["step"] for event in read_log(path) if event["step"] != 2] == [1, 3]
    assert path.read_bytes().endswith(torn + b'\n{"event": "train", "step": 3}\n')


def test_an_event_that_is_written_in_pieces_is_whole(path: Path) -> None:
    log = RunLog(path)
    whole = log._file.write
    pieces: Any = SimpleNamespace(write=lambda line: whole(line[:7]))
    log._file, file = pieces, log._file
    log.write("train", step=1, loss=2.5)
    log._file = file
    log.close()
    assert [*read_log(path)] == [{"event": "train", "step": 1, "loss": 2.5}]


def test_lines_that_are_no_events_are_passed_over(path: Path) -> None:
    path.write_bytes(b'\n[]\n7\n{"step": 1}\n{"event": "train"}\n')
    assert list(read_log(path)) == [{"event": "train"}]


@pytest.mark.parametrize(
    "line",
    [
        b'{"event": 3}',
        b'{"event": "train", "step": "two"}',
        b'{"event": "train", "step": 1.5}',
        b'{"event": "train", "step": 2, "loss": "low"}',
        b'{"event": "train", "step": 2, "loss": [1]}',
        b'{"event": "train", "step": 2, "loss": true}',
        b'{"event": "train", "step": 2, "loss": 1e31}',
        b'{"event": "train", "step": true}',
        b'{"event": "train", "step": null}',
        b"[" * 100_000,
    ],
    ids=lambda line: line[:40].decode(),
)
def test_lines_that_no_run_writes_are_passed_over(path: Path, line: bytes) -> None:
    path.write_bytes(b'{"event": "train", "step": 1, "loss": NaN}\n' + line + b"\n")
    assert [event["step"] for event in read_log(path)] == [1]


def test_a_pipe_in_the_place_of_the_log_is_refused_and_not_waited_for(path: Path) -> None:
    os.mkfifo(path)
    uses: list[Callable[[Path], object]] = [RunLog, lambda path: list(read_log(path))]
    for use in uses:
        with pytest.raises(
            UsageError, match=f"^{path}: is a pipe or a device, not a regular file; move it away$"
        ):
            use(path)
