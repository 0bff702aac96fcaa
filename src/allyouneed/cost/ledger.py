"""The cost of a past run: time, FLOPs counted and FLOPs by the paper's formula (6.1), energy, and price."""

import re
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from allyouneed.config.run import RunConfig
from allyouneed.cost.estimate import P100_TFLOPS
from allyouneed.errors import ModelError
from allyouneed.storage.publish import disk_errors
from allyouneed.storage.run_directory import RunDirectory
from allyouneed.storage.run_log import Event, is_number, read_log

_PAPER = {"K80": 2.8, "K40": 3.7, "M40": 6.0, "P100": P100_TFLOPS}
"""Sustained single-precision TFLOPS, as estimated in the paper (6.1)."""
_SINGLE = {"V100-PCIE": 14.0, "V100": 15.7, "T4": 8.1, "A100": 19.5, "A10": 31.2, "L40S": 91.6, "L4": 30.3}
_SINGLE |= {"RTX 3090": 35.6, "RTX 4090": 82.6, "H100": 66.9, "H200": 66.9}
_BFLOAT16 = {"A100": 312.0, "A10": 125.0, "L40S": 362.0, "L4": 121.0}
_BFLOAT16 |= {"RTX 3090": 71.0, "RTX 4090": 165.2, "H100": 989.0, "H200": 989.0}

_OTHER_BOARD = r"(?! PCIe| NVL| Ti| Laptop| D\b)"
"""Excludes other boards of a GPU: H100 and H200 are those on SXM boards, `H100 80GB HBM3`."""

TFLOPS = {"the paper (6.1)": _PAPER, "data sheet, bfloat16": _BFLOAT16, "data sheet, float32": _SINGLE}
"""Source of a rate -> GPU -> TFLOPS without sparsity; some GPUs have no rate in bfloat16."""


@dataclass(frozen=True)
class Ledger:
    """The cost of a run's updates; updates that a killed run lost and repeated count once."""

    step: int
    seconds: float
    """Wall time, including validations and checkpoints."""
    devices: int
    device_name: str
    precision: str
    matmul_flops: float
    """Counted FLOPs of the matrix products of all updates."""
    device_tflops: float
    """Sustained rate of a device, for the paper's formula."""
    tflops_source: str
    """Source of `device_tflops`."""
    energy_joules: float | None
    price: float | None
    """Price of the run, in the currency of the price per hour."""

    @property
    def formula_flops(self) -> float:
        """Time x devices x sustained rate: the paper's estimate, which bounds the count."""
        return self.seconds * self.devices * self.device_tflops * 1e12

    def as_json(self) -> dict[str, Any]:
        """All fields, with `formula_flops`."""
        return asdict(self) | {"formula_flops": self.formula_flops}


def read_ledger(run: Path, *, price_per_hour: float | None = None, tflops: float | None = None) -> Ledger:
    """Read the ledger of a run from its log.

    A run that was resumed on other hardware counts as if all of it had run on the last hardware.

    Args:
        run: A run directory.
        price_per_hour: Price of one device per hour.
        tflops: Sustained TFLOPS of a device, instead of the table's rate.

    Raises:
        ModelError: `run` is no run, has recorded no cost yet, or has a damaged log.
    """
    directory = RunDirectory(run)
    if not directory.config.is_file():
        raise ModelError(f"{run}: is no run; give one, as RUN or OUT/ROW/seed-1/run")
    precision = RunConfig.from_toml(directory.config).training.precision
    with disk_errors(directory.log):
        events = read_log(directory.log) if directory.log.is_file() else ()
        last = {str(event["event"]): event for event in events}
    if "cost" not in last:
        raise ModelError(f"{run}: has recorded no cost; it does at every checkpoint, so train it until then")
    try:
        return _ledger(last["start"], last["cost"], precision, price_per_hour, tflops)
    except (KeyError, TypeError, ValueError, ArithmeticError):
        raise ModelError(
            f"{directory.log}: is damaged: its last start or cost is no such event; restore the file, "
            "or train on until the next checkpoint"
        ) from None


def _ledger(
    start: Event, found: Event, precision: str, price_per_hour: float | None, tflops: float | None
) -> Ledger:
    where, devices = start["environment"], int(_number(start["processes"], least=1))
    is_listed = where["device"] == "cuda" and precision != "tf32"  # the tables have no such rates
    known = _rate(where["device_name"], precision) if is_listed else None
    rate, source = known or (_number(found["peak"]) / devices / 1e12, "measured on matrix products")
    seconds, energy = _number(found["seconds"]), found["energy_joules"]
    return Ledger(
        int(_number(found["step"])),
        seconds,
        devices,
        str(where["device_name"]),
        precision,
        _number(found["matmul_flops"]),
        tflops or rate,
        "as given" if tflops else source,
        None if energy is None else _number(energy),
        None if price_per_hour is None else seconds / 3600 * devices * price_per_hour,
    )


def _number(value: Any, least: float = 0) -> float:
    """Return `value` if it is a number not below `least`; else raise a ValueError."""
    if not is_number(value) or not value >= least:  # nan fails this comparison
        raise ValueError(f"{value!r} is no number of a log")
    return value


def _rate(device_name: str, precision: str) -> tuple[float, str] | None:
    """The TFLOPS of a GPU by the paper or a data sheet, and the source; None if no table lists the GPU."""
    if " MIG " in device_name:  # a part of a GPU
        return None
    for source, table in TFLOPS.items():
        for gpu, rate in table.items():
            fits = precision == "bfloat16" or table is not _BFLOAT16
            if fits and re.search(rf"\b{gpu}\b{_OTHER_BOARD}", device_name):
                return rate, source
    return None
