"""The number format in which a device computes fastest."""

import torch

from allyouneed.config.run import Precision


def resolve_precision(precision: Precision, device: torch.device) -> Precision:
    """Replace "auto" by bfloat16 if `device` has instructions for it, else by float32."""
    if precision != "auto":
        return precision
    if device.type == "cuda":
        return "bfloat16" if torch.cuda.is_bf16_supported(including_emulation=False) else "float32"
    if device.type == "cpu":
        return "bfloat16" if torch.cpu._is_avx512_bf16_supported() else "float32"
    return "float32"
