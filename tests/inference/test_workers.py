"""Threads that work beside each other: what one does to the others."""

import threading
from contextlib import ExitStack

import pytest
import torch
from tests.patience import PATIENCE_SECONDS

from allyouneed.hardware.threads import PyTorchThreads
from allyouneed.inference.workers import run_in_threads


def test_all_do_the_same_work() -> None:
    together = threading.Barrier(3, timeout=PATIENCE_SECONDS)
    waited: list[int] = []
    run_in_threads(lambda stop: waited.append(together.wait()), 3)
    assert sorted(waited) == [0, 1, 2]
    names: list[threading.Thread] = []
    run_in_threads(lambda stop: names.append(threading.current_thread()), 1)
    assert names == [threading.main_thread()]


def test_what_goes_wrong_in_one_stops_the_others() -> None:
    stopped: list[bool] = []

    def work(stop: threading.Event) -> None:
        if not first.acquire(blocking=False):
            stopped.append(stop.wait(PATIENCE_SECONDS))
            return
        raise OSError("broken")

    first = threading.Semaphore(1)
    with pytest.raises(OSError, match="broken"):
        run_in_threads(work, 3)
    assert stopped == [True, True]


def test_an_interruption_of_the_caller_stops_all(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    stopped: list[bool] = []
    monkeypatch.setattr("allyouneed.inference.workers.wait", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run_in_threads(lambda stop: stopped.append(stop.wait(PATIENCE_SECONDS)), 2)
    assert stopped == [True, True]


def test_two_that_use_pytorch_at_once_leave_its_threads_as_they_were() -> None:
    before, threads = torch.get_num_threads(), PyTorchThreads()
    first, second = threads.limited_to(1), threads.limited_to(1)
    with ExitStack() as stack:
        stack.enter_context(first)
        with second:
            assert torch.get_num_threads() == 1
            stack.close()
    assert torch.get_num_threads() == before
