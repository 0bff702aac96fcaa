"""Runs that are moved while they train, states that are none, and models that are taken for runs."""

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from allyouneed.runs.starting import average
from allyouneed.storage.publish import publish_directory
from allyouneed.storage.run_directory import RunDirectory

if TYPE_CHECKING:
    from tests.reliability.conftest import Laboratory


def contents(directory: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in sorted(directory.rglob("*")) if path.is_file()}


@pytest.mark.parametrize("options", [[], ["--resume"]])
def test_a_model_is_no_run_and_is_left_alone(
    laboratory: "Laboratory", tmp_path: Path, options: list[str]
) -> None:
    """Promise: Place."""
    average(laboratory.whole, tmp_path / "model")
    before = contents(tmp_path)
    program = laboratory.forker.start(*laboratory.arguments(tmp_path / "model", *options))
    assert program.wait() == 2
    assert program.errors() == [
        f"allyouneed: error[E-USAGE]: {tmp_path / 'model'}: exists and is no run; name a new folder"
    ]
    assert contents(tmp_path) == before


def test_a_run_that_is_moved_while_it_trains_ends_there_and_goes_on_where_it_is(
    laboratory: "Laboratory", tmp_path: Path
) -> None:
    """Promise: Place."""
    run, elsewhere = tmp_path / "run", tmp_path / "elsewhere"
    program = laboratory.start(run, "--steps", "1000000")
    laboratory.wait_for(run, "checkpoint", 10)
    run.rename(elsewhere)
    assert program.wait() == 6, program.said()
    (message,) = program.errors()
    assert message.startswith(f"allyouneed: error[E-DISK]: {run}")
    assert "Traceback" not in program.said()
    assert not run.exists()
    steps = RunDirectory(elsewhere).resumable_steps()
    assert laboratory.start(elsewhere, "--steps", str(steps[-1] + 1)).wait() == 0


def changed(**changes: Any) -> Callable[[bytes], bytes]:
    return lambda content: json.dumps({**json.loads(content), **changes}).encode()


PROGRESS: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda content: b"",
    "an empty object": lambda content: b"{}",
    "a list": lambda content: b"[]",
    "half": lambda content: content[: len(content) // 2],
    "no UTF-8": lambda content: b"\xff" + content,
    "nested too deep": lambda content: b"[" * 100_000,
    "an integer of 5,000 digits": lambda content: b'{"step": ' + b"7" * 5_000 + b"}",
    "a step that is a text": changed(step="50"),
    "another step": changed(step=49),
    "a best that is none": changed(best={"value": 1.0}),
    "skipped updates that are none": changed(skipped=[0]),
    "seconds that are none": changed(seconds="nan"),
}


@pytest.mark.parametrize("change", PROGRESS.values(), ids=PROGRESS)
def test_where_the_progress_of_the_newest_state_cannot_be_the_one_before_is_taken(
    laboratory: "Laboratory", tmp_path: Path, change: Callable[[bytes], bytes]
) -> None:
    """The manifest of the state lists the file as it is.

    Promise: Damage.
    """
    run = Path(shutil.copytree(laboratory.whole, tmp_path / "run"))
    state = RunDirectory(run).state(50)
    state.rename(tmp_path / "state")
    with publish_directory(state, "state") as aside:
        for name in ("state.json", "state.safetensors"):
            content = (tmp_path / "state" / name).read_bytes()
            (aside / name).write_bytes(change(content) if name == "state.json" else content)
    program = laboratory.start(run)
    assert program.wait() == 0, program.said()
    assert re.search(
        f"NOTICE: {state}.*; take another copy.*; the checkpoint before it is tried", program.said()
    )
    assert f"{run}: resumed at step 40" in program.said()
    assert laboratory.bits(run) == laboratory.bits(laboratory.whole)
