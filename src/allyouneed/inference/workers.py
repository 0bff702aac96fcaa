"""Threads that decode beside each other."""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from contextlib import contextmanager

from allyouneed.hardware.threads import PYTORCH_THREADS
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
    with evaluation_mode(engine.model), PYTORCH_THREADS.limited_to(max(member.threads for member in members)):
        yield
