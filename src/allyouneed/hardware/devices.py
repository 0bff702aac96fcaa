"""Devices that PyTorch computes on."""

import torch

from allyouneed.errors import UsageError, is_out_of_memory


def usable_device(given: torch.device | str) -> torch.device:
    """A device on which a tensor can be made.

    Raises:
        UsageError: There is no such device, or PyTorch cannot use it.
    """
    try:
        device = torch.device(given)
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:
        if is_out_of_memory(error):
            raise
        reason = str(error).partition("\n")[0]
        raise UsageError(f"device {given}: {reason}; take cpu", settings=["device"]) from None
    return device
