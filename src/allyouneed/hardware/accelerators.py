"""Signs of an accelerator, for those who need not import PyTorch where there is none."""

import importlib.metadata
import platform
import sys
from pathlib import Path

_DEVICES = {"+xpu": "/dev/dri", "+rocm": "/dev/kfd", "": "/dev/nvidiactl"}
"""Build of PyTorch for Linux -> file that is there if its accelerator is."""
_DEVICE_OF_WSL = "/dev/dxg"


threads_when_loaded: list[int] = []
"""The last one, if any, is PyTorch's number of threads once `hardware.devices` has loaded it."""


def may_have_accelerator() -> bool:
    """Whether the PyTorch that is installed, if one is, could find an accelerator on this machine."""
    try:
        version = importlib.metadata.version("torch")
    except importlib.metadata.PackageNotFoundError:
        return False
    if version.endswith("+cpu"):
        return False
    if sys.platform == "darwin":
        return platform.machine() == "arm64"
    if sys.platform != "linux":
        return True
    device = next(file for build, file in _DEVICES.items() if build in version)
    return Path(device).exists() or Path(_DEVICE_OF_WSL).exists()
