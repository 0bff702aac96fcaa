"""Of two runs in one directory one trains; the other says which process does, and stops."""

import signal
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.patience import wait_until

if TYPE_CHECKING:
    from tests.forking.forker import Program
    from tests.reliability.conftest import Laboratory


@pytest.mark.parametrize("num_races", [2, pytest.param(20, marks=pytest.mark.release)])
def test_of_two_started_at_once_one_trains_and_the_next_one_may_when_it_is_killed(
    laboratory: "Laboratory", tmp_path: Path, num_races: int, record_property: Callable[[str, object], None]
) -> None:
    """Promise: Locks."""
    for race in range(num_races):
        run = tmp_path / f"run-{race}"
        loser, winner = loser_first(laboratory.start(run), laboratory.start(run))
        assert loser.wait() == 8, loser.said()
        (message,) = loser.errors()
        assert message.startswith(f"allyouneed: error[E-LOCKED]: {run}: process {winner.pid} on ")
        laboratory.wait_for(run, "train", 10)
        assert len(laboratory.logged(run, "start")) == 1
        winner.signal(signal.SIGKILL)
        assert winner.wait() == -signal.SIGKILL, winner.said()
        laboratory.finish(run)
    record_property("races for a lock", num_races)


def loser_first(*programs: "Program") -> Sequence["Program"]:
    """Both programs, that which was refused first; one of them is, soon."""
    wait_until(
        lambda: any(program.errors() for program in programs),
        lambda: [program.said() for program in programs],
    )
    return sorted(programs, key=lambda program: not program.errors())
