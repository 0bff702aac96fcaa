"""`allyouneed doctor`: facts for a bug report: versions, devices, disk."""

import json
import os
import platform
import shutil
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

from allyouneed.version import __version__

PACKAGES = (
    *("torch", "numpy", "safetensors", "tokenizers", "sacrebleu", "cyclopts", "pydantic", "rich"),
    *("matplotlib", "sacremoses", "zstandard"),
)
_BFLOAT16_FLAGS = {"amx_bf16", "avx512_bf16", "bf16"}


def doctor(*, json_: bool = False) -> None:
    """Show versions, devices and free disk space, as a report of a fault should.

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

    `kernels` lists the precisions for which translation has its own kernels on this processor.
    """
    import torch

    from allyouneed.native.library import available

    described = _cpuinfo()
    flags = set(described.get("flags", described.get("Features", "")).split())
    return {
        "model": described.get("model name") or platform.processor() or platform.machine(),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "vectors": torch.backends.cpu.get_cpu_capability(),
        "bfloat16": bool(flags & _BFLOAT16_FLAGS) if flags else None,
        "kernels": " ".join(sorted(available())) or "none",
    }


def devices() -> list[dict[str, Any]]:
    """The GPUs that `--device` can select."""
    import torch

    found = [torch.cuda.get_device_properties(i) for i in range(torch.cuda.device_count())]
    return [
        {
            "device": f"cuda:{index}",
            "model": properties.name,
            "memory_bytes": properties.total_memory,
            "bfloat16": properties.major >= 8,
        }
        for index, properties in enumerate(found)
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


def _cpuinfo() -> dict[str, str]:
    """The first processor in Linux's list; empty elsewhere."""
    if sys.platform != "linux":
        return {}
    first = Path("/proc/cpuinfo").read_bytes().partition(b"\n\n")[0].decode()
    return {
        name.strip(): value.strip() for name, _, value in (line.partition(":") for line in first.split("\n"))
    }


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
