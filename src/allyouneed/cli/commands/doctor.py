"""`allyouneed doctor`: facts for a bug report: versions, devices, disk."""

import contextlib
import json
import os
import platform
import shutil
from importlib import metadata
from pathlib import Path
from typing import Any

from allyouneed.hardware import processor
from allyouneed.hardware.accelerators import may_have_accelerator
from allyouneed.version import __version__

PACKAGES = (
    *("torch", "numpy", "safetensors", "tokenizers", "sacrebleu", "cyclopts", "pydantic", "rich"),
    *("matplotlib", "sacremoses", "zstandard"),
)
_BFLOAT16_FLAGS = {"amx_bf16", "avx512_bf16", "bf16"}


def doctor(*, json_: bool = False) -> None:
    """Show versions, devices and free disk space, for bug reports.

    ```
    allyouneed doctor
    allyouneed doctor --json
    ```

    Args:
        json_: Print one JSON object.
    """
    findings = {"versions": versions(), "cpu": cpu(), "devices": devices(), "disk": disk()}
    print(json.dumps(findings) if json_ else _as_text(findings))


def versions() -> dict[str, str]:
    """Versions of the program, Python, the platform, and the packages in use."""
    ours = {"allyouneed": __version__, "python": platform.python_version(), "platform": platform.platform()}
    return ours | {package: _version(package) for package in PACKAGES}


def cpu() -> dict[str, Any]:
    """The processor; `bfloat16` is whether it multiplies in that format natively, or None if unknown.

    `kernels` is the instruction set of the C kernels for decoding, and why it was chosen; `kernels_library`
    is how their library was made, or why there is none.
    """
    from allyouneed.native.library import found

    flags, of_torch = processor.features(), dict[str, Any]()
    with contextlib.suppress(ModuleNotFoundError):
        import torch

        vectors = torch.backends.cpu.get_cpu_capability()
        of_torch = {"threads": torch.get_num_threads(), "vectors": vectors}
    return {
        "model": processor.model(),
        "cores": os.cpu_count(),
        **of_torch,
        "bfloat16": bool(flags & _BFLOAT16_FLAGS) if flags else None,
        "kernels": _kernels(),
        "kernels_library": found().origin,
    }


def devices() -> list[dict[str, Any]]:
    """The accelerators that `--device` can select; `bfloat16` is whether they multiply in it natively."""
    if not may_have_accelerator():
        return []
    import torch

    from allyouneed.hardware.devices import resolve_precision
    from allyouneed.hardware.machine import device_name
    from allyouneed.hardware.memory import total_memory_bytes

    kind = torch.accelerator.current_accelerator(check_available=True)
    found = (
        [] if kind is None else [torch.device(kind.type, i) for i in range(torch.accelerator.device_count())]
    )
    return [
        {
            "device": str(device),
            "model": device_name(device),
            "memory_bytes": total_memory_bytes(device),
            "bfloat16": resolve_precision("auto", device) == "bfloat16",
        }
        for device in found
    ]


def disk() -> dict[str, Any]:
    """Space on the disk of the current folder."""
    usage = shutil.disk_usage(Path.cwd())
    return {"folder": str(Path.cwd()), "free_bytes": usage.free, "total_bytes": usage.total}


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "absent"


def _kernels() -> str:
    from allyouneed.native import isa
    from allyouneed.native.library import instructions, library

    if library() is None:
        return "none"
    if os.environ.get(isa.VARIABLE):
        why = f"set by {isa.VARIABLE}"
    else:
        why = f"the fastest that {'it has' if instructions() == isa.find(None).name else 'compiles'}"
    return f"{instructions()} ({why})"


def _as_text(findings: dict[str, Any]) -> str:
    lines = [
        *(f"{name} {version}" for name, version in findings["versions"].items()),
        f"cpu: {_row(findings['cpu'])}",
        *([f"gpu: {_row(device)}" for device in findings["devices"]] or ["gpu: none"]),
        f"disk: {_row(findings['disk'])}",
    ]
    return "\n".join(lines)


def _row(facts: dict[str, Any]) -> str:
    return ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in facts.items())
