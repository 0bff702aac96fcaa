"""Runs of which any file is damaged or strange: they go on from what is sound, or say that they cannot."""

import os
import random
from pathlib import Path

import pytest
from tests.siege.cases import Case, Change, resume
from tests.siege.conftest import Record, Siege
from tests.siege.mutations import mutate, reseal

LAST, BEFORE = "run/state/step-00000004", "run/state/step-00000002"
FILES = (
    *("run/config.toml", "run/log.jsonl", "run/latest", "run/best", "run/exit.json", "run/lock"),
    *(f"{LAST}/state.json", f"{LAST}/state.json", f"{LAST}/state.safetensors", f"{LAST}/MANIFEST.json"),
    *(
        f"run/checkpoints/step-00000004/{name}"
        for name in ("config.toml", "model.safetensors", "MANIFEST.json")
    ),
)
COMMANDS = (
    *[resume("").arguments] * 2,
    *[("cost", "run"), ("cost", "run", "--json")] * 2,
    ("average", "run", "--out", "new"),
    ("verify", "run"),
    ("translate", "run"),
)


def content(name: str, written: bytes, *, sealed: bool = True) -> Change:
    """Let a file of the run hold something else."""

    def change(folder: Path) -> None:
        path = folder / name
        path.write_bytes(written)
        if sealed and (path.parent / "MANIFEST.json").exists():
            reseal(path.parent)

    return change


def state(name: str, written: bytes) -> Case:
    """The last state has another state.json, under a seal that holds: the one before is taken."""
    change = content(f"{LAST}/state.json", written)
    return resume(f"state.json: {name}", change=change).ending(0, says="step-00000004")


def pipe(name: str) -> Change:
    """Let a pipe be in the place of a file of the run."""

    def change(folder: Path) -> None:
        (folder / name).unlink(missing_ok=True)
        os.mkfifo(folder / name)

    return change


ONE_EVENT = b'{"event": "start"}\n'

TABLE = [
    *(
        state(name, written)
        for name, written in (
            ("an empty object", b"{}"),
            ("a list", b"[]"),
            ("a number", b"1"),
            ("no JSON", b"{"),
            ("no UTF-8", b"\xff"),
            ("nothing", b""),
            ("nested", b"[" * 100_000),
            ("an integer of 5,000 digits", b'{"step": ' + b"9" * 5_000 + b"}"),
        )
    ),
    *(
        Case(
            " ".join(("cost of a log of", name, *options)),
            ("cost", "run", *options),
            change=content("run/log.jsonl", written),
        ).ending(4, says="has recorded no cost")
        for name, written in (
            ("nothing", b""),
            ("one event", ONE_EVENT),
            ("one update", b'{"event": "train", "step": 1}\n'),
            ("a number", b"1\n"),
            ("no JSON", b"{\n"),
            ("a nested event", b"[" * 100_000 + b"\n"),
            ("half an event", b'{"event": "st'),
            (
                "times that are no numbers",
                b'{"event": "start", "time": "x"}\n{"event": "train", "seconds": null}\n',
            ),
        )
        for options in ((), ("--json",))
    ),
    *(
        resume(f"latest: {name}", change=content("run/latest", written)).ending(0, says="resumed at step 4")
        for name, written in (
            ("nothing", b""),
            ("another folder", b"../../data\n"),
            ("an integer of 5,000 digits", b"step-" + b"9" * 5_000 + b"\n"),
            ("no UTF-8", b"step-\xff\n"),
            ("a step that is not there", b"step-00000099\n"),
        )
    ),
    Case(
        "latest of 5,000 digits, translated",
        ("translate", "run"),
        change=content("run/latest", b"step-" + b"9" * 5_000),
    ).ending(4),
    resume("a pipe as log", change=pipe("run/log.jsonl")).ending(2, says="is a pipe or a device"),
    resume("a pipe as lock", change=pipe("run/lock")).ending(2, says="is a pipe or a device"),
    Case(
        "average of a run with a pipe as configuration",
        ("average", "run", "--out", "new"),
        change=pipe("run/config.toml"),
    ).ending(2, says="is a pipe or a device"),
    *(
        Case(f"{arguments[0]} with a pipe as {name}", arguments, change=pipe(f"run/{name}"), needs=("data",))
        for name in ("config.toml", "log.jsonl", "latest", "best", "lock")
        for arguments in (("cost", "run"), ("verify", "run"), ("translate", "run"))
    ),
    resume("data given twice", "--data", "other-data").ending(2),
    Case(
        "data of another vocabulary",
        ("train", "run", "--data", "other-data", "--resume", "--steps", "6"),
        targets=("run",),
    ).ending(3, says="began with vocabularies of"),
    Case(
        "data of trees", ("train", "run", "--data", "tree-data", "--resume", "--steps", "6"), targets=("run",)
    ).ending(3, says="began with vocabularies of"),
    Case("a finished run", ("train", "run", "--data", "data", "--resume"), targets=("run",)).ending(0),
    Case("a run that is there", ("train", "run", "--data", "data")).ending(2),
    Case(
        "average of more than there are",
        ("average", "run", "--last", "1000000", "--out", "new"),
        targets=("new",),
    ).ending(2, says="ask for 1 to 2"),
    Case("average of none", ("average", "run", "--last", "0", "--out", "new")).ending(2),
    Case("average over what is there", ("average", "run", "--out", "data"), needs=("data",)).ending(2),
    Case("average into the run", ("average", "run", "--out", "run"), needs=("data",)).ending(2),
]


def fuzzed(number: int) -> Case:
    """A run of which a file is mutated; where a manifest lists it, half of them have a fresh seal."""
    draw = random.Random(f"state-{number}")

    def change(folder: Path) -> None:
        path = folder / draw.choice(FILES)
        if not path.exists():
            return
        mutate(draw, path)
        manifest = path.parent / "MANIFEST.json"
        if manifest.exists() and path != manifest and draw.random() < 0.5:
            reseal(path.parent)

    arguments = draw.choice(COMMANDS)
    targets = ("run",) if arguments[0] == "train" else ("new",)
    rows = 1 if arguments[0] == "translate" else None
    return Case(
        str(number), arguments, needs=("data",), change=change, stdin=b"sun\n", targets=targets, rows=rows
    )


@pytest.mark.parametrize("count", [8, pytest.param(1_500, marks=pytest.mark.release)])
def test_runs_go_on_from_what_is_sound_or_say_why_not(
    siege: Siege, count: int, record_property: Record
) -> None:
    """Promise: Siege."""
    siege.hold("state", TABLE, fuzzed, count, record_property)
