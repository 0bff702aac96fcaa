"""Runs whose threads compute micro-batches side by side keep the promises of those of one thread."""

import signal
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.reliability.conftest import Laboratory


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGKILL, -signal.SIGKILL)])
def test_a_run_of_several_threads_that_is_ended_goes_on_to_the_bits_of_one_thread(
    laboratory: "Laboratory", tmp_path: Path, number: signal.Signals, code: int
) -> None:
    """Promise: Threads."""
    run = tmp_path / "run"
    program = laboratory.forker.start(
        *laboratory.arguments(run), fresh=True, environment={"OMP_NUM_THREADS": "3"}
    )
    laboratory.wait_for(run, "checkpoint", 1)
    assert laboratory.stop(program, run, number) == code
    laboratory.require_sound(run)
    laboratory.finish(run)
