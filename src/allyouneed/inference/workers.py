"""Threads that decode in parallel."""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from contextlib import contextmanager

from allyouneed.hardware.threads import PYTORCH_THREADS
from allyouneed.inference.engine import Engine
from allyouneed.inference.ensemble import Ensemble
from allyouneed.model.evaluation_mode import evaluation_mode


def run_in_threads(work: Callable[[threading.Event], None], num_threads: int) -> None:
    """Run `work` in several threads, or in the calling thread if `num_threads` is 1.

    Args:
        work: Function that must return soon after its event is set; a failure in any thread, including
            Ctrl-C in the calling one, sets it.
        num_threads: Number of threads.
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
    """Disable dropout and limit PyTorch to the engine's number of threads, as workers share the cores."""
    members = engine.engines if isinstance(engine, Ensemble) else [engine]
    with (
        evaluation_mode(engine.modules),
        PYTORCH_THREADS.limited_to(max(member.threads for member in members)),
    ):
        yield
