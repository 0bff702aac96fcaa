"""Progress is a bar on a terminal, plain lines elsewhere, and nothing under `--quiet`."""

import re
from collections.abc import Callable

import pytest

from allyouneed.cli.progress import ProgressLines, progress
from allyouneed.errors import talk

RunOnTerminal = Callable[..., tuple[str, str]]


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
        lines.advance(20, "loss 4.57, 12,346 tokens/s")
    remark = "loss 4.57, 12,346 tokens/s"
    assert capsys.readouterr().err.split("\n") == [
        f"allyouneed: train: 1,060/2,000 updates (53%), 0:07:50 left, 2 updates/s, {remark}",
        f"allyouneed: train: 1,120/2,000 updates (56%), 0:07:20 left, 2 updates/s, {remark}",
        "",
    ]


def test_the_total_may_change(capsys: pytest.CaptureFixture[str], run_on_terminal: RunOnTerminal) -> None:
    clock = Clock()
    lines = ProgressLines(100, "updates", "train", every_seconds=30, clock=clock)
    lines.expect(80)
    clock.now += 30
    lines.advance(20)
    assert "20/80 updates (25%)" in capsys.readouterr().err
    program = (
        "from allyouneed.cli.progress import progress\n"
        "with progress(100, unit='updates', description='train') as shown:\n"
        "    shown.expect(80)\n"
        "    shown.advance(20)\n"
    )
    assert "20/80" in run_on_terminal(program, COLUMNS="140")[1]


def test_the_rate_is_that_of_the_last_ten_minutes(capsys: pytest.CaptureFixture[str]) -> None:
    clock = Clock()
    lines = ProgressLines(10_000, "updates", "train", clock=clock)
    clock.now += 36_000  # stopped, or beside other programs
    for _ in range(21):
        clock.now += 30
        lines.advance(60)
    told = capsys.readouterr().err.splitlines()
    assert told[0] == "allyouneed: train: 60/10,000 updates (1%), 69 days, 2:02:50 left, 0.001665 updates/s"
    assert told[-1] == "allyouneed: train: 1,260/10,000 updates (13%), 1:12:50 left, 2 updates/s"


def test_without_a_total_only_the_count_and_the_rate_are_told(capsys: pytest.CaptureFixture[str]) -> None:
    clock = Clock()
    lines = ProgressLines(None, "lines", "translate", every_seconds=30, clock=clock)
    clock.now += 40
    lines.advance(1234)
    assert capsys.readouterr().err == "allyouneed: translate: 1,234 lines, 30.85 lines/s\n"


def test_seconds_have_no_speed_and_never_less_than_no_time_left(capsys: pytest.CaptureFixture[str]) -> None:
    clock = Clock()
    lines = ProgressLines(70, "seconds", "training", clock=clock)
    for seconds in (35, 36):  # the update that ends the budget ends after it
        clock.now += 35
        lines.advance(seconds, "2.1 updates/s")
    assert capsys.readouterr().err.split("\n")[:2] == [
        "allyouneed: training: 35/70 seconds (50%), 0:00:35 left, 2.1 updates/s",
        "allyouneed: training: 71/70 seconds (101%), 0:00:00 left, 2.1 updates/s",
    ]


def test_what_an_earlier_process_did_does_not_count_as_speed(capsys: pytest.CaptureFixture[str]) -> None:
    clock = Clock()
    lines = ProgressLines(20_000, "lines", "translate", done=5_000, clock=clock)
    lines.skip(9_000)
    clock.now += 40
    lines.advance(1_000)
    told = "15,000/20,000 lines (75%), 0:03:20 left, 25 lines/s"
    assert capsys.readouterr().err == f"allyouneed: translate: {told}\n"


@pytest.mark.parametrize(
    ("count", "unit", "told"),
    [
        (1, "lines", "1 line, 0.02 lines/s"),
        (50, "lines", "50 lines, 1 line/s"),
        (1_234_567_890, "bytes", "1.2 GB, 24.7 MB/s"),
        (60, "bytes", "60 bytes, 1 byte/s"),
    ],
)
def test_one_is_told_in_the_singular_and_bytes_in_larger_units(
    count: int, unit: str, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    clock = Clock()
    lines = ProgressLines(None, unit, "job", clock=clock)
    clock.now += 50
    lines.advance(count)
    assert capsys.readouterr().err == f"allyouneed: job: {told}\n"


@pytest.mark.parametrize("total", [10**15, 2**63 - 1])
def test_a_time_beyond_all_sense_is_told_as_such(total: int, capsys: pytest.CaptureFixture[str]) -> None:
    clock = Clock()
    lines = ProgressLines(total, "updates", "train", clock=clock)
    clock.now += 40
    lines.advance(20)
    assert "over 1,000 years left" in capsys.readouterr().err


def test_no_progress_yet_promises_no_time_left(capsys: pytest.CaptureFixture[str]) -> None:
    clock = Clock()
    lines = ProgressLines(10, "lines", "translate", clock=clock)
    clock.now += 30
    lines.advance(0)
    assert capsys.readouterr().err == "allyouneed: translate: 0/10 lines (0%), 0 lines/s\n"


@pytest.mark.parametrize("setting", ["NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE"])
def test_a_short_job_off_a_terminal_says_nothing(
    setting: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(setting, "1")
    with progress(10, unit="updates", description="train") as bar:
        bar.advance(10, "loss 1.00")
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


SHORT_JOB = """
from allyouneed.errors import notice
from allyouneed.cli.progress import progress
with progress(5, unit="updates", description="train [x]") as bar:
    for step in range(5):
        bar.advance(1, "loss 3.21, 11,200 tokens/s, 47% of peak, 1.9 GiB")
        print("data", step)
    notice("saved")
"""


def test_a_terminal_gets_a_bar_and_standard_output_stays_clean(run_on_terminal: RunOnTerminal) -> None:
    data, shown = run_on_terminal(SHORT_JOB)
    assert data == "".join(f"data {step}\n" for step in range(5))
    for part in ("train [x] (updates)", "5/5", "loss 3.21, 11,200 tokens/s", "allyouneed: saved", "\x1b["):
        assert part in shown


def test_a_terminal_of_eighty_columns_has_room_for_all_figures(run_on_terminal: RunOnTerminal) -> None:
    _, shown = run_on_terminal(SHORT_JOB, COLUMNS="80", NO_COLOR="1")
    told = r"train \[x\] 5/5 loss 3.21, 11,200 tokens/s, 47% of peak, 1.9 GiB 0:00:00"
    assert re.search(told, plain(shown))


def plain(shown: str) -> str:
    """What a terminal has shown, without its control sequences."""
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", shown)


@pytest.mark.parametrize("columns", ["40", "60"])
def test_a_narrow_terminal_cuts_off_the_remark_and_keeps_the_time_left(
    columns: str, run_on_terminal: RunOnTerminal
) -> None:
    _, shown = run_on_terminal(SHORT_JOB, COLUMNS=columns)
    assert re.search(r"train \[x\] 5/5 loss 3\.2[^\r]*… 0:00:00", plain(shown))


COPY = """
from allyouneed.cli.progress import progress
with progress(None, unit="bytes", description="copy") as bar:
    bar.skip(1_000_000_000)
    bar.advance(234_567_890)
"""


def test_of_an_unknown_total_a_terminal_shows_what_is_done_and_the_time_it_took(
    run_on_terminal: RunOnTerminal,
) -> None:
    _, shown = run_on_terminal(COPY, COLUMNS="80")
    assert re.search(r"copy 1\.2 GB +0:00:0\d", plain(shown))
    assert "?" not in plain(shown)


def test_no_color_is_respected(run_on_terminal: RunOnTerminal) -> None:
    _, shown = run_on_terminal(SHORT_JOB, NO_COLOR="1")
    assert "5/5" in shown
    assert "\x1b[3" not in shown
