"""Environments that a scheduler, a service or an accident makes: variables, homes, limits, cores, folders."""

import os
import random
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.siege.cases import Case, prepare, resume, train, translate
from tests.siege.conftest import Record, Siege

NAMES = (
    *("WORLD_SIZE", "RANK", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT", "TORCHELASTIC_RESTART_COUNT"),
    *(
        "COLUMNS",
        "LINES",
        "TERM",
        "NO_COLOR",
        "FORCE_COLOR",
        "HOME",
        "XDG_CACHE_HOME",
        "TMPDIR",
        "PATH",
        "TZ",
    ),
    *(
        "LANG",
        "LC_ALL",
        "PYTHONIOENCODING",
        "ALLYOUNEED_NATIVE",
        "ALLYOUNEED_ISA",
        "OMP_NUM_THREADS",
        "MPLBACKEND",
        "SSL_CERT_FILE",
    ),
)
ODD = (
    "abc",
    "",
    "0",
    "1",
    "-1",
    "4.5",
    "9" * 5_000,
    "\x01",
    "\udcff",
    "/",
    "relative/folder",
    "/dev/full",
    None,
)
COMMANDS = (
    *[translate("").arguments] * 3,
    ("plan",),
    ("translate", "--help"),
    ("evaluate", "--hypotheses", "text.en", "--reference", "text.toy"),
    ("attend", "model", "sun", "--svg", "new"),
    prepare("", "--pairs", "pairs.tsv", "--vocab-size", "280").arguments,
)

MEMORY = "RLIMIT_AS", "RLIMIT_DATA"
THREADLESS = "--workers", "1"
"""For limits of memory: Python waits for ever for a thread that finds no memory before its first line."""


def given(environment: dict[str, str | None], *, fresh: bool = False) -> dict[str, Any]:
    return {"environment": environment, "fresh": fresh}


def limited(case: Case, **limits: int) -> Case:
    """The case with less than it wants; it may find that it is enough."""
    name = ", ".join([case.name, *(f"{limit}={most}" for limit, most in limits.items())])
    silent = limits.get("RLIMIT_FSIZE") == 0  # standard error is a file, too
    changes: dict[str, Any] = {"name": name, "settings": {"limits": limits}, "silent": silent}
    return replace(case, **changes).ending(0, 2, 4, 6, 7, 9)


def gone(name: str, arguments: tuple[str, ...]) -> Case:
    """The working directory is deleted before the program looks at it."""
    settings = {"folder_vanishes": True}
    return Case(
        f"{name} in a folder that is gone", arguments, change=_empty, targets=("",), settings=settings
    )


def _empty(folder: Path) -> None:
    shutil.rmtree(folder)
    folder.mkdir()


TABLE = [
    *(
        Case(f"plan with {name}={value[:20]}", ("plan",), settings=given({name: value})).ending(*codes)
        for name, value, codes in (
            ("WORLD_SIZE", "abc", (0,)),
            ("WORLD_SIZE", "", (0,)),
            ("WORLD_SIZE", "4.5", (0,)),
            ("WORLD_SIZE", "9" * 5_000, (0,)),
            ("COLUMNS", "0", (0,)),
            ("COLUMNS", "-1", (0,)),
            ("COLUMNS", "abc", (0,)),
        )
    ),
    train("WORLD_SIZE=abc", "--steps", "1", settings=given({"WORLD_SIZE": "abc"})).ending(
        2, says="WORLD_SIZE"
    ),
    train(
        "no MASTER_ADDR",
        "--steps",
        "1",
        settings=given({"WORLD_SIZE": "2", "RANK": "0", "MASTER_PORT": "29500"}),
    ).ending(2, says="MASTER_ADDR"),
    train("RANK=abc", "--steps", "1", settings=given({"WORLD_SIZE": "2", "RANK": "abc"})).ending(
        2, says="RANK"
    ),
    *(
        Case(
            f"help with COLUMNS={value}", ("translate", "--help"), settings=given({"COLUMNS": value})
        ).ending(0)
        for value in ("0", "-1", "1", "abc", "1000000")
    ),
    *(
        translate(f"a fresh start with {name}={value}", settings=given({name: value}, fresh=True)).ending(
            *codes
        )
        for name, value, codes in (
            ("OMP_NUM_THREADS", "0", (0,)),
            ("HOME", "relative", (0,)),
            ("HOME", None, (0,)),
            ("XDG_CACHE_HOME", "/dev/full", (0,)),
            ("TMPDIR", "/nothing", (0,)),
            ("PATH", "", (0,)),
        )
    ),
    translate("on one core", settings={"cores": [min(os.sched_getaffinity(0))]}).ending(0),
    train("trained on one core", "--steps", "1", settings={"cores": [min(os.sched_getaffinity(0))]}).ending(
        0
    ),
    *(
        limited(case, **limits)
        for case in (translate("translate"), train("train", "--steps", "1"), resume("resume"))
        for limits in (
            {"RLIMIT_NOFILE": 3},
            {"RLIMIT_NOFILE": 8},
            {"RLIMIT_NOFILE": 12},
            {"RLIMIT_FSIZE": 0},
            {"RLIMIT_FSIZE": 1_000},
            {"RLIMIT_FSIZE": 10_000},
            {"RLIMIT_NPROC": 1},
            {"RLIMIT_STACK": 1 << 16},
        )
    ),
    *(
        limited(case, **{limit: 1 << 20})
        for case in (
            translate("translate", *THREADLESS),
            train("train", "--steps", "1"),
            resume("resume"),
        )
        for limit in MEMORY
    ),
    gone("plan", ("plan",)).ending(0, 2, 6),
    gone("help", ("--help",)).ending(0, 2, 6),
    gone("average", ("average", "run", "--out", "new")).ending(2, 4, 6),
    gone("translate", ("translate", "nothing")).ending(2, 4, 6),
    gone("prepare", ("prepare", "new", "--pairs", "/dev/null")).ending(2, 3, 6),
]


def fuzzed(number: int) -> Case:
    """A command with odd values in the environment, or with small limits."""
    draw = random.Random(f"environment-{number}")
    settings: dict[str, Any] = given(
        {draw.choice(NAMES): draw.choice(ODD) for _ in range(draw.randint(1, 3))}
    )
    limit = draw.choice(["RLIMIT_NOFILE", "RLIMIT_FSIZE", *MEMORY]) if draw.random() < 0.3 else None
    if limit:
        settings["limits"] = {limit: draw.randint(0, 64 if limit == "RLIMIT_NOFILE" else 1 << 28)}
    arguments = draw.choice(COMMANDS)
    rows = 3 if "model" in arguments and arguments[0] == "translate" else None
    if rows and limit in MEMORY:
        arguments = *arguments, *THREADLESS
    return Case(
        str(number),
        arguments,
        needs=("model",),
        targets=("new",),
        stdin=b"sun\nmoon\n\n",
        settings=settings,
        rows=rows,
    )


@pytest.mark.parametrize("count", [5, pytest.param(1_000, marks=pytest.mark.release)])
def test_no_environment_breaks_a_command(siege: Siege, count: int, record_property: Record) -> None:
    """Promise: Siege."""
    siege.hold("environment", TABLE, fuzzed, count, record_property)
