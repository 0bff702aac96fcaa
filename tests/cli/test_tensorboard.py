"""What TensorBoard reads back is the run's log; a resumed run supersedes what it does again."""

import contextlib
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.packages import require_packages

from allyouneed.cli.tensorboard import TensorBoard
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
