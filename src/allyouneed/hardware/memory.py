"""The memory of a process and of accelerators: their size, and peak use."""

import os
import re
import resource
import sys
from pathlib import Path

import torch

from allyouneed.errors import ResourceError
from allyouneed.hardware.processor import container_memory_bytes

_STATUS = Path("/proc/self/status")


def require_memory(num_bytes: int) -> None:
    """Raise ResourceError if `num_bytes`, to be allocated, exceed the memory of the machine or container."""
    available = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    available = min(available, container_memory_bytes() or available)
    if num_bytes > available:
        raise ResourceError(
            f"the model needs {num_bytes:,} bytes of memory, and this machine has {available:,}; "
            "make it smaller (`allyouneed plan` shows the memory of each part)"
        )


def memory_bytes(device: torch.device) -> int:
    """Peak memory in bytes: of this process, or on an accelerator of PyTorch's tensors.

    Metal records no peak; on `mps` this is what its driver has allocated now, which rarely shrinks.
    """
    if device.type == "mps":
        return torch.mps.driver_allocated_memory()
    if device.type != "cpu":
        return torch.accelerator.max_memory_allocated(device)
    status = (
        _STATUS.read_bytes() if _STATUS.is_file() else b""
    )  # on Linux; gVisor has the file without a peak
    if peak := re.search(rb"^VmHWM:\s*(\d+)", status, re.MULTILINE):  # `ru_maxrss` may be the parent's
        return 1024 * int(peak[1])
    unit = 1 if sys.platform == "darwin" else 1024
    return unit * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def forget_peak_memory(device: torch.device) -> None:
    """Let the peak of an accelerator begin again with what is in use now; that of a process stays."""
    if device.type not in ("cpu", "mps"):
        torch.accelerator.reset_peak_memory_stats(device)


def total_memory_bytes(device: torch.device) -> int:
    """Memory of an accelerator in bytes; on `mps` as much of the machine's memory as Metal recommends."""
    if device.type == "mps":
        return torch.mps.recommended_max_memory()
    return torch.accelerator.get_memory_info(device)[1]


def has_pinned_memory(device: torch.device) -> bool:
    """Whether copies from pinned main memory to the device proceed while the host works on.

    Not on `mps`: it shares the main memory, and PyTorch cannot pin memory for it.
    """
    return device.type not in ("cpu", "mps")


def empty_cache(device: torch.device) -> None:
    """Return the memory that PyTorch's allocator keeps for an accelerator to the system."""
    if device.type != "cpu":
        torch.get_device_module(device).empty_cache()
