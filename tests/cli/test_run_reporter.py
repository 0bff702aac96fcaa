"""What TensorBoard reads back is the run's log; a resumed run supersedes what it does again.

A run's events are shown as progress; figures that an older log does not have are left out.
"""

import contextlib
import functools
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.packages import require_packages

from allyouneed.cli import progress
from allyouneed.cli.progress import ProgressLines
from allyouneed.cli.run_reporter import TensorBoard, run_reporter
from allyouneed.errors import UsageError


def write(run: Path, *events: dict[str, Any]) -> None:
    with contextlib.ExitStack() as stack:
        board = TensorBoard(run, stack)
        for event in events:
            board(event)


def train(step: int, loss: float) -> dict[str, Any]:
    return {"event": "train", "step": step, "loss": loss, "learning_rate": step / 1000}


def read(run: Path) -> dict[str, list[tuple[int, float]]]:
    """Tag -> the points that TensorBoard would draw."""
    require_packages("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    found = EventAccumulator(str(run / "tensorboard"))
    found.Reload()
    return {tag: [(p.step, p.value) for p in found.Scalars(tag)] for tag in found.Tags()["scalars"]}


def test_numbers_of_training_and_validation_come_back_under_their_names(tmp_path: Path) -> None:
    require_packages("tensorboard")
    validate = {"event": "validate", "step": 20, "loss": 2.5, "bleu": None}
    start, saved = {"event": "start", "step": 0}, {"event": "checkpoint", "step": 20, "seconds": 1.0}
    write(tmp_path, start, train(10, 4.0), train(20, 3.0), validate, saved)
    assert read(tmp_path) == {
        "train/loss": [(10, 4.0), (20, 3.0)],
        "train/learning_rate": [(10, pytest.approx(0.01)), (20, pytest.approx(0.02))],
        "validate/loss": [(20, 2.5)],
    }


def test_steps_that_are_done_again_after_a_resume_are_superseded(tmp_path: Path) -> None:
    require_packages("tensorboard")
    write(tmp_path, {"event": "start", "step": 0}, train(10, 4.0), train(20, 3.0), train(30, 2.0))
    first = next((tmp_path / "tensorboard").iterdir())
    first.rename(first.with_name("events.out.tfevents.1.first"))  # else of one second, and unordered
    write(tmp_path, {"event": "start", "step": 10}, train(20, 3.5))
    assert read(tmp_path)["train/loss"] == [(10, 4.0), (20, 3.5)]


def test_a_missing_package_is_told_with_how_to_get_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "tensorboard", None)
    monkeypatch.delitem(sys.modules, "torch.utils.tensorboard", raising=False)
    with pytest.raises(UsageError, match=r"needs tensorboard: pip install 'allyouneed\[tensorboard\]'"):
        TensorBoard(tmp_path, contextlib.ExitStack())
    assert list(tmp_path.iterdir()) == []


RunOnTerminal = Callable[..., tuple[str, str]]

REPORT = """
import contextlib
from pathlib import Path
from allyouneed.cli.run_reporter import RunReporter
with contextlib.ExitStack() as stack:
    report = RunReporter(Path("runs/x"), stack)
    report({{"event": "start", "step": 100, "num_steps": 300, "parameters": 1234, "budgets": {{}}}})
    train = {{"event": "train", "step": 150, "loss": 3.214, "target_tokens_per_second": 11_204.7}}
    report(train | {figures})
    report({{"event": "notice", "step": 150, "text": "out of memory"}})
    report({{"event": "validate", "step": 150, "loss": 3.5, "perplexity": 33.1, "bleu": 12.345}})
"""


def test_the_bar_follows_an_end_that_is_moved(run_on_terminal: RunOnTerminal) -> None:
    moved = REPORT.replace('"text": "out of memory"', '"text": "slower", "num_steps": 250')
    _, shown = run_on_terminal(moved.format(figures={}), NO_COLOR="1", COLUMNS="140")
    assert "150/250" in shown


@pytest.mark.parametrize(
    ("figures", "remark"),
    [
        ({}, "loss 3.21, 11,205 tokens/s "),
        ({"share_of_peak": 0.466}, "loss 3.21, 11,205 tokens/s, 47% of peak "),
        ({"share_of_peak": 0.466, "memory_bytes": 2_040_109_466}, "tokens/s, 47% of peak, 1.9 GiB "),
    ],
)
def test_the_bar_shows_what_the_event_tells(
    run_on_terminal: RunOnTerminal, figures: dict[str, float], remark: str
) -> None:
    _, shown = run_on_terminal(REPORT.format(figures=figures), NO_COLOR="1", COLUMNS="140")
    assert "allyouneed: runs/x: 1,234 parameters, 300 updates in all" in shown
    assert remark in shown
    assert "150/300" in shown
    assert "allyouneed: runs/x: out of memory" in shown
    assert "allyouneed: step 150: validation loss 3.500, perplexity 33.10, BLEU 12.35 (greedy)" in shown


BUDGET = """
import contextlib
from pathlib import Path
from allyouneed.cli.run_reporter import RunReporter
with contextlib.ExitStack() as stack:
    report = RunReporter(Path("runs/x"), stack)
    budgets = {budgets}
    report({{"event": "start", "step": 9, "num_steps": 10_000_000, "parameters": 1234, "budgets": budgets}})
    used = {{"seconds": 150.7, "matmul_flops": 8.25e12}}
    report({{"event": "train", "step": 70, "loss": 3.2, "target_tokens_per_second": 11_204, **used,
            "updates_per_second": 2.1342}})
"""


@pytest.mark.parametrize(
    ("budgets", "ends", "position"),
    [
        ({"seconds": [100.4, 600.0]}, "600 seconds or 10,000,000 updates in all", "150/600"),
        ({"matmul_flops": [0.0, 3.3e13]}, "33,000 GFLOPs or 10,000,000 updates in all", "8,250/33,000"),
        (
            {"seconds": [100.4, 600.0], "matmul_flops": [0.0, 3.3e13]},
            "600 seconds or 33,000 GFLOPs or 10,000,000 updates in all",
            "150/600",
        ),
    ],
)
def test_the_bar_of_a_run_with_a_budget_counts_what_is_used_of_it(
    run_on_terminal: RunOnTerminal, budgets: dict[str, list[float]], ends: str, position: str
) -> None:
    _, shown = run_on_terminal(BUDGET.format(budgets=budgets), NO_COLOR="1", COLUMNS="140")
    assert f"1,234 parameters, {ends}" in shown
    assert position in shown
    assert "loss 3.20, 2.134 updates/s, 11,204 tokens/s" in shown


def test_a_budget_of_seconds_tells_updates_and_tokens_per_second_off_a_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = functools.partial(ProgressLines, clock=iter([0.0, 40.0]).__next__)
    monkeypatch.setattr(progress, "ProgressLines", lines)
    with run_reporter(Path("runs/x")) as report:
        budgets = {"seconds": [100.0, 600.0]}
        start = {"event": "start", "step": 9, "num_steps": 1, "parameters": 1234, "budgets": budgets}
        report(start)
        speeds = {"updates_per_second": 2.1342, "target_tokens_per_second": 11_204}
        report({"event": "train", "step": 70, "loss": 3.2, "seconds": 140.0, **speeds})
    assert capsys.readouterr().err.split("\n") == [
        "allyouneed: runs/x: 1,234 parameters, 600 seconds or 1 update in all",
        "allyouneed: training: 140/600 seconds (23%), 0:07:40 left, loss 3.20, 2.134 updates/s, "
        "11,204 tokens/s",
        "",
    ]
