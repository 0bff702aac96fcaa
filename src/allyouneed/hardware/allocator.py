"""Whether the allocator of a process keeps freed memory."""

import ctypes
import sys

_M_TRIM_THRESHOLD, _M_TOP_PAD, _M_MMAP_THRESHOLD = -1, -2, -3
"""Parameters of `mallopt`, from glibc's malloc.h."""
_KEPT_BYTES = 1 << 30, 1 << 25
"""Largest block that is kept; glibc before 2.35 allows only the second value."""
_GROWTH_BYTES = 1 << 26
_GIVEN_BACK_BYTES = 1 << 22
"""Smallest block that is given back."""


def keep_freed_memory() -> None:
    """Let this process keep freed memory for the next step (GNU C library only).

    By default, glibc returns large blocks to the system. The system fills them with zeros, page by page, when
    they are allocated again: tens of megabytes for every large tensor of every step.
    """
    if any(_mallopt(_M_MMAP_THRESHOLD, size) for size in _KEPT_BYTES):
        _mallopt(_M_TRIM_THRESHOLD, _KEPT_BYTES[0])
        _mallopt(_M_TOP_PAD, _GROWTH_BYTES)


def give_back_freed_memory() -> None:
    """Let this process return large blocks to the system when it frees them (GNU C library only).

    By default, glibc keeps larger and larger blocks, up to 32 MiB, in one heap per thread. If batch sizes
    vary for hours, the holes in these heaps add up. Smaller blocks are kept for the next step.
    """
    _mallopt(_M_MMAP_THRESHOLD, _GIVEN_BACK_BYTES)
    _mallopt(_M_TRIM_THRESHOLD, 2 * _GIVEN_BACK_BYTES)  # the default of 128 KiB would empty the heaps


def _mallopt(name: int, value: int) -> bool:
    """Set a parameter of glibc's allocator; return whether glibc accepted it."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    return sys.platform == "linux" and mallopt is not None and bool(mallopt(name, value))
