"""`--precision`, `--workers`, `--threads`, `--device`: the options of commands that answer line by line."""

from dataclasses import dataclass
from typing import Any

from cyclopts import Parameter

from allyouneed.cli.device import Device, torch_device
from allyouneed.cli.number_options import Threads
from allyouneed.config.run import DecodingPrecision


@Parameter(name="*")
@dataclass(frozen=True)
class Computing:
    """Precision, parallelism and device."""

    precision: DecodingPrecision = "float32"
    """Precision of matrix products; on a CPU, int8 needs the C kernels, and bfloat16 is fast only on
    processors that multiply it."""
    workers: Threads | None = None
    """Number of batches computed at the same time; by default as many as the cores allow."""
    threads: Threads = 1
    """Number of threads per worker; more of them speed up a single sentence."""
    device: Device = "auto"

    def for_loading(self) -> dict[str, Any]:
        """The keyword arguments of `load_translator` and `load_parser`."""
        return {"device": torch_device(self.device), "precision": self.precision, "threads": self.threads}


AS_USUAL = Computing()
"""The value if none of the options are given."""
