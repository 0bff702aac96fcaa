"""Signs of an accelerator, for those who need not import PyTorch where there is none."""

import importlib.metadata
import platform
import sys
from pathlib import Path

_DEVICES = {"+xpu": ("/dev/dri",), "+rocm": ("/dev/kfd",), "": ("/dev/nvidiactl", "/dev/dxg")}
"""Build of PyTorch for Linux -> files, one of which is there if its accelerator is. `/dev/dxg` is WSL's."""


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
    files = next(files for build, files in _DEVICES.items() if build in version)
    return any(Path(file).exists() for file in files)
