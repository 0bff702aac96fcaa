"""`kill -9` at any time loses no more than the work since the last checkpoint, and changes not one bit."""

import json
import random
import signal
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.patience import wait_until

if TYPE_CHECKING:
    from tests.reliability.conftest import Laboratory


@pytest.mark.parametrize("num_kills", [6, pytest.param(50, marks=pytest.mark.release)])
def test_runs_killed_at_random_times_end_with_the_same_bits(
    laboratory: "Laboratory", tmp_path: Path, num_kills: int, record_property: Callable[[str, object], None]
) -> None:
    """Promise: Kills."""
    kills = runs = mid_epoch = 0
    while kills < num_kills:
        run = tmp_path / f"run-{runs}"
        while kills < num_kills:
            program = laboratory.start(run)
            if mid_epoch:
                time.sleep(random.uniform(0.05, 0.7))
            else:  # on a slow machine no random time would be late enough
                wait_until(partial(goes_on_within_an_epoch, run), program.said)
            program.signal(signal.SIGKILL)
            if (code := program.wait()) == 0:
                break
            assert code == -signal.SIGKILL, program.said()
            kills += 1
            laboratory.require_sound(run)
            mid_epoch += goes_on_within_an_epoch(run)
            assert not (run / "exit.json").exists()
        laboratory.finish(run)
        runs += 1
    assert mid_epoch > 0
    record_property("kill -9", kills)
    record_property("runs", runs)
    record_property("kills after which a run goes on within an epoch", mid_epoch)


def goes_on_within_an_epoch(run: Path) -> bool:
    """Whether a state of the run is from within an epoch; one that is deleted meanwhile counts as none."""
    states = (run / "state").glob("step-????????/state.json")
    try:
        return any(json.loads(path.read_bytes())["position"]["step"] > 0 for path in states)
    except FileNotFoundError:
        return False
