"""Forks an `allyouneed` program for each request on standard input: torch is imported once, not each time.

A request is a line of JSON: `{"start": {...}}` with the fields of `Start` is answered by the pid of the
program, which leads a process group of its own; `{"wait": pid, "may_sleep": true}` by its exit code, or
minus the signal that ended it. A program that is paused waits for SIGCONT before it does anything, so that it
can be traced.
"""

import contextlib
import ctypes
import gc
import importlib
import io
import itertools
import json
import os
import pkgutil
import resource
import select
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from matplotlib.figure import Figure
from torch.distributed.run import main as torchrun

import allyouneed
from allyouneed.cli import program as cli
from allyouneed.native.library import library

PATIENCE_SECONDS = 120.0
LOOK_SECONDS, MOST_LOOKS = 0.5, 20
"""A program that may not sleep is ended where it does so at as many looks, one after the other: for 10 s."""
PR_SET_PTRACER = 0x59616D61
PR_SET_KEEPCAPS, PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE = 8, 47, 2
LINUX_CAPABILITY_VERSION_3, CAP_DAC_READ_SEARCH = 0x20080522, 2
NOBODY = 65534
MEMORY = "RLIMIT_AS", "RLIMIT_DATA"
CLOSED = ""


@dataclass(frozen=True)
class Start:
    """A program to be started, and the circumstances in which it runs."""

    arguments: list[str]
    stdin: str | None = None
    """A file; None for what this process was given, `CLOSED` for no descriptor at all."""
    stdout: str | None = None
    stderr: str | None = None
    folder: str | None = None
    """The working directory."""
    folder_vanishes: bool = False
    """The working directory, an empty one, is deleted before the program begins."""
    environment: Mapping[str, str | None] = field(default_factory=dict)
    """Variables to set, or to remove."""
    limits: Mapping[str, int] = field(default_factory=dict)
    """Soft limits by their names in `resource`, such as RLIMIT_CPU; those of memory are beyond what this
    process has, as the programs begin with it."""
    unprivileged: bool = False
    """Run as nobody who may read everything, where this process is root's."""
    cores: list[int] | None = None
    clock_leaps: bool = False
    """Every look at a clock finds it a minute later, and that of the day also a year earlier or later."""
    fresh: bool = False
    """Start a new interpreter: for what is read at the start or by an import."""
    is_launcher: bool = False
    """Run `torchrun ARGUMENTS` instead, whose processes have new interpreters."""
    paused: bool = False


def warm_up(data: str, config: str, draws: bool) -> None:
    """Train here and resume, so that whatever is imported late is imported before the programs fork."""
    with tempfile.TemporaryDirectory() as folder:
        arguments = ["train", f"{folder}/run", "--data", data, "--config", config, "--device", "cpu"]
        for options in (["--steps", "1"], ["--steps", "2", "--resume"]):
            if code := cli.main(["--quiet", *arguments, *options]):
                sys.exit(code)
        if not draws:
            keep_picture(Path(folder, "run", "loss.png").read_bytes())
    for module in pkgutil.walk_packages(allyouneed.__path__, "allyouneed."):
        with contextlib.suppress(ImportError):  # of what is optional
            importlib.import_module(module.name)
    library()


def keep_picture(picture: bytes) -> None:
    """Let this be every PNG that a program saves: to draw them would take half of a short training."""
    save = Figure.savefig

    def savefig(figure: Figure, path: Path, *, format: str, **options: Any) -> None:
        if format == "png":
            path.write_bytes(picture)
        else:
            save(figure, path, format=format, **options)

    Figure.savefig = savefig  # type: ignore[method-assign,assignment]


def start(wanted: Start) -> int:
    """The pid of a program that runs as wanted."""
    pid = os.fork()
    os.setpgid(pid, pid)  # on both sides: whichever is first
    if pid:
        if wanted.paused:
            os.waitpid(pid, os.WUNTRACED)
        return pid
    try:
        enter(wanted)
        run(wanted)
    except SystemExit as ended:
        os._exit(ended.code if isinstance(ended.code, int) else 1)  # taking torch down would cost a second
    except BaseException:
        traceback.print_exc()
    os._exit(1)


def enter(wanted: Start) -> None:
    """Bring this process into the circumstances."""
    signal.signal(signal.SIGHUP, signal.SIG_DFL)  # tests under `nohup` would leave it ignored
    redirect(0, wanted.stdin, os.O_RDONLY)
    for descriptor, path in ((1, wanted.stdout), (2, wanted.stderr)):
        redirect(descriptor, path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    for name, value in wanted.environment.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value
    if wanted.clock_leaps:
        let_clocks_leap()
    if wanted.cores is not None:
        os.sched_setaffinity(0, wanted.cores)
    if wanted.folder is not None:
        os.chdir(wanted.folder)
    if wanted.folder_vanishes:
        Path.cwd().rmdir()
    if wanted.unprivileged and os.geteuid() == 0:
        become_nobody()
    for name, limit in wanted.limits.items():
        number, begun_with = getattr(resource, name), memory_of_this_process() if name in MEMORY else 0
        resource.setrlimit(number, (begun_with + limit, resource.getrlimit(number)[1]))
    if wanted.paused:
        ctypes.CDLL(None).prctl(PR_SET_PTRACER, ctypes.c_ulong(-1))  # any process may trace this one
        signal.raise_signal(signal.SIGSTOP)


def memory_of_this_process() -> int:
    """Bytes of address space."""
    return int(Path("/proc/self/statm").read_bytes().split()[0]) * resource.getpagesize()


def become_nobody() -> None:
    """Keep none of root's rights but to read: Python itself may be installed where only root may look."""
    libc = ctypes.CDLL(None)
    libc.prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0)
    os.setgroups([])
    os.setgid(NOBODY)
    os.setuid(NOBODY)
    kept = 1 << CAP_DAC_READ_SEARCH
    header = (ctypes.c_uint32 * 2)(LINUX_CAPABILITY_VERSION_3, 0)
    effective_permitted_inheritable = (ctypes.c_uint32 * 6)(kept, kept, kept)
    libc.capset(header, effective_permitted_inheritable)
    libc.prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, CAP_DAC_READ_SEARCH, 0, 0)


def let_clocks_leap() -> None:
    """Let clocks do what they do when a machine was asleep, or has learned the right time."""
    minutes, years = itertools.count(), itertools.cycle([0, -1, 1])
    monotonic, of_the_day = time.monotonic, time.time
    time.monotonic = lambda: monotonic() + 60 * next(minutes)
    time.time = lambda: of_the_day() + 31_536_000 * next(years)


def redirect(descriptor: int, path: str | None, flags: int) -> None:
    """Let a standard descriptor be the file, or none."""
    if path == CLOSED:
        os.close(descriptor)
    elif path is not None:
        opened = os.open(path, flags)
        os.dup2(opened, descriptor)
        os.close(opened)


def run(wanted: Start) -> None:
    """Run the program, and end with a SystemExit."""
    if wanted.is_launcher:
        torchrun(wanted.arguments)
        sys.exit(0)
    if wanted.fresh:
        os.execv(sys.executable, [sys.executable, "-m", "allyouneed", *wanted.arguments])
    sys.stdin, sys.stdout, sys.stderr = (
        standard_stream(number, mode) for number, mode in enumerate(("r", "w", "w"))
    )
    sys.argv = ["allyouneed", *wanted.arguments]
    cli.run()


def standard_stream(descriptor: int, mode: str) -> Any:
    """What Python has at its start for a standard descriptor; None where that is closed."""
    try:
        return io.open(  # noqa: UP020  # `open` would be the same, but for the name
            descriptor, mode, buffering=1 if descriptor == 2 else -1, encoding="utf-8", closefd=False
        )
    except OSError:
        return None


def wait(pid: int, may_sleep: bool) -> int:
    """The exit code; a program that hangs is killed, and its code is then -9.

    One that may not sleep hangs where all its threads sleep and compute nothing, which a slow or busy machine
    lets no program do: there it is ready to run, or waits for a disk.
    """
    began, before, num_looks = time.monotonic(), None, 0
    ends = os.pidfd_open(pid)
    while not select.select([ends], [], [], LOOK_SECONDS)[0]:
        if not may_sleep:
            asleep = sleeping_threads(pid)
            num_looks = num_looks + 1 if asleep is not None and asleep == before else 0
            before = asleep
        if time.monotonic() - began > PATIENCE_SECONDS or num_looks == MOST_LOOKS:
            os.killpg(pid, signal.SIGKILL)
    os.close(ends)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def sleeping_threads(group: int) -> dict[str, list[bytes]] | None:
    """The time that each thread of a process group has computed, or None where one of them does not sleep."""
    found = {}
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it has just ended
            if int(fields_of(process)[2]) == group:
                for thread in (process / "task").iterdir():
                    state, *others = fields_of(thread)
                    if state not in (b"S", b"Z"):
                        return None
                    found[thread.name] = others[10:12]
    return found


def fields_of(thread: Path) -> list[bytes]:
    """What the system says of a process or thread, from its state on; see proc_pid_stat(5)."""
    return (thread / "stat").read_bytes().rpartition(b")")[2].split()


def answer(request: dict[str, Any]) -> int:
    if "wait" in request:
        return wait(request["wait"], request["may_sleep"])
    return start(Start(**request["start"]))


if __name__ == "__main__":
    torch.set_num_threads(1)  # a process with threads must not fork
    data, config, *draws = sys.argv[1:]
    warm_up(data, config, draws == ["--draws"])
    gc.collect()
    gc.freeze()  # a collection in a program would copy all that they share
    assert len(list(Path("/proc/self/task").iterdir())) == 1
    for line in sys.stdin.buffer:
        print(answer(json.loads(line)), flush=True)
    os._exit(0)
