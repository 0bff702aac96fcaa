"""The library of C kernels: ready-made in the package, or compiled on first use and cached.

Where there is neither a ready-made library nor a compiler, PyTorch computes instead.
"""

import contextlib
import ctypes
import functools
import os
import platform
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch  # noqa: F401 - ready-made libraries use its OpenMP

from allyouneed.errors import printable, say
from allyouneed.hardware.user_cache import is_ours, user_cache
from allyouneed.native import isa
from allyouneed.native.compiler import COMPILERS, SOURCES, compile_library, find, library_name
from allyouneed.native.header import functions

FORMS = "float32", "bfloat16", "int8"
"""Forms of packed weights, in the order of `enum form` in `kernels.h`."""

_REMEDY = "run `pip install 'allyouneed[compiler]'` or install gcc"
_OPENMP = b"GOMP_parallel", b"__kmpc_fork_call"  # how GCC and Clang start threads


class Found(NamedTuple):
    """The library, and where it is from."""

    library: Any
    """None if there is none."""
    origin: str
    """What made the library, or why there is none."""


def available() -> tuple[str, ...]:
    """The precisions that `PackedLinear` supports on this machine: all, or none without the library."""
    return FORMS if library() else ()


def library() -> Any:
    """The library for the chosen instruction set, or None if it is unavailable.

    Raises:
        UsageError: `ALLYOUNEED_ISA` names an instruction set that this processor does not have.
    """
    return found().library


def found() -> Found:
    """The library for the chosen instruction set and where it is from, or why there is none.

    Raises:
        UsageError: `ALLYOUNEED_ISA` names an instruction set that this processor does not have.
    """
    if os.environ.get("ALLYOUNEED_NATIVE") == "0":
        return Found(None, "ALLYOUNEED_NATIVE is 0")
    return library_for(os.environ.get(isa.VARIABLE))


@functools.cache
def library_for(name: str | None) -> Found:
    """The library for an instruction set, by default the fastest; it says once why there is none.

    Raises:
        UsageError: This processor does not have the instruction set.
    """
    instructions = isa.find(name)
    result = _ready_made(instructions) or _cached_or_compiled(instructions)
    if result.library is None:
        say(
            "allyouneed: the C kernels are not available, PyTorch computes several times more slowly and"
            f" without int8 ({result.origin}); set ALLYOUNEED_NATIVE=0 to hide this message"
        )
    return result


def _ready_made(instructions: isa.InstructionSet) -> Found | None:
    """The library that came with the package, if it was made of exactly these sources.

    It may belong to any user, such as root: whoever can change it can change this file, too.
    """
    path = SOURCES / library_name(instructions)
    with contextlib.suppress(OSError, AttributeError):  # absent, or without PyTorch's OpenMP
        return Found(_open(path), "ready-made")
    return None


def _cached_or_compiled(instructions: isa.InstructionSet) -> Found:
    """The library of the most preferred compiler that works, cached or newly compiled."""
    failure = "no C compiler is installed"
    cache, name = user_cache(), library_name(instructions, str(platform.libc_ver()))
    for compiler in COMPILERS:
        kept = None if cache is None else cache / f"{compiler}-{name}"
        if kept is not None and is_ours(kept):
            with contextlib.suppress(OSError, AttributeError):  # truncated by a crash: compile it again
                return _opened(kept, compiler)
        command = find(compiler)
        if command is None:
            continue
        try:
            return _compiled(compiler, [*command, *instructions.options], kept)
        except (OSError, RuntimeError, subprocess.SubprocessError, AttributeError) as error:
            failure = printable(str(error).partition("\n")[0])
    return Found(None, f"{failure}: {_REMEDY}")


def _compiled(compiler: str, command: Sequence[str], kept: Path | None) -> Found:
    """The library of a compiler, which is written to `kept` in the cache if there is one."""
    if kept is None:
        say(
            "allyouneed: no cache directory for the C kernels, so every start compiles them, which takes"
            " seconds; set XDG_CACHE_HOME to a directory that you own and only you can write to"
        )
    with tempfile.TemporaryDirectory(dir=kept and kept.parent) as folder:
        made = Path(folder) / "kernels.so"
        compile_library(compiler, command, made)
        result = _opened(made, compiler)
        if kept is not None:
            made.chmod(0o700)
            with made.open("rb") as file:
                os.fsync(file.fileno())
            made.replace(kept)  # atomic, because other processes may be compiling it too
        return result


def _opened(path: Path, compiler: str) -> Found:
    parallel = any(call in path.read_bytes() for call in _OPENMP)
    return Found(_open(path), f"compiled by {compiler}{'' if parallel else ', one thread per product'}")


def _open(path: Path) -> Any:
    loaded = ctypes.CDLL(str(path))
    for name, arguments in functions().items():
        getattr(loaded, name).argtypes = arguments
    return loaded
