"""Messages never touch standard output and never stop work, and no file is taken for a standard stream."""

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from allyouneed.errors import printable

CLOSED_OR_FULL = ["2>&-", "2>/dev/full", "<&- 2>&-"]
LINES = b"sun sees moon\n\xff\nmoon likes star\n"


def shell(redirections: str, *arguments: str | Path, stdin: bytes | None = None) -> tuple[int, bytes, bytes]:
    """Run the program from a shell that opens and closes its streams; exit code, stdout, stderr."""
    command = ["sh", "-c", f'exec "$@" {redirections}', "sh", sys.executable, "-m", "allyouneed"]
    done = subprocess.run([*command, *map(str, arguments)], input=stdin, capture_output=True, check=False)
    return done.returncode, done.stdout, done.stderr


def python(redirections: str, code: str) -> subprocess.CompletedProcess[bytes]:
    command: Sequence[str] = ["sh", "-c", f'exec "$@" {redirections}', "sh", sys.executable, "-c", code]
    return subprocess.run(command, capture_output=True, check=False)


def test_n_lines_come_out_where_no_message_can_be_written(toy_model: Path) -> None:
    """Promise: Messages."""
    code, out, _ = shell("", "translate", toy_model, "--device", "cpu", stdin=LINES)
    assert (code, out.count(b"\n")) == (9, 3)
    for redirections in CLOSED_OR_FULL[:2]:
        assert shell(redirections, "translate", toy_model, "--device", "cpu", stdin=LINES) == (9, out, b"")


@pytest.mark.parametrize("redirections", CLOSED_OR_FULL)
def test_an_error_that_nobody_can_read_still_is_its_exit_code(redirections: str) -> None:
    assert shell(redirections, "verify", "nothing") == (4, b"", b"")


def test_a_closed_standard_output_is_one_line(toy_model: Path) -> None:
    told = b"allyouneed: error[E-DISK]: standard output: is closed; send it to a file, or to /dev/null\n"
    assert shell(">&-", "plan") == (6, b"", told)
    assert shell(">&-", "translate", toy_model, "--device", "cpu", stdin=b"sun\n") == (6, b"", told)


def test_a_closed_standard_input_is_one_line(toy_model: Path) -> None:
    code, out, err = shell("<&-", "translate", toy_model, "--device", "cpu")
    assert (code, out, err.count(b"\n")) == (6, b"", 1)
    assert b"standard input: is closed; give it something to read, or </dev/null" in err
    assert shell("<&-", "verify", toy_model)[0] == 0


@pytest.mark.parametrize("redirections", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_no_file_that_is_opened_later_becomes_a_standard_stream(redirections: str, tmp_path: Path) -> None:
    code = f"""
import os
from allyouneed.cli.console import open_standard_streams
open_standard_streams()
os._exit(os.open({str(tmp_path / "file")!r}, os.O_WRONLY | os.O_CREAT))
"""
    assert python(redirections, code).returncode > 2


def test_what_libraries_say_stops_no_work_either() -> None:
    code = """
import sys, threading, warnings
from allyouneed.cli.console import open_standard_streams
from allyouneed.cli.progress import progress
open_standard_streams()
warnings.warn("a warning")
thread = threading.Thread(target=lambda: 1 / 0)
thread.start(), thread.join()
print("x" * 100_000, file=sys.stderr)
with progress(3, unit="lines", description="at work") as bar:
    bar.advance()
print("done")
"""
    for redirections in ("2>&-", "2>/dev/full"):
        done = python(redirections, code)
        assert (done.returncode, done.stdout) == (0, b"done\n")


def test_of_a_long_message_the_middle_is_left_out() -> None:
    shown = printable("begin" + "\x1b" * 1_000_000 + "end")
    assert len(shown) < 6_000
    assert shown.startswith("begin\\x1b")
    assert " ... (998,808 characters) ... " in shown
    assert shown.endswith("\\x1bend")
    assert printable("x" * 1_200) == "x" * 1_200


@pytest.mark.parametrize("name", ["COLUMNS", "LINES"])
@pytest.mark.parametrize("size", ["0", "1", "2", "-5", "abc", "", "²", "00", "9" * 9, "9" * 5_000])
def test_help_is_shown_whatever_the_environment_says_of_the_terminal(name: str, size: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "allyouneed", "verify", "--help"],
        env=os.environ | {name: size},
        capture_output=True,
        timeout=120,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout.startswith(b"Usage: allyouneed")
    assert max(map(len, done.stdout.decode().split("\n"))) <= 500


def test_a_line_of_a_library_on_standard_error_is_not_held_back() -> None:
    code = """
import os, sys
from allyouneed.cli.console import open_standard_streams
open_standard_streams()
sys.stderr.write("a warning\\n")
os._exit(0)
"""
    assert python("", code).stderr == b"a warning\n"


def test_late_lines_are_read_from_a_standard_input_that_does_not_block(toy_model: Path) -> None:
    reading, writing = os.pipe()
    os.set_blocking(reading, False)
    command = [sys.executable, "-m", "allyouneed", "translate", str(toy_model), "--device", "cpu"]
    with subprocess.Popen(command, stdin=reading, stdout=subprocess.PIPE) as process:
        os.close(reading)
        assert process.stdout is not None
        for line in (b"sun\n", b"moon\n"):
            os.write(writing, line)
            assert process.stdout.readline().endswith(b"\n")
        os.close(writing)
        assert process.stdout.read() == b""
    assert process.returncode == 0
