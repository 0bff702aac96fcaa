"""Places to write to that are no places, or somebody's: what was there stays as it was."""

import os
import random
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.siege.cases import Case, Change
from tests.siege.conftest import Record, Siege

WRITERS: dict[str, tuple[str, ...]] = {
    "prepare": ("prepare", "PLACE", "--pairs", "pairs.tsv", "--vocab-size", "280"),
    "train": ("train", "PLACE", "--data", "data", "--config", "config.toml", "--steps", "1"),
    "average": ("average", "run", "--out", "PLACE"),
    "shortlist": ("shortlist", "data", "--out", "PLACE"),
    "attend": ("attend", "model", "sun moon", "--out", "PLACE"),
    "attend --json": ("attend", "model", "sun moon", "--json", "PLACE"),
    "attend --svg": ("attend", "model", "sun moon", "--svg", "PLACE"),
    "parse --svg": ("parse", "parser", "--svg", "PLACE"),
    "translate": ("translate", "model", "--resume-output", "PLACE"),
    "evaluate": ("evaluate", "parser", "--trees", "trees.mrg", "--length-plot", "PLACE"),
}
"""The commands that write to a place that is named, and how."""
FOLDERS = {"prepare", "train", "average", "shortlist"}


def nothing(folder: Path) -> None:
    """Leave all as it is."""


def folder_with_a_file(folder: Path) -> None:
    (folder / "place").mkdir()
    (folder / "place" / "precious").write_bytes(b"x")


def file(folder: Path) -> None:
    (folder / "place").write_bytes(b"precious\n")


def node(make: Callable[[Path], None]) -> Change:
    return lambda folder: make(folder / "place")


def link(target: str) -> Change:
    return lambda folder: (folder / "place").symlink_to(target)


def link_to_a_file(folder: Path) -> None:
    (folder / "precious").write_bytes(b"precious\n")
    (folder / "place").symlink_to("precious")


def read_only(folder: Path) -> None:
    (folder / "shut").mkdir(mode=0o555)


PLACES: dict[str, tuple[str, Change]] = {
    "the root": ("/", nothing),
    "the empty name": ("", nothing),
    "here": (".", nothing),
    "above": ("..", nothing),
    "far above": ("../../../../../../../../../../..", nothing),
    "a folder that holds something": ("place", folder_with_a_file),
    "a folder with a slash behind": ("place/", folder_with_a_file),
    "below a file": ("place/below", file),
    "below what is not there": ("nothing/below/it", nothing),
    "a pipe": ("place", node(os.mkfifo)),
    "a link to itself": ("place", link("place")),
    "a link to nothing": ("place", link("nothing")),
    "a link to a file": ("place", link_to_a_file),
    "a link to a device": ("place", link("/dev/full")),
    "a link to the root": ("place", link("/")),
    "a device": ("/dev/full", nothing),
    "a device of nothing": ("/dev/null", nothing),
    "a folder of the system": ("/proc", nothing),
    "a file of the system": ("/proc/version", nothing),
    "a folder of root's": ("/etc/allyouneed", nothing),
    "a folder that is shut": ("shut/place", read_only),
    "a name of 300 letters": ("x" * 300, nothing),
    "a name of 250 letters": ("x" * 250, nothing),
    "a path of 5,000 letters": ("x/" * 2_500, nothing),
    "a name with a line feed": ("new\nline", nothing),
    "a name that is no UTF-8": ("new-\udcff", nothing),
    "a name like an option": ("-new", nothing),
    "its own input": ("INPUT", nothing),
}
INPUTS = ("pairs.tsv", "trees.mrg", "data", "run", "model", "parser")
MAY_APPEAR = ("new\nline", "new-\udcff", "-new", "x" * 250, "nothing", "precious", "..")
"""Where a program that was told to may write."""


def at(writer: str, place: str) -> Case:
    """The writer, told to write there."""
    name, change = PLACES[place]
    arguments = WRITERS[writer]
    if name == "INPUT":
        name = next(argument for argument in arguments if argument in INPUTS)
    return Case(
        f"{writer} at {place}",
        tuple(name if argument == "PLACE" else argument for argument in arguments),
        needs=("trees.mrg",),
        change=change,
        targets=MAY_APPEAR,
        stdin=b"sun\n",
    )


def refused(writer: str, place: str, *codes: int) -> Case:
    return at(writer, place).ending(*(codes or (2, 6)))


def files_keep(writer: str) -> list[Case]:
    """What a writer of files refuses, or writes through."""
    return [
        refused(writer, place)
        for place in (
            "the root",
            "the empty name",
            "a folder that holds something",
            "a pipe",
            "a link to itself",
        )
    ]


TABLE = [
    *(
        refused(writer, place)
        for writer in sorted(FOLDERS)
        for place in (
            *(
                "the root",
                "the empty name",
                "here",
                "a folder that holds something",
                "below a file",
                "a pipe",
            ),
            *("a device", "a folder of the system", "a folder that is shut", "a name of 300 letters"),
            *("a link to itself", "a link to the root"),
        )
    ),
    *(case for writer in sorted(set(WRITERS) - FOLDERS) for case in files_keep(writer)),
    *(
        refused(writer, "a device", 0, 2, 6)
        for writer in ("attend", "attend --json", "attend --svg", "parse --svg", "evaluate")
    ),
    *(at(writer, "a name that is no UTF-8") for writer in sorted(WRITERS)),
]


def fuzzed(number: int) -> Case:
    """Any writer at any place."""
    draw = random.Random(f"paths-{number}")
    return at(draw.choice(sorted(WRITERS)), draw.choice(sorted(PLACES)))


@pytest.mark.parametrize("count", [6, pytest.param(800, marks=pytest.mark.release)])
def test_what_is_there_is_not_replaced(siege: Siege, count: int, record_property: Record) -> None:
    """Promise: Siege."""
    siege.hold("paths", TABLE, fuzzed, count, record_property)
