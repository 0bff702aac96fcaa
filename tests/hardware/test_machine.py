"""Peak, memory and environment are those of the machine that the test runs on."""

import itertools
import json
import platform
import subprocess
import sys
import time

import numpy as np
import pytest
import torch

from allyouneed.hardware import machine as hardware
from allyouneed.hardware import processor
from allyouneed.hardware.machine import environment, matmul_peak
from allyouneed.hardware.memory import memory_bytes

CPU = torch.device("cpu")


def test_the_peak_is_the_operations_of_a_product_over_the_time_between_two_readings_of_the_clock(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(time, "perf_counter", itertools.count().__next__)  # a product takes a second
    assert matmul_peak(CPU, "float32") == 2 * 128**3


def test_where_products_take_long_smaller_ones_have_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []

    def seconds_of_product(left: torch.Tensor, right: torch.Tensor) -> float:
        assert left.shape == right.shape
        sizes.append(len(left))
        return 1.6 * (len(left) / 256) ** 3

    monkeypatch.setattr(hardware, "_seconds_of_product", seconds_of_product)
    assert matmul_peak(CPU, "float32") == pytest.approx(2 * 256**3 / 1.6)
    assert max(sizes) == 256
    assert matmul_peak(CPU, "float32", size=100) == pytest.approx(2 * 256**3 / 1.6)
    assert sizes[-1] == 100


def test_the_peak_is_measured_without_touching_the_generators_of_the_run() -> None:
    torch.manual_seed(1)
    before = torch.get_rng_state()
    matmul_peak(CPU, "float32")
    assert torch.equal(torch.get_rng_state(), before)


def test_memory_is_the_peak_which_stays_when_memory_is_given_back() -> None:
    held = np.ones(300 << 17)  # 300 MiB
    during = memory_bytes(CPU)
    assert during >= held.nbytes
    del held
    assert memory_bytes(CPU) == pytest.approx(during, rel=0.02)  # the kernel counts roughly


def test_memory_is_of_this_process_and_not_of_the_one_that_started_it() -> None:
    """`ru_maxrss` would tell of the larger parent, which Linux carries over into a new program."""
    held = np.ones(400 << 17)  # 400 MiB
    code = (
        "import torch; from allyouneed.hardware.memory import memory_bytes;"
        "print(memory_bytes(torch.device('cpu')))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    assert 50 << 20 < int(done.stdout) < memory_bytes(CPU) - held.nbytes // 2


def test_the_environment_names_versions_and_hardware_and_is_json() -> None:
    found = environment(CPU)
    assert json.loads(json.dumps(found)) == found
    assert (found["python"], found["torch"]) == (platform.python_version(), torch.__version__)
    assert found["threads"] == torch.get_num_threads()
    assert found["device_name"] == found["cpu"] == processor.model() != ""


@pytest.mark.gpu
def test_a_gpu_multiplies_faster_in_bfloat16_and_its_memory_is_pytorchs() -> None:
    device = torch.device("cuda")
    assert matmul_peak(device, "bfloat16") > 2 * matmul_peak(device, "float32") > 1e12
    held = torch.ones(300 << 18, device=device)  # 300 MiB
    assert memory_bytes(device) >= held.nbytes
    assert environment(device)["device_name"] == torch.cuda.get_device_name()


def test_freed_memory_is_kept_where_the_process_asks_for_it() -> None:
    program = """
import sys
import torch
from pathlib import Path
from allyouneed.hardware.allocator import keep_freed_memory

def resident() -> int:
    return int(Path("/proc/self/statm").read_bytes().split()[1]) * 4096

if sys.argv[1] == "keep":
    keep_freed_memory()
before = resident()
held = torch.ones(200 << 18)  # 200 MiB
del held
print(resident() - before)
"""
    left = {
        how: int(subprocess.run([sys.executable, "-c", program, how], capture_output=True, check=True).stdout)
        for how in ("keep", "give back")
    }
    assert left["keep"] > 190 << 20
    assert left["give back"] < 20 << 20
