"""Compiles the C kernels, with an installed C compiler or the one in the package `ziglang`.

It needs only the standard library, because `hatch_build.py` uses it, too.
"""

import hashlib
import importlib.util
import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from allyouneed.native.isa import InstructionSet

SOURCES = Path(__file__).parent
"""The folder of the C files; ready-made libraries lie beside them."""

OPENMP = "libgomp.so.1"
"""GCC's OpenMP, which wheels with ready-made libraries bring for processes without PyTorch."""
FLAGS = "-O3", "-std=gnu11", "-ffp-contract=off"
"""Options for every instruction set."""
COMPILERS = "cc", "gcc", "clang", "zig"
"""Names of the compilers, in order of preference."""

_SHARED = "-shared", "-fPIC"
_SPELLINGS_OF_ZIG = {"-march=armv8.2-a+dotprod": "-mcpu=generic+dotprod"}  # it knows processors only


def library_name(instructions: InstructionSet, *circumstances: str) -> str:
    """The file name of a library, with a digest of its sources, options and circumstances."""
    options = *FLAGS, *_SHARED, *instructions.options, *circumstances
    parts = [*(path.read_bytes() for path in sorted(SOURCES.glob("*.[ch]"))), str(options).encode()]
    return f"kernels-{instructions.name}-{hashlib.sha256(bytes(1).join(parts)).hexdigest()[:16]}.so"


def find(compiler: str) -> list[str] | None:
    """The command that runs a compiler; None if it is not installed."""
    if compiler == "zig":
        return _find_zig()
    path = shutil.which(compiler)
    return [path] if path else None


def _find_zig() -> list[str] | None:
    """The compiler of the package `ziglang`, which unlike `python -m ziglang` ignores the current folder.

    Unless it is told a processor, it compiles for this machine's, so that `plain` would have AVX-512.
    """
    package = importlib.util.find_spec("ziglang")
    if package is None or package.origin is None:
        return None
    return [str(Path(package.origin).parent / "zig"), "cc", "-mcpu=baseline", "-g0"]


def compile_library(compiler: str, command: Sequence[str], path: Path, *, patience: float = 120.0) -> None:
    """Compile the kernels into one file, with OpenMP if the compiler has it.

    Args:
        compiler: Name of the compiler.
        command: The command that runs it, with the options of the instruction set.
        path: The library to write, in a temporary folder, which is also zig's cache.
        patience: Seconds after which the compiler is stopped.

    Raises:
        RuntimeError: The compiler failed.
    """
    sources = sorted(map(str, SOURCES.glob("*.c")))
    # zig has no OpenMP library, and with -fopenmp makes a library that cannot be loaded.
    attempts: list[list[str]] = [[]] if compiler == "zig" else [["-fopenmp"], []]
    if compiler == "zig":
        command = [_SPELLINGS_OF_ZIG.get(option, option) for option in command]
    environment = os.environ | dict.fromkeys(
        ("ZIG_GLOBAL_CACHE_DIR", "ZIG_LOCAL_CACHE_DIR"), str(path.parent)
    )
    for openmp in attempts:
        try:
            ended = subprocess.run(
                [*command, *FLAGS, *_SHARED, *openmp, "-o", str(path), *sources, "-lm"],
                capture_output=True,
                text=True,
                errors="replace",  # a compiler may speak another encoding
                timeout=patience,
                check=False,
                env=environment,
            )
        except OSError as error:
            raise RuntimeError(f"{compiler} failed: {error}") from error
        if ended.returncode == 0:
            return
    raise RuntimeError(f"{compiler} failed: {ended.stderr.strip()}")
