"""What a run is computed on, and how fast that is: the peak that its speed is a share of."""

import os
import platform
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

from allyouneed.config.run import Precision
from allyouneed.version import __version__

_MATRIX_SIZES = {"cpu": 1024, "cuda": 8192}
"""Small enough to be quick there, large enough to be limited by arithmetic."""
_MEASURED_SECONDS = 0.1
_FEWEST_PRODUCTS = 3
_SMALLEST_SIZE = 128
_LONGEST_SECONDS = 5.0
"""Longest time of a product; with twice as many rows and columns it takes eight times as long."""
_CPUINFO = Path("/proc/cpuinfo")


def matmul_peak(device: torch.device, precision: Precision, size: int | None = None) -> float:
    """FLOPs a second of the best of several products of large square matrices.

    It is measured, as no table knows what this machine does now. Well under a second where the precision
    has instructions; where it has none, and a product takes minutes, smaller matrices have to do.

    Args:
        device: Device to compute on.
        precision: Precision of the matrices.
        size: Number of rows and columns; by default as many as suit the device.
    """
    largest = size or _MATRIX_SIZES[device.type]
    size = min(_SMALLEST_SIZE, largest)
    left, right = _random_matrices(size, device, precision)
    _seconds_of_product(left, right)  # loads the kernels and wakes the threads
    while size < largest and 8 * _seconds_of_product(left, right) < _LONGEST_SECONDS:
        size = min(2 * size, largest)
        left, right = _random_matrices(size, device, precision)
    seconds: list[float] = []
    while len(seconds) < _FEWEST_PRODUCTS or sum(seconds) < _MEASURED_SECONDS:
        seconds.append(_seconds_of_product(left, right))
    return float(2 * size**3 / min(seconds))


def environment(device: torch.device) -> dict[str, Any]:
    """What a result may depend on besides configuration and data: versions, platform and hardware."""
    cpu = cpu_name()
    return {
        "allyouneed": __version__,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "numpy": np.__version__,
        "platform": platform.platform(),
        "device": device.type,
        "device_name": torch.cuda.get_device_name(device) if device.type == "cuda" else cpu,
        "cpu": cpu,
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
    }


def cpu_name() -> str:
    """The processor's model, as far as the system tells."""
    name = field_of(_CPUINFO, "model name") if _CPUINFO.is_file() else ""
    return name or platform.processor() or platform.machine()


def wait_for(device: torch.device) -> None:
    """Return when all that a GPU was given to do is done; a CPU has done it already."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def _random_matrices(
    size: int, device: torch.device, precision: Precision
) -> tuple[torch.Tensor, torch.Tensor]:
    """Two square ones; zeros would be multiplied faster than numbers on a GPU."""
    dtype = torch.bfloat16 if precision == "bfloat16" else torch.float32
    generator = torch.Generator(device).manual_seed(0)  # leaves that of the run alone
    left, right = (torch.randn(size, size, generator=generator, device=device).to(dtype) for _ in range(2))
    return left, right


def _seconds_of_product(left: torch.Tensor, right: torch.Tensor) -> float:
    wait_for(left.device)
    began = time.perf_counter()
    torch.mm(left, right)
    wait_for(left.device)
    return time.perf_counter() - began


def field_of(path: Path, name: str) -> str:
    """What follows the first `name :` in a file of the kernel; empty where there is none."""
    with path.open("rb") as file:
        lines = (line.decode(errors="replace").partition(":") for line in file)
        return next((value.strip() for key, _, value in lines if key.strip() == name), "")
