"""Shared parts of both benchmarks: entries, the description of the machine, and figures with their spread."""

import importlib.util
import os
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any, NamedTuple

import numpy as np
import torch

from allyouneed.config.run import DecodingPrecision
from allyouneed.hardware.machine import environment

OURS = "allyouneed"
Precision = DecodingPrecision

NEEDED = {
    "marian": ("transformers", "allyouneed[bench]"),
    "ctranslate2": ("ctranslate2", "allyouneed[ctranslate2]"),
    "huggingface": ("transformers", "allyouneed[huggingface]"),
}
"""Contender -> the package that it imports and the requirement that installs it."""

SETTINGS = (
    *("LD_PRELOAD", "GLIBC_TUNABLES", "MALLOC_MMAP_THRESHOLD_", "MALLOC_TRIM_THRESHOLD_"),
    *("OMP_NUM_THREADS", "OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "ONEDNN_PRIMITIVE_CACHE_CAPACITY"),
)
"""Environment variables that affect speed; the allocator's settings change the peers' speed by a half."""


class Entry(NamedTuple):
    """A contender and the precision of its matrix products."""

    contender: str
    precision: Precision


def missing_package(contender: str) -> str | None:
    """The requirement to install for a contender, or None if nothing is missing."""
    package, requirement = NEEDED.get(contender, ("torch", ""))
    return requirement if importlib.util.find_spec(package) is None else None


def circumstances(device: torch.device) -> dict[str, Any]:
    """The first fields of a benchmark record: date, machine and settings."""
    return {
        "date": datetime.now(UTC).date().isoformat(),
        "environment": environment(device),
        "settings": {name: os.environ[name] for name in SETTINGS if name in os.environ},
    }


def spread(values: Iterable[float]) -> dict[str, float]:
    """Median and quartiles."""
    lower, median, upper = np.quantile(list(values), (0.25, 0.5, 0.75))
    return {"median": float(median), "lower_quartile": float(lower), "upper_quartile": float(upper)}
