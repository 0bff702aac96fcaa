"""Millions of pairs are prepared in bounded memory, and a kill loses little.

Promise: Preparation.
"""

import random
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from tests.patience import wait_until

from allyouneed.preparation.journal import UNFINISHED
from allyouneed.preparation.prepared_data import PreparedData

NUM_PAIRS, MEAN_WORDS, AT_ONCE = 5_000_000, 10, 50_000
MOST_MEMORY = 1.5 * 2**30
SECONDS_FOR_ALL = 3_000.0


def write_text(path: Path, seed: int) -> None:
    """Lines of frequent and rare words, some of them new, as numbers and names are."""
    draw, words = np.random.default_rng(seed), np.array([f"w{n:x}" for n in range(60_000)], object)
    with path.open("wb") as file:
        for _ in range(0, NUM_PAIRS, AT_ONCE):
            lengths = draw.poisson(MEAN_WORDS, AT_ONCE).clip(1)
            chosen = words[np.minimum(draw.zipf(1.2, int(lengths.sum())), len(words)) - 1]
            new = (draw.random(len(chosen)) < 0.01).nonzero()[0]
            chosen[new] = [f"n{n}" for n in draw.integers(0, 10_000_000, len(new))]
            lines = (" ".join(line) for line in np.split(chosen, lengths.cumsum()[:-1]))
            file.write(("\n".join(lines) + "\n").encode())


def processes_of(pid: int) -> Iterator[int]:
    """A process and all that it has started."""
    yield pid
    with suppress(OSError):
        for path in Path(f"/proc/{pid}/task").glob("*/children"):
            for child in path.read_bytes().split():
                yield from processes_of(int(child))


def memory_of(pid: int) -> int:
    """The resident memory of a process and those that it has started, shared pages counted once; in bytes."""
    total = 0
    for process in processes_of(pid):
        with suppress(OSError):  # of one that has just ended
            for line in Path(f"/proc/{process}/smaps_rollup").read_bytes().split(b"\n"):
                if line.startswith(b"Pss:"):
                    total += int(line.split()[1]) * 1024
    return total


@pytest.mark.release
@pytest.mark.skipif(not Path("/proc/self/smaps_rollup").exists(), reason="NOT RUN: needs /proc")
def test_five_million_pairs_with_three_kills_have_the_bytes_of_one_that_was_not_killed(
    tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    for seed, language in enumerate(("en", "de")):
        write_text(tmp_path / language, seed)
    files = ["--source", str(tmp_path / "en"), "--target", str(tmp_path / "de")]
    peak = 0

    def start(name: str, *options: str) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "allyouneed", "prepare", str(tmp_path / name), *files, *options]
        return subprocess.Popen(command, stderr=subprocess.DEVNULL)

    def run(program: subprocess.Popen[bytes], milestone: int | None = None) -> None:
        """Wait for the end, or for a milestone; note the memory."""
        journal, seen = tmp_path / "killed.tmp-unfinished" / "content" / UNFINISHED, set[int]()

        def is_there() -> bool:
            nonlocal peak
            if program.poll() is not None:
                return True
            peak = max(peak, memory_of(program.pid))
            if milestone is not None and journal.exists():
                seen.add(journal.stat().st_mtime_ns)
            return milestone is not None and len(seen) > milestone

        wait_until(is_there, seconds=SECONDS_FOR_ALL, pause_seconds=0.2)

    whole = start("whole", "--workers", "1")
    run(whole)
    assert whole.returncode == 0
    draw = random.Random(1)
    for _ in range(3):
        program = start("killed")
        run(program, draw.randint(2, 5))
        assert program.poll() is None, "it has ended before it could be killed"
        program.send_signal(signal.SIGKILL)
        program.wait()
    last = start("killed", "--workers", "2")
    run(last)
    assert last.returncode == 0
    data, expected = PreparedData(tmp_path / "killed"), PreparedData(tmp_path / "whole")
    assert data.facts == expected.facts
    for name in ("report.json", "MANIFEST.json"):
        assert (data.directory / name).read_bytes() == (expected.directory / name).read_bytes()
    record_property("MiB of memory", peak >> 20)
    assert peak < MOST_MEMORY, f"{peak / 2**20:,.0f} MiB"
    assert data.train.num_pairs > 0.9 * NUM_PAIRS
