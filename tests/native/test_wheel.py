"""A platform wheel brings kernels that run without a compiler; the pure wheel is built without one."""

import importlib.util
import json
import os
import platform
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest

from allyouneed.native import isa

ROOT = Path(__file__).parents[2]
WITHOUT_TORCH = "sys.modules['torch'] = None"
REPORT = """
import json, os
import numpy as np
import allyouneed
from allyouneed.native import isa, library
from allyouneed.native.linear import PackedLinear

def runtimes():
    return sorted({line.split()[-1] for line in open("/proc/self/maps") if "omp" in line.rpartition("/")[2]})

before, origins, products = runtimes(), {}, []
for each in isa.supported():
    os.environ["ALLYOUNEED_ISA"] = each.name
    origins[each.name] = library.found().origin
    if library.library():
        layer = PackedLinear(np.ones((5, 8), np.float32), None, "float32", num_threads=2)
        products.append(np.unique(layer(np.ones((3, 8), np.float32))).tolist())
found = {"package": allyouneed.__file__, "origins": origins, "products": products}
print(json.dumps(found | {"new_runtimes": [path for path in runtimes() if path not in before]}))
"""


def build(folder: Path, **environment: str) -> Path:
    """Build a wheel of this repository, without fetching anything."""
    options = "--quiet", "--no-deps", "--no-build-isolation", "--wheel-dir", folder, ROOT
    subprocess.run([sys.executable, "-m", "pip", "wheel", *options], env=os.environ | environment, check=True)
    [wheel] = folder.iterdir()
    return wheel


def report(installed: Path, empty: Path, torch: str) -> dict[str, Any]:
    """What an installed package says in a process without a compiler, a cache or a home."""
    environment = {
        "PYTHONPATH": str(installed),
        "PATH": str(empty),
        "HOME": str(empty),
        "OMP_NUM_THREADS": "1",
    }
    program = f"import sys; sys.modules['ziglang'] = None; {torch}\n{REPORT}"
    ended = subprocess.run(
        [sys.executable, "-c", program], env=environment, cwd=empty, capture_output=True, check=True
    )
    found: dict[str, Any] = json.loads(ended.stdout)
    return found


@pytest.fixture(autouse=True)
def needs_hatchling() -> None:
    for module in ("hatchling", "pip"):
        if importlib.util.find_spec(module) is None:
            pytest.skip(f"NOT RUN: needs the package {module}")


@pytest.mark.release
def test_ready_made_kernels_are_used_without_a_compiler_and_only_with_their_own_sources(
    tmp_path: Path,
) -> None:
    if sys.platform != "linux" or shutil.which("gcc") is None:
        pytest.skip("NOT RUN: needs gcc on Linux")
    wheel = build(tmp_path / "dist", HATCH_BUILD_HOOK_ENABLE_CUSTOM="true")
    assert "-py3-none-manylinux_2_" in wheel.name
    assert wheel.name.endswith(f"_{platform.machine()}.whl")

    installed, empty = tmp_path / "installed", tmp_path / "empty"
    empty.mkdir()
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(installed)
    every = [instructions.name for instructions in isa.supported()]
    openmp = [str(installed / "allyouneed" / "native" / "libgomp.so.1")]
    for torch, new_runtimes in (("import torch", []), (WITHOUT_TORCH, openmp)):
        assert report(installed, empty, torch) == {
            "package": str(installed / "allyouneed" / "__init__.py"),
            "origins": dict.fromkeys(every, "ready-made"),
            "products": [[8.0]] * len(every),
            "new_runtimes": new_runtimes,
        }

    with (installed / "allyouneed" / "native" / "linear.c").open("ab") as source:
        source.write(b"/* changed */\n")
    [reason] = set(report(installed, empty, WITHOUT_TORCH)["origins"].values())
    assert reason.startswith("no C compiler is installed")


def test_the_pure_wheel_is_built_without_a_compiler(tmp_path: Path) -> None:
    wheel = build(tmp_path / "dist", PATH=str(tmp_path))
    assert wheel.name.endswith("-py3-none-any.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    assert "allyouneed/native/linear.c" in names
    assert [name for name in names if name.endswith(".so")] == []
