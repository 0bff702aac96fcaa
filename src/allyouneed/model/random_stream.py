"""The random numbers of a thread that trains beside others; PyTorch's own generator is shared by all."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import torch


class _OfThread(threading.local):
    generator: torch.Generator | None = None


_OF_THREAD = _OfThread()


def generator() -> torch.Generator | None:
    """The generator of this thread, on the CPU; None is PyTorch's own."""
    return _OF_THREAD.generator


@contextmanager
def drawing_from(stream: torch.Generator) -> Iterator[None]:
    """Let the modules of the model draw from `stream` in this thread."""
    before, _OF_THREAD.generator = _OF_THREAD.generator, stream
    try:
        yield
    finally:
        _OF_THREAD.generator = before
