"""Builds the pretended device `rehearsal` (backend.cpp), and makes it this process's accelerator.

A process cannot unload it, and `--device auto` then means it, so only processes of their own load it.
"""

import ctypes
import hashlib
import os
import shutil
import subprocess
import sys
import types
from pathlib import Path

import torch
from torch.utils.backend_registration import rename_privateuse1_backend

NAME = "rehearsal"
_SOURCE = Path(__file__).with_name("backend.cpp")
_CACHE = Path(__file__).parents[2] / ".cache" / "rehearsal"
_INCLUDE = Path(torch.__file__).parent / "include"


def missing() -> str | None:
    """What this machine lacks to build the device; None if nothing."""
    if sys.platform != "linux":
        return "Linux (memory that is mapped twice)"
    if _compiler() is None:
        return "a C++ compiler (`c++`, or the one that CXX names)"
    if not (_INCLUDE / "ATen" / "ATen.h").is_file():
        return f"PyTorch's C++ headers in {_INCLUDE}"
    return None


def build() -> Path:
    """Compile the device, unless this source was compiled for this PyTorch before; return its library."""
    compiler = _compiler()
    assert compiler is not None
    key = hashlib.sha256(_SOURCE.read_bytes() + torch.__version__.encode()).hexdigest()[:16]
    library = _CACHE / f"{key}.so"
    if not library.exists():
        _CACHE.mkdir(parents=True, exist_ok=True)
        new = library.with_suffix(f".{os.getpid()}")
        libraries = _INCLUDE.with_name("lib")
        subprocess.run(
            [
                *(compiler, "-std=c++20", "-O0", "-w", "-shared", "-fPIC", str(_SOURCE), "-o", str(new)),
                *(f"-I{_INCLUDE}", f"-D_GLIBCXX_USE_CXX11_ABI={int(torch.compiled_with_cxx11_abi())}"),
                *(f"-L{libraries}", f"-Wl,-rpath,{libraries}", "-ltorch_cpu", "-lc10"),
            ],
            check=True,
            capture_output=True,
            text=True,
        )
        new.rename(library)
    return library


def _compiler() -> str | None:
    return shutil.which(os.environ.get("CXX", "c++"))


class Rehearsal:
    """The device, loaded into this process."""

    def __init__(self) -> None:
        self._library = ctypes.CDLL(str(build()))
        self._library.rehearsal_num_waits.restype = ctypes.c_int64
        rename_privateuse1_backend(NAME)
        torch._register_device_module(NAME, self._module())
        self.device = torch.device(NAME, 0)

    def _module(self) -> types.ModuleType:
        """`torch.rehearsal`: what PyTorch asks in Python."""
        module = types.ModuleType(f"torch.{NAME}")
        functions = {
            "is_available": lambda: True,
            "device_count": lambda: 1,
            "current_device": lambda: 0,
            "get_device_name": lambda device=None: "a pretended device",
            "get_amp_supported_dtype": lambda: [torch.bfloat16],
            "empty_cache": torch.accelerator.empty_cache,
            "_is_in_bad_fork": lambda: False,
            "manual_seed_all": lambda seed: self._library.rehearsal_seed(ctypes.c_uint64(seed % 2**64)),
        }
        for name, function in functions.items():
            setattr(module, name, function)
        return module

    @property
    def num_waits(self) -> int:
        """How often the host has waited for the device."""
        return int(self._library.rehearsal_num_waits())

    def forbid_waits(self, forbidden: bool) -> None:
        """Make every wait an error, which shows where it is."""
        self._library.rehearsal_forbid_waits(int(forbidden))

    def forbid_float64(self, forbidden: bool) -> None:
        """Make every tensor of float64 an error, as on Apple's GPUs."""
        self._library.rehearsal_forbid_float64(int(forbidden))

    def make_adam_heedless(self, heedless: bool) -> None:
        """Let the fused Adam ignore `found_inf`, as it did on Apple's GPUs."""
        self._library.rehearsal_make_adam_heedless(int(heedless))

    def limit_bytes(self, limit: int) -> None:
        """Give the device this much memory."""
        self._library.rehearsal_limit_bytes(ctypes.c_size_t(limit))
