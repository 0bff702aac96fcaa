"""What runs on an accelerator is rehearsed on a pretended one, in processes of their own (see backend.py)."""

import subprocess
import sys
from pathlib import Path

import pytest
from tests.rehearsal import backend

HERE = Path(__file__).parent
ROOT = HERE.parents[1]


@pytest.fixture(scope="module")
def built() -> None:
    """The device's library."""
    if missing := backend.missing():
        pytest.skip(f"NOT RUN: the rehearsal of accelerators needs {missing}")
    backend.build()


@pytest.mark.slow
@pytest.mark.usefixtures("built")
@pytest.mark.parametrize(
    "name",
    [
        "device_itself",
        *(
            pytest.param(name, marks=pytest.mark.release)
            for name in ("training", "inference", "benchmark", "benchmark_training")
        ),
    ],
)
def test_the_checks_of_a_file_pass_on_the_pretended_device(name: str) -> None:
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "-p",
        "tests.rehearsal.on_device",
    ]
    done = subprocess.run(
        [*command, HERE / f"{name}.py"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout[-10_000:] + done.stderr
