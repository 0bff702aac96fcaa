"""The number formats of a device: the fastest one, and the widest one."""

import functools

import torch

from allyouneed.config.run import Precision
from allyouneed.errors import is_out_of_memory


def resolve_precision(precision: Precision, device: torch.device) -> Precision:
    """Replace "auto" by bfloat16 if `device` has instructions for it, else by float32."""
    if precision != "auto":
        return precision
    if device.type in ("cuda", "xpu"):
        supported = torch.get_device_module(device).is_bf16_supported(including_emulation=False)
        return "bfloat16" if supported else "float32"
    if device.type == "cpu":
        return "bfloat16" if torch.cpu._is_avx512_bf16_supported() else "float32"
    return "float32"


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
