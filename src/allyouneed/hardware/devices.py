"""The devices that compute, their precisions, and their threads."""

import functools
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import torch

from allyouneed.config.run import Precision
from allyouneed.errors import UsageError, is_out_of_memory
from allyouneed.hardware.accelerators import threads_when_loaded

_AMPERE = 8, 0
"""Compute capability."""
_TRIED_SIZE, _TRIALS, _CLEARLY_FASTER = 512, 5, 1.2
"""Rows of the matrices whose products are timed, number of these, and ratio that is no matter of chance."""


def usable_device(given: torch.device | str) -> torch.device:
    """A device on which a tensor can be made; raises UsageError if PyTorch cannot use it."""
    try:
        device = torch.device(given)
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:
        if is_out_of_memory(error):
            raise
        reason = str(error).partition("\n")[0]
        raise UsageError(f"device {given}: {reason}; take cpu", settings=["device"]) from None
    if (
        device.type == "cuda"
    ):  # cuDNN's attention plans for each shape anew, which takes longer than computing it
        torch.backends.cuda.enable_cudnn_sdp(False)
    return device


def is_nvidia_since_ampere(device: torch.device) -> bool:
    """Whether a device is an NVIDIA GPU with products in TF32 and flash attention."""
    return (
        device.type == "cuda"
        and torch.version.hip is None  # AMD's GPUs are "cuda", too
        and torch.cuda.get_device_capability(device) >= _AMPERE
    )


@contextmanager
def products_in(precision: Precision) -> Iterator[None]:
    """Round the factors of products in float32 to TF32 inside the block if `precision` is "tf32"."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high" if precision == "tf32" else before)
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


def resolve_precision(precision: Precision, device: torch.device) -> Precision:
    """Replace "auto" by bfloat16 if `device` multiplies matrices of it faster, else by float32.

    Raises UsageError if it is "tf32" and the device lacks it.
    """
    if precision == "tf32" and not is_nvidia_since_ampere(device):
        raise UsageError(
            f"training.precision = tf32: {device} has no such products, NVIDIA GPUs since Ampere (2020) do; "
            "take float32 or bfloat16"
        )
    if precision != "auto":
        return precision
    if device.type in ("cuda", "xpu"):
        supported = torch.get_device_module(device).is_bf16_supported(including_emulation=False)
        return "bfloat16" if supported else "float32"
    if device.type == "cpu":
        return "bfloat16" if _multiplies_bfloat16_faster() else "float32"
    return "float32"


@functools.cache
def _multiplies_bfloat16_faster() -> bool:
    """Whether this CPU does, found by trying: with the same AVX-512 instructions some do, and some do not."""
    if not torch.cpu._is_avx512_bf16_supported():
        return False
    in_bfloat16, in_float32 = (_seconds_of_product(dtype) for dtype in (torch.bfloat16, torch.float32))
    return _CLEARLY_FASTER * in_bfloat16 < in_float32


def _seconds_of_product(dtype: torch.dtype) -> float:
    """The least time of several products of square matrices."""
    matrix, seconds = torch.ones(_TRIED_SIZE, _TRIED_SIZE, dtype=dtype), []
    for _ in range(_TRIALS):
        began = time.perf_counter()
        torch.mm(matrix, matrix)
        seconds.append(time.perf_counter() - began)
    return min(seconds)


def fast_precisions(device: torch.device) -> list[Precision]:
    """The precisions that may be the fastest on `device`; on a CPU, it depends on the size of the model."""
    automatic = resolve_precision("auto", device)
    return ["float32", automatic] if (device.type, automatic) == ("cpu", "bfloat16") else [automatic]


@functools.cache
def widest_float(device: torch.device) -> torch.dtype:
    """float64 if the device has it, else float32: Apple's GPUs and some of Intel's lack it."""
    try:
        torch.ones(1, dtype=torch.float64, device=device).cumsum(0)
    except (TypeError, RuntimeError) as error:
        if is_out_of_memory(error):
            raise
        return torch.float32
    return torch.float64


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
if threads_when_loaded:
    torch.set_num_threads(threads_when_loaded[-1])
