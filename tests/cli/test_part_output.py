"""Answers as parts: each is written once, and a run goes on where another was killed.

Promise: Resumed output.
"""

import json
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest
from tests.storage.flaky_files import FlakyFiles, flaky_files

from allyouneed.cli import line_output
from allyouneed.cli.line_output import PartsOutput, parts_output
from allyouneed.data.lines import Line
from allyouneed.errors import DataError, LockedError, UsageError
from allyouneed.storage import locations

LINES = [Line(number, f"line {number}") for number in range(1, 24)]


@pytest.fixture(autouse=True)
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(line_output, "PART_LINES", 5)


def answer(output: PartsOutput, lines: Iterable[Line], most: int = 1_000) -> list[int]:
    """Answer lines, but not more than that. Returns their numbers."""
    answered: list[int] = []
    for line in output.wanted(lines):
        if len(answered) == most:
            return answered
        output.write([f"{line.text}a", f"{line.text}b"])
        answered.append(line.number)
    output.finish()
    return answered


def whole(folder: Path) -> bytes:
    listed = json.loads((folder / line_output.LIST).read_bytes())
    assert listed["lines"] == len(LINES)
    assert sorted(path.name for path in folder.glob("part-*")) == listed["parts"]
    return b"".join((folder / name).read_bytes() for name in listed["parts"])


EXPECTED = "".join(f"line {number}a\nline {number}b\n" for number in range(1, 24)).encode()


@pytest.mark.parametrize("first", [0, 4, 5, 12, 22, 23])
def test_an_interrupted_run_goes_on_with_the_next_part(tmp_path: Path, first: int) -> None:
    answer(PartsOutput(tmp_path / "out", "model"), LINES, first)
    output = PartsOutput(tmp_path / "out", "model")
    assert output.num_parts == len([*(tmp_path / "out").glob("part-*")])
    assert answer(output, LINES) == [*range(1 + (5 if first == 23 else first // 5) * 5, 24)]
    assert whole(tmp_path / "out") == EXPECTED


def test_progress_tells_parts_that_were_there_from_those_that_are_written(tmp_path: Path) -> None:
    answer(PartsOutput(tmp_path, "model"), LINES, 12)
    written: list[int] = []
    there: list[int] = []
    answer(PartsOutput(tmp_path, "model", written.append, there.append), LINES)
    assert (there, written) == ([5, 5], [5, 5, 3])


def test_a_part_that_is_lost_is_made_again_and_no_other(tmp_path: Path) -> None:
    answer(PartsOutput(tmp_path, "model"), LINES)
    [lost] = tmp_path.glob("part-000002-*")
    lost.unlink()
    assert answer(PartsOutput(tmp_path, "model"), LINES) == [11, 12, 13, 14, 15]
    assert whole(tmp_path) == EXPECTED


def test_the_list_is_there_only_while_everything_is(tmp_path: Path) -> None:
    answer(PartsOutput(tmp_path, "model"), LINES[:5])
    answer(PartsOutput(tmp_path, "model"), LINES, 7)
    assert not (tmp_path / line_output.LIST).exists()
    assert answer(PartsOutput(tmp_path, "model"), LINES) == [*range(11, 24)]
    assert whole(tmp_path) == EXPECTED


def test_what_a_killed_process_was_writing_is_removed(tmp_path: Path) -> None:
    answer(PartsOutput(tmp_path, "model"), LINES, 12)
    [first] = tmp_path.glob("part-000000-*")
    for name in (f"{first.name}.tmp-{'a' * 32}", f"parts.json.tmp-{'b' * 32}", ".aside-1234-part"):
        (tmp_path / name).write_bytes(b"half")
    answer(PartsOutput(tmp_path, "model"), LINES)
    assert len([*tmp_path.iterdir()]) == 6
    assert whole(tmp_path) == EXPECTED


def test_of_two_runs_in_a_local_folder_the_second_is_refused(tmp_path: Path) -> None:
    with (
        parts_output(tmp_path / "out", "model", lambda count: None),
        pytest.raises(LockedError, match="another run is writing it"),
        parts_output(tmp_path / "out", "model", lambda count: None),
    ):
        pass


def test_of_two_runs_elsewhere_the_one_that_ends_last_says_so(tmp_path: Path) -> None:
    first, second = PartsOutput(tmp_path, "first"), PartsOutput(tmp_path, "second")
    answer(first, LINES)
    with pytest.raises(UsageError, match=r"part-00000\d-.* is of another input, or of another model"):
        answer(second, LINES)
    with pytest.raises(UsageError, match=r"part-00000\d-.* is of another input, or of another model"):
        PartsOutput(tmp_path, "first")


def test_an_empty_input_has_no_parts(tmp_path: Path) -> None:
    answer(PartsOutput(tmp_path, "model"), [])
    assert json.loads((tmp_path / line_output.LIST).read_bytes()) == {"lines": 0, "parts": []}


@pytest.mark.parametrize(
    ("request_", "lines"),
    [
        ("other model", LINES),
        ("model", [*LINES[:7], Line(8, "another line"), *LINES[8:]]),
        ("model", LINES[:12]),
        ("model", LINES[:5]),
        ("model", [*LINES[:22], Line(23, "", DataError("standard input:23: is not UTF-8"))]),
    ],
)
def test_parts_of_another_input_or_model_are_refused(
    tmp_path: Path, request_: str, lines: list[Line]
) -> None:
    answer(PartsOutput(tmp_path, "model"), LINES)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    with pytest.raises(UsageError, match=r"part-00000\d-.* is of another input, or of another model"):
        answer(PartsOutput(tmp_path, request_), lines)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_a_folder_with_other_things_is_refused(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_bytes(b"")
    with pytest.raises(UsageError, match=r"--parts .*: holds thesis.tex; name a new folder"):
        PartsOutput(tmp_path, "model")


@pytest.fixture
def files(monkeypatch: pytest.MonkeyPatch) -> Iterator[type[FlakyFiles]]:
    monkeypatch.setattr(locations, "_wait", lambda seconds: None)
    with flaky_files(0.1) as found:
        yield found


def test_connections_that_break_lose_nothing_and_write_nothing_twice(files: type[FlakyFiles]) -> None:
    for most in (6, 13, 1_000):
        answer(PartsOutput(Path("flaky://place/out"), "model"), LINES, most)
    files.broken_share = 0.0
    listed = json.loads(files().cat_file(f"/place/out/{line_output.LIST}"))
    assert b"".join(files().cat_file(f"/place/out/{name}") for name in listed["parts"]) == EXPECTED
    assert len(files.store) == len(listed["parts"]) + 1
    assert files.num_broken > 3
