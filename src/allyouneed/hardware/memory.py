"""The memory of a process: what there is, what is in use, and what is kept when it is freed."""

import ctypes
import os
import resource
import sys
from pathlib import Path

import torch

from allyouneed.errors import ResourceError
from allyouneed.hardware.machine import field_of

_M_TRIM_THRESHOLD, _M_TOP_PAD, _M_MMAP_THRESHOLD = -1, -2, -3
"""Names of `mallopt`'s settings in glibc's malloc.h."""
_KEPT_BYTES = 1 << 30, 1 << 25
"""Blocks up to this size; the second is what glibc allows before 2.35."""
_GROWTH_BYTES = 1 << 26
_GIVEN_BACK_BYTES = 1 << 22
"""Blocks from this size on."""
_STATUS = Path("/proc/self/status")


def require_memory(num_bytes: int) -> None:
    """Refuse what does not fit into the machine's memory, before any of it is allocated.

    Raises:
        ResourceError: `num_bytes` are more than there is.
    """
    there = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    if num_bytes > there:
        raise ResourceError(
            f"the model needs {num_bytes:,} bytes of memory, and this machine has {there:,}; make it smaller "
            "(`allyouneed plan` shows what takes how much)"
        )


def memory_bytes(device: torch.device) -> int:
    """The most memory that was in use at once: of this process, or on a GPU of PyTorch's tensors there."""
    if device.type == "cuda":
        return int(torch.cuda.max_memory_allocated(device))
    if _STATUS.is_file():  # Linux's `ru_maxrss` may be that of the process which started this one
        return 1024 * int(field_of(_STATUS, "VmHWM").split()[0])
    unit = 1 if sys.platform == "darwin" else 1024
    return unit * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def keep_freed_memory() -> None:
    """Let this process keep the memory that it frees, for the next step; of effect with the GNU C library.

    By default glibc gives large blocks back to the system, which fills them with zeros, page by page, when
    they are asked for again: tens of megabytes for every large tensor of every step.
    """
    if any(_mallopt(_M_MMAP_THRESHOLD, size) for size in _KEPT_BYTES):
        _mallopt(_M_TRIM_THRESHOLD, _KEPT_BYTES[0])
        _mallopt(_M_TOP_PAD, _GROWTH_BYTES)


def give_back_freed_memory() -> None:
    """Let this process give back large blocks as it frees them; of effect with the GNU C library.

    By default glibc keeps larger and larger ones, up to 32 MiB, in a heap for each thread, and where the
    sizes of batches vary for hours the holes of these heaps add up. Smaller ones are kept for the next step.
    """
    _mallopt(_M_MMAP_THRESHOLD, _GIVEN_BACK_BYTES)
    _mallopt(_M_TRIM_THRESHOLD, 2 * _GIVEN_BACK_BYTES)  # else that of 128 KiB would hold, which empties heaps


def _mallopt(name: int, value: int) -> bool:
    """Set one of glibc's numbers; whether it was taken."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    return sys.platform == "linux" and mallopt is not None and bool(mallopt(name, value))
