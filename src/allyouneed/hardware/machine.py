"""The machine of a run: its description and its measured peak speed."""

import functools
import os
import platform
import time
from typing import Any

import numpy as np
import torch

from allyouneed.config.run import Precision
from allyouneed.hardware import processor
from allyouneed.hardware.devices import products_in
from allyouneed.hardware.memory import forget_peak_memory
from allyouneed.version import __version__

_CPU_MATRIX_SIZE, _ACCELERATOR_MATRIX_SIZE = 1024, 8192
"""Rows and columns: small enough to be quick, large enough to be limited by arithmetic."""
_MEASURED_SECONDS = 0.1
_FEWEST_PRODUCTS = 3
_SMALLEST_SIZE = 128
_LONGEST_SECONDS = 5.0
"""Upper limit for one product, which takes eight times as long with twice as many rows and columns."""


def matmul_peak(device: torch.device, precision: Precision, size: int | None = None) -> float:
    """FLOPs per second of the fastest of several products of large square matrices.

    The peak is measured, because no table tells what this machine achieves now. It takes well under a second
    if the device has instructions for the precision; if not, smaller matrices are used.
    """
    largest = size or (_CPU_MATRIX_SIZE if device.type == "cpu" else _ACCELERATOR_MATRIX_SIZE)
    size = min(_SMALLEST_SIZE, largest)
    left, right = _random_matrices(size, device, precision)
    seconds: list[float] = []
    with products_in(precision):
        _seconds_of_product(left, right)  # warm-up: loads the kernels and starts the threads
        while size < largest and 8 * _seconds_of_product(left, right) < _LONGEST_SECONDS:
            size = min(2 * size, largest)
            left, right = _random_matrices(size, device, precision)
        while len(seconds) < _FEWEST_PRODUCTS or sum(seconds) < _MEASURED_SECONDS:
            seconds.append(_seconds_of_product(left, right))
    del left, right
    forget_peak_memory(device)
    return float(2 * size**3 / min(seconds))


measured_peak = functools.cache(matmul_peak)
"""`matmul_peak`, measured once per process."""


def environment(device: torch.device) -> dict[str, Any]:
    """Versions, platform and hardware: what results depend on besides configuration and data."""
    return {
        "allyouneed": __version__,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "numpy": np.__version__,
        "platform": platform.platform(),
        "device": device.type,
        "device_name": device_name(device),
        "cpu": processor.model(),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
    }


def device_name(device: torch.device) -> str:
    """The device's model name; an Apple GPU has the name of its processor."""
    name_of = getattr(torch.get_device_module(device), "get_device_name", None)
    return str(name_of(device)) if name_of else processor.model()


def machine_kind(device: torch.device) -> str:
    """The device, and of a CPU its vector instructions and number of cores: speed depends on them."""
    if device.type != "cpu":
        return device_name(device)
    vectors, cores = torch.backends.cpu.get_cpu_capability(), processor.available_cores()
    return f"{device_name(device)}, {vectors}, {cores} core{'s' if cores > 1 else ''}"


def wait_for(device: torch.device) -> None:
    """Wait until an accelerator has finished all queued work; a CPU has none."""
    if device.type != "cpu":
        torch.accelerator.synchronize(device)


def _random_matrices(
    size: int, device: torch.device, precision: Precision
) -> tuple[torch.Tensor, torch.Tensor]:
    """Two random square matrices; a GPU would multiply zeros faster."""
    dtype = torch.bfloat16 if precision == "bfloat16" else torch.float32
    generator = torch.Generator(device).manual_seed(0)  # does not disturb the run's generator
    left, right = (torch.randn(size, size, generator=generator, device=device).to(dtype) for _ in range(2))
    return left, right


def _seconds_of_product(left: torch.Tensor, right: torch.Tensor) -> float:
    wait_for(left.device)
    began = time.perf_counter()
    torch.mm(left, right)
    wait_for(left.device)
    return time.perf_counter() - began
