"""The processor: its model, its cores, and the instruction sets that it has."""

import os
import platform
import subprocess
import sys
from pathlib import Path

_APPLE = "machdep.cpu.brand_string", "machdep.cpu.features", "machdep.cpu.leaf7_features"


def model() -> str:
    """Name of the processor's model; that of its architecture if the system does not tell."""
    described = _described()
    named = described.get("model name") or described.get("machdep.cpu.brand_string")
    return named or platform.processor() or platform.machine()


def available_cores() -> int:
    """Number of CPU cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def features() -> frozenset[str]:
    """Names of the processor's features, as Linux writes them; empty if the system does not tell."""
    described = _described()
    names = (described.get(name, "") for name in ("flags", "Features", *_APPLE[1:]))
    found = " ".join(names).lower().split()
    if sys.platform == "darwin" and platform.machine() == "arm64":
        found.append("asimddp")  # every Mac of this architecture has it
    return frozenset(found)


def _described() -> dict[str, str]:
    """Property -> value, for the first processor in the system's list; empty if there is no list."""
    if sys.platform == "linux":
        text = Path("/proc/cpuinfo").read_bytes().partition(b"\n\n")[0].decode()
    elif sys.platform == "darwin":
        command = ["/usr/sbin/sysctl", *_APPLE]
        text = subprocess.run(command, capture_output=True, text=True, check=False, timeout=10).stdout
    else:
        return {}
    return {
        name.strip(): value.strip() for name, _, value in (line.partition(":") for line in text.split("\n"))
    }
