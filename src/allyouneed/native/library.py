"""The C kernels, compiled for the processor's instruction set on first use, and cached.

Without a compiler there is no library, and PyTorch computes instead.
"""

import ctypes
import functools
import hashlib
import os
import platform
import shutil
import stat
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from allyouneed.config.variables import is_home
from allyouneed.errors import printable, say
from allyouneed.native import isa
from allyouneed.native.header import functions

FORMS = "float32", "bfloat16", "int8"
"""Forms of packed weights, in the order of `enum form` in `kernels.h`."""
SOURCES = Path(__file__).parent
"""Folder of the C files and their headers."""
FLAGS = "-O3", "-std=gnu11", "-ffp-contract=off"
"""Compiler options for every instruction set."""

_COMPILERS = "cc", "gcc", "clang"
_SHARED = "-shared", "-fPIC"
_SECONDS = 120


def available() -> tuple[str, ...]:
    """The precisions that `PackedLinear` supports on this machine: all, or none without the library."""
    return FORMS if library() else ()


def library() -> Any:
    """The library for the chosen instruction set, or None if it is unavailable.

    Raises:
        UsageError: `ALLYOUNEED_ISA` names an instruction set that this processor does not have.
    """
    declined = os.environ.get("ALLYOUNEED_NATIVE") == "0"
    return None if declined else library_for(os.environ.get(isa.VARIABLE))


@functools.cache
def library_for(name: str | None) -> Any:
    """The library for an instruction set, by default the fastest; None if it is unavailable.

    Raises:
        UsageError: This processor does not have the instruction set.
    """
    instructions = isa.find(name)
    try:
        return _loaded(instructions)
    except (OSError, RuntimeError, subprocess.SubprocessError, AttributeError) as error:
        reason = printable(str(error).partition("\n")[0])
        say(
            f"allyouneed: the C kernels are not available, PyTorch computes more slowly ({reason});"
            " set ALLYOUNEED_NATIVE=0 to hide this message"
        )
        return None


def find_compiler() -> str | None:
    """Path of the C compiler, or None without one."""
    return next((found for name in _COMPILERS if (found := shutil.which(name))), None)


def _loaded(instructions: isa.InstructionSet) -> Any:
    """The library, cached or newly compiled; None without a compiler."""
    compiler = find_compiler()
    sources = sorted(SOURCES.glob("*.[ch]"))
    options = *FLAGS, *_SHARED, *instructions.options
    parts = [*(source.read_bytes() for source in sources), str((options, platform.libc_ver())).encode()]
    digest = hashlib.sha256(bytes(1).join(parts)).hexdigest()[:16]
    name = f"kernels-{instructions.name}-{digest}.so"
    cache = _cache()
    if cache is not None and _is_ours(cache / name):
        try:
            return _open(cache / name)
        except (OSError, AttributeError):  # for example truncated by a crash: compile it again
            pass
    if compiler is None:
        return None
    if cache is None:
        say(
            "allyouneed: no cache directory for the C kernels, so every start compiles them, which takes"
            " seconds; set XDG_CACHE_HOME to a directory that you own and only you can write to"
        )
    with tempfile.TemporaryDirectory(dir=cache) as folder:
        made = Path(folder) / name
        _compile([compiler, *options], [str(source) for source in sources if source.suffix == ".c"], made)
        loaded = _open(made)
        if cache is not None:
            made.chmod(0o700)
            with made.open("rb") as file:
                os.fsync(file.fileno())
            made.replace(cache / name)  # atomic, because other processes may be compiling it too
        return loaded


def _open(path: Path) -> Any:
    loaded = ctypes.CDLL(str(path))
    for name, arguments in functions().items():
        getattr(loaded, name).argtypes = arguments
    return loaded


def _compile(compiler: list[str], sources: list[str], path: Path) -> None:
    for more in (["-fopenmp"], []):
        command = [*compiler, *more, "-o", str(path), *sources, "-lm"]
        ended = subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS, check=False)
        if ended.returncode == 0:
            return
    raise RuntimeError(f"{compiler[0]} failed: {ended.stderr.strip()}")


def _cache() -> Path | None:
    """The cache directory, which only this user can write to; None if there cannot be one."""
    given = Path(os.environ.get("XDG_CACHE_HOME", ""))
    try:
        home = Path.home()
        base = given if given.is_absolute() else home / ".cache"
        if base != given and not is_home(os.environ.get("HOME", str(home))):
            return None
        folder = base / "allyouneed"
        for each in (base, folder):
            each.mkdir(mode=0o700, exist_ok=True)
    except (OSError, RuntimeError):  # no home, or a read-only file system
        return None
    return folder if _is_ours(folder) and os.access(folder, os.W_OK) else None


def _is_ours(path: Path) -> bool:
    """Whether the path exists and only this user can have created or changed it."""
    try:
        status = path.lstat()
    except OSError:
        return False
    return not stat.S_ISLNK(status.st_mode) and status.st_uid == os.getuid() and not status.st_mode & 0o022
