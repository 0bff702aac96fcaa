"""PyTorch's number of threads, a setting shared by the whole process."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import torch


class PyTorchThreads:
    """PyTorch's number of threads, shared by all concurrent users."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._num_users = self._before = 0

    @contextmanager
    def limited_to(self, num_threads: int) -> Iterator[None]:
        """Set the number within the context, also for threads started there before another user leaves.

        0 keeps the current number.
        """
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


PYTORCH_THREADS = PyTorchThreads()
