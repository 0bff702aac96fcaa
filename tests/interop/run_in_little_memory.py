"""`run_in_little_memory.py FILE`: runs commands one after another, in so much memory besides torch's own.

FILE has a JSON list of command lines. A line of JSON on stdout has the number of a command, its exit code and
what it said; the last line tells which one hangs, should one do so.
"""

import contextlib
import io
import json
import resource
import sys
from pathlib import Path

import torch  # noqa: F401 - which takes address space

from allyouneed.cli.program import main
from allyouneed.interop import importing  # noqa: F401 - as torch

MEMORY_BYTES = 1 << 30

if __name__ == "__main__":
    mapped = int(Path("/proc/self/statm").read_bytes().split()[0]) * resource.getpagesize()
    limit = mapped + MEMORY_BYTES
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    for number, command in enumerate(json.loads(Path(sys.argv[1]).read_bytes())):
        print(json.dumps([number, command]), flush=True)
        with contextlib.redirect_stderr(io.StringIO()) as said, contextlib.redirect_stdout(io.StringIO()):
            code = main(command)
        print(json.dumps([number, code, said.getvalue()]), flush=True)
