"""The peak of the memory is found on kernels that tell less than Linux."""

from pathlib import Path

import numpy as np
import pytest
import torch

from allyouneed.hardware import memory
from allyouneed.hardware.memory import memory_bytes


def test_the_peak_is_found_where_the_status_of_the_process_does_not_have_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The `/proc/self/status` of gVisor has no `VmHWM`."""
    held = np.ones(100 << 17)  # 100 MiB
    status = tmp_path / "status"
    status.write_bytes(b"Name:\tpython\nVmSize:\t  200000 kB\n")
    monkeypatch.setattr(memory, "_STATUS", status)
    assert memory_bytes(torch.device("cpu")) >= held.nbytes
