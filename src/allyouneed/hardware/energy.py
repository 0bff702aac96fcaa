"""Energy consumption as processors and GPUs report it, where the system allows reading it."""

import contextlib
import ctypes
from pathlib import Path

import torch

_POWERCAP = Path("/sys/class/powercap")
_JOULES_PER_MICROJOULE, _JOULES_PER_MILLIJOULE = 1e-6, 1e-3


class EnergyMeter:
    """Measures the energy of the processors, and of the GPU in use, from its construction on."""

    def __init__(self, device: torch.device, powercap: Path = _POWERCAP) -> None:
        self._device = device
        # `intel-rapl:0:0` is part of a package, `psys` covers them all. AMD's counters use this name too.
        self._counters = [
            counter
            for counter in sorted(powercap.glob("intel-rapl:*"))
            if _text(counter / "name").startswith("package")
        ]
        self._ranges = [_number(counter / "max_energy_range_uj") for counter in self._counters]
        self._processors = 0.0
        self._last = self._read_processors()
        self._gpu_at_first = gpu_joules(device)

    def joules(self) -> float | None:
        """Joules since the meter was created, None if unreadable; call it more often than counters wrap."""
        now, processors = self._read_processors(), None
        if now is not None and self._last is not None:
            for before, after, largest in zip(self._last, now, self._ranges, strict=True):
                wrapped = 0.0 if after >= before else largest or 0.0
                self._processors += (after - before + wrapped) * _JOULES_PER_MICROJOULE
            processors = self._processors
        self._last = now
        if self._device.type != "cuda":
            return processors
        gpu = gpu_joules(self._device)
        if gpu is None or self._gpu_at_first is None:
            return None  # the processors' part alone would mislead
        return gpu - self._gpu_at_first + (processors or 0.0)

    def _read_processors(self) -> list[float] | None:
        read = [_number(counter / "energy_uj") for counter in self._counters]
        numbers = [number for number in read if number is not None]
        return numbers if numbers and len(numbers) == len(read) else None


def gpu_joules(device: torch.device) -> float | None:
    """Joules that an NVIDIA GPU has used since its driver was loaded; None for other devices and old GPUs."""
    if device.type != "cuda":
        return None
    with contextlib.suppress(OSError, AttributeError):
        library, used, handle = ctypes.CDLL("libnvidia-ml.so.1"), ctypes.c_ulonglong(), ctypes.c_void_p()
        uuid = f"GPU-{torch.cuda.get_device_properties(device).uuid}".encode()
        failed = (
            library.nvmlInit_v2()
            or library.nvmlDeviceGetHandleByUUID(uuid, ctypes.byref(handle))
            or library.nvmlDeviceGetTotalEnergyConsumption(handle, ctypes.byref(used))
        )
        if not failed:
            return used.value * _JOULES_PER_MILLIJOULE
    return None


def _text(path: Path) -> str:
    try:
        return path.read_bytes().decode(errors="replace")
    except OSError:
        return ""


def _number(path: Path) -> float | None:
    try:
        return float(_text(path))
    except ValueError:
        return None
