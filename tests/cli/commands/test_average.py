"""`average` makes one model of a run's last checkpoints, and says of which."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from allyouneed.storage.checkpoint import load_checkpoint

RunCommand = Callable[..., tuple[int, bytes, str]]


def steps_averaged(out: Path) -> list[str]:
    return [parent["checkpoint"] for parent in load_checkpoint(out).manifest["parents"]]


def test_by_default_as_many_are_averaged_as_the_run_is_configured_for(
    run_command: RunCommand, toy_run: Path, tmp_path: Path
) -> None:
    out = tmp_path / "models" / "first"
    code, told, err = run_command("average", toy_run, "--out", out)
    assert (code, err) == (0, "")
    assert told.decode() == f"{out}: the average of 2 checkpoints, step-00000100 to step-00000120\n"
    assert steps_averaged(out) == ["step-00000100", "step-00000120"]


def test_one_checkpoint_is_not_called_an_average(
    run_command: RunCommand, toy_run: Path, tmp_path: Path
) -> None:
    told = run_command("average", toy_run, "--last", "1", "--out", tmp_path / "model")[1].decode()
    assert told.endswith("model: step-00000120 as it is, as an average takes two checkpoints or more\n")


def test_the_weights_are_the_means(run_command: RunCommand, toy_run: Path, tmp_path: Path) -> None:
    assert run_command("average", toy_run, "--last", "3", "--out", tmp_path / "model")[0] == 0
    parents = [load_checkpoint(toy_run / "checkpoints" / f"step-{step:08}") for step in (80, 100, 120)]
    for name, mean in load_checkpoint(tmp_path / "model").weights.items():
        stacked = torch.stack([parent.weights[name] for parent in parents]).double()
        torch.testing.assert_close(mean, stacked.mean(dim=0).float())


@pytest.mark.parametrize("last", ["0", "-1", "6"])
def test_more_or_fewer_than_there_are_is_a_usage_error(
    run_command: RunCommand, toy_run: Path, tmp_path: Path, last: str
) -> None:
    code, out, err = run_command("average", toy_run, f"--last={last}", "--out", tmp_path / "model")
    assert (code, out) == (2, b"")
    assert err == (
        f"allyouneed: error[E-USAGE]: --last {last}: {toy_run} has 5 checkpoints; ask for 1 to 5\n"
    )
    assert list(tmp_path.iterdir()) == []


def test_what_is_no_run_has_no_checkpoints(run_command: RunCommand, tmp_path: Path) -> None:
    for run in (tmp_path, tmp_path / "absent"):
        code, _, err = run_command("average", run, "--out", tmp_path / "model")
        assert (code, err) == (4, f"allyouneed: error[E-MODEL]: {run}: has no checkpoints; train it first\n")
