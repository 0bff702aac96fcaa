"""What memory cannot hold at once is computed in parts.

Promise: Memory.
"""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from allyouneed.storage.run_log import Event, read_log

SCRIPT = Path(__file__).with_name("train_in_little_memory.py")


def train(run: Path, longest: int, *mebibytes: int) -> subprocess.CompletedProcess[bytes]:
    run.mkdir()
    command = [sys.executable, str(SCRIPT), str(run), str(longest), *map(str, mebibytes)]
    return subprocess.run(command, stderr=subprocess.PIPE, check=False)


def events(run: Path, event: str) -> list[Event]:
    return [logged for logged in read_log(run / "log.jsonl") if logged["event"] == event]


def test_micro_batches_that_memory_cannot_hold_are_cut_and_the_updates_stay_the_same(tmp_path: Path) -> None:
    ample, little = tmp_path / "ample", tmp_path / "little"
    assert train(ample, 200).returncode == 0
    assert train(little, 200, 100).returncode == 0
    assert not events(ample, "notice")
    notices = [event["text"] for event in events(little, "notice")]
    assert notices
    assert all(text.startswith("out of memory at update ") for text in notices)
    assert re.search(r"sentences of (\d+) tokens and more are computed in (\d+) parts", notices[-1])
    with_ample, with_little = ([event["loss"] for event in events(run, "train")] for run in (ample, little))
    assert with_little == pytest.approx(with_ample, rel=1e-5)


def test_where_memory_cannot_hold_one_pair_the_run_ends_with_one_line(tmp_path: Path) -> None:
    ended = train(tmp_path / "run", 4_000, 4)
    assert ended.returncode == 7
    (line,) = ended.stderr.decode().strip().split("\n")
    assert re.match(r"allyouneed: error\[E-MEMORY\]: memory cannot hold .* 4001 tokens \(line \d+ of", line)
