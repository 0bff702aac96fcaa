"""Threads that decode beside each other."""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from contextlib import contextmanager

import torch

from allyouneed.inference.engine import Engine
from allyouneed.inference.ensemble import Ensemble
from allyouneed.model.evaluation_mode import evaluation_mode


def run_in_threads(work: Callable[[threading.Event], None], num_threads: int) -> None:
    """Do the same work in several threads; one alone does it in this one.

    Args:
        work: Ends soon after its event is set, as it is when anything goes wrong in a thread, or in this one
            (Ctrl-C).
        num_threads: How many.
    """
    stop = threading.Event()
    if num_threads == 1:
        work(stop)
        return
    with ThreadPoolExecutor(num_threads) as pool:
        running = [pool.submit(work, stop) for _ in range(num_threads)]
        try:
            wait(running, return_when=FIRST_EXCEPTION)
        finally:
            stop.set()
        for ended in running:
            ended.result()


@contextmanager
def ready_to_decode(engine: Engine | Ensemble) -> Iterator[None]:
    """No dropout, and no more threads of PyTorch's own than the engine has: workers share the cores."""
    members = engine.engines if isinstance(engine, Ensemble) else [engine]
    with evaluation_mode(engine.model), _PYTORCH.with_threads(max(member.threads for member in members)):
        yield


class PyTorchThreads:
    """The number of threads of PyTorch, which is one for all that use it at once."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._num_users = self._before = 0

    @contextmanager
    def with_threads(self, num_threads: int) -> Iterator[None]:
        """So many inside, also in threads that are started there; 0 leaves it as it is."""
        with self._lock:
            if not self._num_users:
                self._before = torch.get_num_threads()
            self._num_users += 1
        torch.set_num_threads(num_threads or self._before)
        try:
            yield
        finally:
            with self._lock:
                self._num_users -= 1
            torch.set_num_threads(self._before)


_PYTORCH = PyTorchThreads()
