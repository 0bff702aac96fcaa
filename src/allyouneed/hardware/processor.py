"""The processor: its model, its cores, and the instruction sets that it has."""

import ctypes
import functools
import math
import os
import platform
import subprocess
import sys
from pathlib import Path

_ARCH_PRCTL, _REQUEST_PERMISSION, _TILE_DATA = 158, 0x1023, 18
"""A system call of Linux on x86-64, and what it is asked for (asm/prctl.h)."""
_CONTAINER = Path("/sys/fs/cgroup")
"""Where Linux shows a process in a container the limits of the container (cgroup, version 2)."""
_APPLE = "machdep.cpu.brand_string", "machdep.cpu.features", "machdep.cpu.leaf7_features"


def model() -> str:
    """Name of the processor's model; that of its architecture if the system does not tell."""
    described = _described()
    named = described.get("model name") or described.get("machdep.cpu.brand_string")
    return named or platform.processor() or platform.machine()


def available_cores() -> int:
    """Number of CPU cores that this process may use, rounded up where a container may use a share of one."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    try:
        quota, period = map(int, (_CONTAINER / "cpu.max").read_bytes().split())
    except (OSError, ValueError):  # no container, or "max"
        return cores
    return max(1, min(cores, math.ceil(quota / period)))


def container_memory_bytes() -> int | None:
    """Memory that the container of this process may use; None if there is no container or no limit."""
    try:
        return int((_CONTAINER / "memory.max").read_bytes())
    except (OSError, ValueError):
        return None


def features() -> frozenset[str]:
    """Names of the processor's features, as Linux writes them; empty if the system does not tell.

    Linux is asked for matrix tiles (AMX), which it grants until the process ends; if it does not, they are
    left out.
    """
    described = _described()
    names = (described.get(name, "") for name in ("flags", "Features", *_APPLE[1:]))
    found = " ".join(names).lower().split()
    if sys.platform == "darwin" and platform.machine() == "arm64":
        found.append("asimddp")  # every Mac of this architecture has it
    if "amx_tile" in found and not _may_use_tiles():
        found = [name for name in found if not name.startswith("amx")]
    return frozenset(found)


@functools.cache
def _may_use_tiles() -> bool:
    """Ask Linux for permission to use the matrix tiles; return whether it is granted."""
    numbers = map(ctypes.c_long, (_ARCH_PRCTL, _REQUEST_PERMISSION, _TILE_DATA))
    return bool(ctypes.CDLL(None).syscall(*numbers) == 0)


def _described() -> dict[str, str]:
    """Property -> value, for the first processor in the system's list; empty if there is no list."""
    if sys.platform == "linux":
        text = Path("/proc/cpuinfo").read_bytes().partition(b"\n\n")[0].decode()
    elif sys.platform == "darwin":
        command = ["/usr/sbin/sysctl", *_APPLE]
        text = subprocess.run(command, capture_output=True, text=True, check=False, timeout=10).stdout
    else:
        return {}
    fields = (line.partition(":") for line in text.split("\n"))
    return {name.strip(): value.strip() for name, _, value in fields}
