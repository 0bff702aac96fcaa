"""What is on a disk that ran full ends with a whole line, and scores may be rounded otherwise elsewhere."""

import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from allyouneed.cli.line_output import StreamOutput, resumed_output
from allyouneed.errors import DiskError, UsageError


@contextmanager
def largest_file(num_bytes: int) -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (num_bytes, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_lines_are_written_at_once_and_each_is_one_line(tmp_path: Path) -> None:
    with (tmp_path / "out").open("wb") as file:
        output = StreamOutput(file.fileno())
        output.write(["a\nb\r", "", "ä\u2028"])
        assert (tmp_path / "out").read_bytes() == "a b \n\nä\u2028\n".encode()


@pytest.mark.parametrize("mode", ["wb", "ab"])
@pytest.mark.parametrize("num_bytes", range(7, 14))
def test_a_disk_that_is_full_keeps_whole_lines(tmp_path: Path, mode: str, num_bytes: int) -> None:
    """Promise: Answers."""
    path = tmp_path / "out"
    with path.open(mode) as file:
        output = StreamOutput(file.fileno())
        output.write(["first"])
        with largest_file(num_bytes), pytest.raises(OSError, match="File too large"):
            output.write(["one", "second"])
        assert path.read_bytes() == b"first\n"
        output.write(["third"])
    assert path.read_bytes() == b"first\nthird\n"


def test_what_was_there_stays_where_nothing_can_be_appended(tmp_path: Path) -> None:
    path = tmp_path / "out"
    path.write_bytes(b"of another run\n")
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND)  # as a shell opens it for >>
    try:
        output = StreamOutput(descriptor)
        with largest_file(15), pytest.raises(OSError, match="File too large"):
            output.write(["first"])
        assert path.read_bytes() == b"of another run\n"
        with largest_file(17), pytest.raises(OSError, match="File too large"):
            output.write(["first"])
        assert path.read_bytes() == b"of another run\n"
        output.write(["first"])
    finally:
        os.close(descriptor)
    assert path.read_bytes() == b"of another run\nfirst\n"


@pytest.mark.parametrize(
    "answer", ["-0.25\tthe 10-12.5 km", "Table3.5", "um +3.5", "ca.3.5 e-mails 1e-05", "1.5e+3 e"]
)
def test_an_answer_cut_off_anywhere_is_completed(tmp_path: Path, answer: str) -> None:
    for size in range(1, len(answer) + 1):
        (tmp_path / "out").write_bytes(answer.encode()[:size])
        with resumed_output(tmp_path / "out", 1) as output:
            output.write([answer])
            output.finish()
        assert (tmp_path / "out").read_bytes() == f"{answer}\n".encode()


@pytest.mark.parametrize("foreign", [b"31337", b"1.0", b"-0.5\t1"])
def test_a_torn_line_of_digits_is_not_the_beginning_of_any_answer(tmp_path: Path, foreign: bytes) -> None:
    (tmp_path / "out").write_bytes(foreign)
    with (
        resumed_output(tmp_path / "out", 1) as output,
        pytest.raises(UsageError, match="not written with this model"),
    ):
        output.write(["Ein Hund rennt."])
    assert (tmp_path / "out").read_bytes() == foreign


def test_a_full_disk_under_a_file_that_is_resumed_names_it(tmp_path: Path) -> None:
    path = tmp_path / "out"
    with resumed_output(path, 1) as output, largest_file(8):
        output.write(["first"])
        with pytest.raises(DiskError, match=rf"{path}: File too large; .* bytes are free"):
            output.write(["second"])
    assert path.read_bytes() == b"first\n"


@pytest.mark.parametrize(
    ("there", "row", "same"),
    [
        ("-1.23456789\tnoomo", "-1.23456712\tnoomo", True),
        ("-1.234e-05\tnoomo", "-1.2341e-05\tnoomo", True),
        ("-1.9e-06\tnoomo", "-3.8e-06\tnoomo", True),
        ("-1e-06\tnoomo", "0.0\tnoomo", True),
        ("-1.234\tnoomo", "-1.434\tnoomo", False),
        ("-1.234\tnoomo", "-1.234\tnuso", False),
        ("-1.234\tnoomo", "-1.234\tnoomo 1.5", False),
    ],
)
def test_answers_that_differ_in_the_last_digits_of_a_score_are_of_the_same_run(
    tmp_path: Path, there: str, row: str, same: bool
) -> None:
    (tmp_path / "out").write_bytes(f"{there}\n".encode())
    with resumed_output(tmp_path / "out", 1) as output:
        assert output.first == 1
        if same:
            output.write([row])
            output.write(["next"])
            output.finish()
        else:
            with pytest.raises(UsageError, match="not written with this model"):
                output.write([row])
    assert (tmp_path / "out").read_bytes() == f"{there}\n{'next' * same}{os.linesep * same}".encode()


@pytest.mark.parametrize("size", range(1, 22))
def test_half_an_answer_is_completed_where_scores_differ_in_their_last_digits(
    tmp_path: Path, size: int
) -> None:
    before, now = "-0.50000001\tein\t-1.2e-05", "-0.49999999\tein\t-1.2000001e-05"
    path = tmp_path / "out"
    path.write_bytes(before.encode()[:size])
    with resumed_output(path, 1) as output:
        output.write([now])
        output.finish()
    assert path.read_bytes() == f"{now}\n".encode()
    path.write_bytes(before.replace("ein", "aus").encode()[: 12 + size])
    with resumed_output(path, 1) as output, pytest.raises(UsageError, match="not written with this model"):
        output.write([now])
