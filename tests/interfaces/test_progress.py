"""Progress is a bar on a terminal, plain lines elsewhere, and nothing under `--quiet`."""

import os
import pty
import subprocess
import sys

import pytest

from allyouneed.interfaces.console import talk
from allyouneed.interfaces.progress import ProgressLines, progress


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


def test_a_line_comes_at_most_every_interval_and_tells_rate_and_time_left(
    capsys: pytest.CaptureFixture[str],
) -> None:
    clock = Clock()
    lines = ProgressLines(2000, "updates", "train", done=1000, every_seconds=30, clock=clock)
    for _ in range(7):
        clock.now += 10
        lines.advance(20, loss=4.5678, tokens_per_second=12345.6)
    values = "loss 4.568, tokens per second 12,346"
    assert capsys.readouterr().err.split("\n") == [
        f"allyouneed: train: 1,060/2,000 updates (53%), 0:07:50 left, 2 updates/s, {values}",
        f"allyouneed: train: 1,120/2,000 updates (56%), 0:07:20 left, 2 updates/s, {values}",
        "",
    ]


def test_without_a_total_only_the_count_and_the_rate_are_told(capsys: pytest.CaptureFixture[str]) -> None:
    clock = Clock()
    lines = ProgressLines(None, "lines", "translate", every_seconds=30, clock=clock)
    clock.now += 40
    lines.advance(1234)
    assert capsys.readouterr().err == "allyouneed: translate: 1,234 lines, 30.85 lines/s\n"


def test_no_progress_yet_promises_no_time_left(capsys: pytest.CaptureFixture[str]) -> None:
    clock = Clock()
    lines = ProgressLines(10, "lines", "translate", clock=clock)
    clock.now += 30
    lines.advance(0)
    assert capsys.readouterr().err == "allyouneed: translate: 0/10 lines (0%), 0 lines/s\n"


def test_a_short_job_off_a_terminal_says_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    with progress(10, unit="updates", description="train") as bar:
        bar.advance(10, loss=1.0)
    assert capsys.readouterr() == ("", "")


def test_quiet_progress_says_nothing(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(talk, "quiet", True)
    clock = Clock()
    lines = ProgressLines(10, "lines", "translate", clock=clock)
    clock.now += 100
    lines.advance()
    assert capsys.readouterr() == ("", "")


def run_on_terminal(**environment: str) -> tuple[str, str]:
    """Run a short job whose standard error alone is a terminal; what came on stdout, and on the terminal."""
    code = """
from allyouneed.interfaces.console import notice
from allyouneed.interfaces.progress import progress
with progress(5, unit="updates", description="train [x]") as bar:
    for step in range(5):
        bar.advance(loss=0.25)
        print("data", step)
    notice("saved")
"""
    terminal, end = pty.openpty()
    settings = {k: v for k, v in os.environ.items() if k not in ("NO_COLOR", "FORCE_COLOR")}
    command = [sys.executable, "-c", code]
    environment = settings | {"TERM": "xterm", "COLUMNS": "120"} | environment
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=end, env=environment, check=True)
    os.close(end)
    shown = b""
    while block := read_terminal(terminal):
        shown += block
    os.close(terminal)
    return done.stdout.decode(), shown.decode()


def read_terminal(terminal: int) -> bytes:
    try:
        return os.read(terminal, 1 << 16)
    except OSError:  # Linux reports the end of a terminal like this
        return b""


def test_a_terminal_gets_a_bar_and_standard_output_stays_clean() -> None:
    data, shown = run_on_terminal()
    assert data == "".join(f"data {step}\n" for step in range(5))
    for part in ("train [x] (updates)", "5/5", "loss 0.25", "allyouneed: saved", "\x1b["):
        assert part in shown


def test_no_color_is_respected() -> None:
    _, shown = run_on_terminal(NO_COLOR="1")
    assert "5/5" in shown
    assert "\x1b[3" not in shown
