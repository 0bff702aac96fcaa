"""The number of threads of PyTorch, which is one for all threads of the process."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import torch


class PyTorchThreads:
    """The number of threads of PyTorch, which is one for all that use it at once."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._num_users = self._before = 0

    @contextmanager
    def limited_to(self, num_threads: int) -> Iterator[None]:
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


PYTORCH_THREADS = PyTorchThreads()
