"""Forks an `allyouneed` program for each request on standard input: torch is imported once, not each time.

A request is a line of JSON: `{"start": [arguments], "output": path, "paused": bool}` is answered by the pid
of the program, which leads a process group of its own; `{"wait": pid}` by its exit code, or minus the signal
that ended it. A program that is paused waits for SIGCONT before it does anything, so that it can be traced.
"""

import ctypes
import json
import os
import signal
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import torch

from allyouneed.interfaces import cli

PATIENCE_SECONDS = 300.0
PR_SET_PTRACER = 0x59616D61


def warm_up(data: str, config: str) -> None:
    """Train here and resume, so that whatever is imported late is imported before the programs fork."""
    with tempfile.TemporaryDirectory() as folder:
        arguments = ["train", f"{folder}/run", "--data", data, "--config", config, "--device", "cpu"]
        for options in (["--steps", "1"], ["--steps", "2", "--resume"]):
            if code := cli.main(["--quiet", *arguments, *options]):
                sys.exit(code)


def start(arguments: list[str], output: str, paused: bool) -> int:
    """The pid of a program that runs with these arguments."""
    pid = os.fork()
    os.setpgid(pid, pid)  # on both sides: whichever is first
    if pid:
        if paused:
            os.waitpid(pid, os.WUNTRACED)
        return pid
    descriptor = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    for standard in (1, 2):
        os.dup2(descriptor, standard)
    if paused:
        ctypes.CDLL(None).prctl(PR_SET_PTRACER, ctypes.c_ulong(-1))  # any process may trace this one
        signal.raise_signal(signal.SIGSTOP)
    sys.argv = ["allyouneed", *arguments]
    try:
        cli.run()
    except SystemExit as ended:
        os._exit(ended.code if isinstance(ended.code, int) else 1)  # taking torch down would cost a second


def wait(pid: int) -> int:
    """The exit code; a program that hangs is killed, and its code is then -9."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not (ended := os.waitpid(pid, os.WNOHANG))[0]:
        if time.monotonic() > deadline:
            os.killpg(pid, signal.SIGKILL)
        time.sleep(0.001)
    return os.waitstatus_to_exitcode(ended[1])


def answer(request: dict[str, Any]) -> int:
    if "wait" in request:
        return wait(request["wait"])
    return start(request["start"], request["output"], request["paused"])


if __name__ == "__main__":
    torch.set_num_threads(1)  # a process with threads must not fork
    warm_up(*sys.argv[1:])
    assert len(list(Path("/proc/self/task").iterdir())) == 1
    for line in sys.stdin.buffer:
        print(answer(json.loads(line)), flush=True)
    os._exit(0)
