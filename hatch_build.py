"""Puts ready-made C kernels into a wheel for this machine's platform: `make wheel`.

Off unless `HATCH_BUILD_HOOK_ENABLE_CUSTOM=true`, so that no other build or installation needs a compiler.
With `ALLYOUNEED_WHEEL_MACHINE=aarch64` they are for another architecture, by its cross compiler; with `arm64`
for Apple's Macs, by the package `ziglang`.
"""

import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

MAC = "arm64"
"""Architecture of Apple's Macs, as they name it; Linux names it aarch64."""
Libraries = dict[Path, tuple[str, ...]]
"""Each library to make, with the options of its instruction set."""


class KernelsHook(BuildHookInterface):  # type: ignore[type-arg]
    """Compiles the kernels for every instruction set of an architecture."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Add the libraries and the tag of the platform to the wheel."""
        if version == "editable":
            return
        sys.path.insert(0, str(Path(self.root) / "src"))
        from allyouneed.native import compiler, isa

        machine = os.environ.get("ALLYOUNEED_WHEEL_MACHINE") or platform.machine()
        self.folder = tempfile.TemporaryDirectory()
        libraries = {
            Path(self.folder.name) / compiler.library_name(instructions): instructions.options
            for instructions in isa.ISAS
            if not instructions.machines or machine in instructions.machines
        }
        files, system = (compile_for_mac if machine == MAC else compile_for_linux)(machine, libraries)
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{system}_{machine}"
        for path in files:
            build_data["force_include"][str(path)] = f"allyouneed/native/{path.name}"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Delete what was compiled."""
        if version != "editable":
            self.folder.cleanup()


def compile_for_mac(machine: str, libraries: Libraries) -> tuple[list[Path], str]:
    """Compile libraries; return the files of the wheel, and the tag of the oldest system that they run on."""
    from allyouneed.native import compiler

    command = compiler.find("zig")
    if command is None:
        raise _no_compiler(machine, "the package ziglang")
    for path, options in libraries.items():
        named = f"-Wl,-install_name,{path.name}"  # not the path, which differs from build to build
        given = [*command, "-target", "aarch64-macos.11.0", named, *options]
        compiler.compile_library("zig", given, path, patience=1_800.0)
    return [*libraries], "macosx_11_0"


def compile_for_linux(machine: str, libraries: Libraries) -> tuple[list[Path], str]:
    """Compile libraries; return the files of the wheel, OpenMP among them, and the tag of the system."""
    from allyouneed.native.compiler import OPENMP

    gcc = gcc_for(machine)
    if sys.platform != "linux" or shutil.which(gcc) is None:
        raise _no_compiler(machine, gcc)
    with ThreadPoolExecutor() as pool:
        list(pool.map(lambda path: compile_library(gcc, path, libraries[path]), libraries))
    command = [gcc, f"-print-file-name={OPENMP}"]
    openmp = Path(subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip())
    # libgomp may need a newer glibc; without it, the system's is loaded, or the kernels are compiled.
    return [*libraries, openmp], "manylinux_{}_{}".format(*max(map(glibc_needed, libraries)))


def _no_compiler(machine: str, wanted: str) -> RuntimeError:
    return RuntimeError(f"a wheel with ready-made kernels for {machine} is built on Linux, with {wanted}")


def gcc_for(machine: str) -> str:
    """The compiler for an architecture: this machine's own, or Debian's cross compiler."""
    return "gcc" if machine == platform.machine() else f"{machine}-linux-gnu-gcc"


def compile_library(gcc: str, path: Path, options: tuple[str, ...]) -> None:
    """Compile a library that calls the OpenMP of the process: PyTorch's, or else that of the wheel.

    Linked to libgomp by name, it could load the system's beside PyTorch's, or need it where there is none.
    """
    from allyouneed.native.compiler import FLAGS, SOURCES

    with tempfile.TemporaryDirectory() as objects:
        sources = sorted(SOURCES.glob("*.c"))
        subprocess.run([gcc, *FLAGS, "-fPIC", *options, "-fopenmp", "-c", *sources], cwd=objects, check=True)
        parts = sorted(Path(objects).iterdir())
        subprocess.run([gcc, "-shared", "-s", "-o", path, *parts, "-lm"], check=True)


def glibc_needed(library: Path) -> tuple[int, int]:
    """The oldest version of glibc that has all symbols of a library."""
    versions = re.findall(rb"\0GLIBC_(\d+)\.(\d+)", library.read_bytes())
    if not versions:
        raise RuntimeError(f"{library.name} does not use glibc; build the platform wheel on Linux with glibc")
    return max((int(major), int(minor)) for major, minor in versions)
