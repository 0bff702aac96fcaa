"""What a run has cost: time, FLOPs counted and FLOPs by the paper's formula (6.1), energy, and a price."""

import re
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from allyouneed.config import RunConfig
from allyouneed.errors import ModelError
from allyouneed.experiments.cost import P100_TFLOPS
from allyouneed.training.run_directory import RunDirectory
from allyouneed.training.run_log import read_log

_PAPER = {"K80": 2.8, "K40": 3.7, "M40": 6.0, "P100": P100_TFLOPS}
"""Sustained single-precision TFLOPS, as the paper estimates them (6.1)."""
_SINGLE = {"V100": 15.7, "T4": 8.1, "A100": 19.5, "A10": 31.2, "L40S": 91.6, "L4": 30.3}
_SINGLE |= {"RTX 3090": 35.6, "RTX 4090": 82.6, "H100": 66.9, "H200": 66.9}
_BFLOAT16 = {"A100": 312.0, "A10": 125.0, "L40S": 362.0, "L4": 121.0}
_BFLOAT16 |= {"RTX 3090": 71.0, "RTX 4090": 165.2, "H100": 989.0, "H200": 989.0}

_SLOWER = "(?! PCIe| NVL)"
"""What must not follow a GPU's name: H100 and H200 are those on SXM boards, `H100 80GB HBM3`."""

TFLOPS = {"the paper (6.1)": _PAPER, "data sheet, bfloat16": _BFLOAT16, "data sheet, float32": _SINGLE}
"""Where a rate comes from -> GPU -> TFLOPS, without sparsity; not every GPU has one in bfloat16."""


@dataclass(frozen=True)
class Ledger:
    """What the updates of a run have cost, those that a killed run lost and made again counted once."""

    step: int
    seconds: float
    """Wall time, validations and checkpoints included."""
    devices: int
    device_name: str
    precision: str
    matmul_flops: float
    """Counted, of the matrix products of all updates."""
    device_tflops: float
    """What the paper's formula takes a device to sustain."""
    tflops_source: str
    """Where that comes from."""
    energy_joules: float | None
    price: float | None
    """In whatever currency the price of an hour was given."""

    @property
    def formula_flops(self) -> float:
        """Time x devices x sustained rate: the paper's estimate, which bounds the count."""
        return self.seconds * self.devices * self.device_tflops * 1e12

    def as_json(self) -> dict[str, Any]:
        """All of it."""
        return asdict(self) | {"formula_flops": self.formula_flops}


def read_ledger(run: Path, *, price_per_hour: float | None = None, tflops: float | None = None) -> Ledger:
    """The ledger of a run, from its log.

    A run that was resumed on other hardware is taken to have been on its last all the time.

    Args:
        run: A run directory.
        price_per_hour: Of one device.
        tflops: That a device sustains, in place of what the table says.

    Raises:
        ModelError: There is no run, or it has recorded no cost yet.
    """
    directory = RunDirectory(run)
    path = directory.log
    last = {event["event"]: event for event in read_log(path)} if path.is_file() else {}
    if not directory.config.is_file():
        raise ModelError(f"{run}: is no run; give one, as RUN or OUT/ROW/seed-1/run")
    if "cost" not in last:
        raise ModelError(f"{run}: has recorded no cost; it does at every checkpoint, so train it until then")
    precision = RunConfig.from_toml(directory.config).training.precision
    try:
        found, devices = last["cost"], last["start"]["processes"]
        where = last["start"]["environment"]
        known = _rate(where["device_name"], precision) if where["device"] == "cuda" else None
        rate, source = known or (found["peak"] / devices / 1e12, "measured on matrix products")
        return Ledger(
            found["step"],
            found["seconds"],
            devices,
            where["device_name"],
            precision,
            found["matmul_flops"],
            tflops or rate,
            "as given" if tflops else source,
            found["energy_joules"],
            None if price_per_hour is None else found["seconds"] / 3600 * devices * price_per_hour,
        )
    except (KeyError, TypeError, ZeroDivisionError):
        raise ModelError(
            f"{path}: its last events `start` and `cost` are not what a run writes; take another copy"
        ) from None


def _rate(device_name: str, precision: str) -> tuple[float, str] | None:
    """The TFLOPS of a GPU by the paper or a data sheet; None of what no table knows."""
    for source, table in TFLOPS.items():
        for gpu, rate in table.items():
            fits = precision == "bfloat16" or table is not _BFLOAT16
            if fits and re.search(rf"\b{gpu}\b{_SLOWER}", device_name):
                return rate, source
    return None
