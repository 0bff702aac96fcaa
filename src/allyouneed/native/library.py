"""The library of C kernels: ready-made in the package, or compiled on first use and cached.

Where there is neither a ready-made library nor a compiler, PyTorch computes instead.
"""

import contextlib
import ctypes
import functools
import os
import platform
import struct
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from allyouneed.config.environment import is_ours, user_cache
from allyouneed.errors import printable, say
from allyouneed.native import isa
from allyouneed.native.compiler import COMPILERS, OPENMP, SOURCES, compile_library, find, library_name
from allyouneed.native.header import functions

FORMS = "float32", "bfloat16", "int8"
"""Forms of numbers, in the order of `enum form` in `kernels.h`."""

_REMEDY = "run `pip install 'allyouneed[compiler]'` or install gcc"
_CACHE_REMEDY = (
    "set XDG_CACHE_HOME to a directory that you own and only you can write to,"
    " with free space and not mounted noexec"
)
_OPENMP = b"GOMP_parallel", b"__kmpc_fork_call"  # how GCC and Clang start threads

_ELF = b"\x7fELF"


class Found(NamedTuple):
    """The library, and where it is from."""

    library: Any
    """None if there is none."""
    origin: str
    """The origin of the library, or the reason why there is none."""


class _Failure(NamedTuple):
    """Why there is no library for an instruction set."""

    reason: str
    final: bool
    """Whether no other instruction set has one: this one compiled, but could not be written or loaded."""


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
    return library_for(os.environ.get(isa.VARIABLE))[1]


def instructions() -> str:
    """The name of the instruction set that the library is for; call it only if there is a library.

    It is not the processor's fastest if no installed compiler knows that one.
    """
    return library_for(os.environ.get(isa.VARIABLE))[0]


@functools.cache
def library_for(name: str | None) -> tuple[str, Found]:
    """The library for an instruction set, by default the fastest that can be compiled, and the set's name.

    If there is none, it says why, once.

    Raises:
        UsageError: This processor does not have the instruction set.
    """
    missing = reason = ""
    for instruction_set in [isa.find(name)] if name else isa.supported():
        result = _ready_made(instruction_set) or _cached_or_compiled(instruction_set)
        if isinstance(result, Found):
            why = f", for {instruction_set.name} (not for {missing})" if missing else ""
            return instruction_set.name, result._replace(origin=result.origin + why)
        reason, final = result
        missing = missing or f"{instruction_set.name}: {reason}"
        if final:
            break
    if os.environ.get("RANK", "0") == "0":  # the first of several processes
        say(
            "allyouneed: the C kernels are not available: translation is several times slower and has no"
            f" int8, training is slower, too ({reason}); set ALLYOUNEED_NATIVE=0 to hide this message"
        )
    return instruction_set.name, Found(None, reason)


def _ready_made(instructions: isa.InstructionSet) -> Found | None:
    """The library that came with the package, if it was made of exactly these sources.

    It may belong to any user, such as root: whoever can change it can change this file, too.
    """
    path = SOURCES / library_name(instructions)
    if not path.exists():
        return None
    # OpenMP is PyTorch's, if that is loaded, or else the package's, or else the system's.
    for openmp in (None, str(SOURCES / OPENMP), OPENMP):
        with contextlib.suppress(OSError, AttributeError):
            if openmp is not None:
                ctypes.CDLL(openmp, ctypes.RTLD_GLOBAL)
            return _opened(path, "ready-made")
    return None


def _cached_or_compiled(instructions: isa.InstructionSet) -> Found | _Failure:
    """The library of the most preferred compiler that works, cached or newly compiled."""
    errors: list[Exception] = []
    cache, name = user_cache(), library_name(instructions, platform.machine(), str(platform.libc_ver()))
    for compiler in COMPILERS:
        kept = None if cache is None else cache / f"{compiler}-{name}"
        if kept is not None and is_ours(kept):
            with contextlib.suppress(OSError, AttributeError):  # damaged: compile it again
                return _opened(kept, f"compiled by {compiler}")
        command = find(compiler)
        if command is None:
            continue
        for place in (kept, None) if kept else (None,):  # the cache may be full, or mounted noexec
            try:
                return _compiled(compiler, [*command, *instructions.options], place)
            except (OSError, RuntimeError, AttributeError) as error:
                errors.append(error)
            except subprocess.SubprocessError as error:  # it took too long, and would again
                errors.append(error)
                break
    return _failure_of(errors)


def _failure_of(errors: Sequence[Exception]) -> _Failure:
    """The last error and its remedy: RuntimeError and SubprocessError are of compilers, others of folders."""
    if not errors:
        return _Failure(f"no C compiler is installed: {_REMEDY}", final=False)
    is_of_compiler = isinstance(errors[-1], RuntimeError | subprocess.SubprocessError)
    reason = printable(str(errors[-1]).partition("\n")[0])
    return _Failure(
        f"{reason}: {_REMEDY if is_of_compiler else _CACHE_REMEDY}",
        final=not any(isinstance(error, RuntimeError) for error in errors),
    )


def _compiled(compiler: str, command: Sequence[str], kept: Path | None) -> Found:
    """The library of a compiler, written to `kept` in the cache, or to a temporary folder if that is None."""
    with tempfile.TemporaryDirectory(dir=kept and kept.parent) as folder:
        made = Path(folder) / "kernels.so"
        compile_library(compiler, command, made)
        result = _opened(made, f"compiled by {compiler}")
        if kept is not None:
            made.chmod(0o700)
            with made.open("rb") as file:
                os.fsync(file.fileno())
            made.replace(kept)  # atomic, because other processes may be compiling it too
    if kept is None:
        say(
            "allyouneed: no usable cache directory for the C kernels, so every start compiles them, which"
            f" takes seconds; {_CACHE_REMEDY}"
        )
    return result


def _opened(path: Path, origin: str) -> Found:
    parallel = any(call in path.read_bytes() for call in _OPENMP)
    return Found(_open(path), origin if parallel else f"{origin}, one thread per product")


def _open(path: Path) -> Any:
    if _is_cut_off(path):
        raise OSError(f"{path} is cut off")
    loaded = ctypes.CDLL(str(path))
    for name, arguments in functions().items():
        getattr(loaded, name).argtypes = arguments
    return loaded


def _is_cut_off(path: Path) -> bool:
    """Whether an ELF file ends before its section headers do, which come last.

    The system would map what is missing, too, and kill the process that reads it; macOS checks its files.
    """
    with path.open("rb") as file:
        header = file.read(64)
    if not header.startswith(_ELF):
        return False
    if len(header) < 64:
        return True
    is_wide, is_little = header[4] == 2, header[5] == 1
    order, offset_type, place = "<" if is_little else ">", "Q" if is_wide else "I", 40 if is_wide else 32
    # e_shoff; e_flags, e_ehsize, e_phentsize and e_phnum, skipped; e_shentsize and e_shnum
    start, size, number = struct.unpack_from(f"{order}{offset_type}10xHH", header, place)
    return bool(start + size * number > path.stat().st_size)
