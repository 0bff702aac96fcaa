"""Messages never touch standard output and never stop work, and no file is taken for a standard stream.

What the environment says is corrected before a library takes it at its word.
A signal ends the program, also one that comes while Python runs a destructor.
"""

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from allyouneed.cli.console import correct_environment
from allyouneed.cli.program import main
from allyouneed.config.environment import is_home
from allyouneed.errors import printable, talk

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


def test_a_home_that_is_none_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for home in ("", "relative", ".", str(tmp_path / "missing"), __file__, "a\nb"):
        monkeypatch.setenv("HOME", home)
        assert not is_home(home)
        correct_environment()
        with pytest.raises(KeyError):
            monkeypatch.delenv("HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    correct_environment()
    monkeypatch.delenv("HOME")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "name", ["WORLD_SIZE", "RANK", "LOCAL_RANK", "MASTER_PORT", "TORCHELASTIC_RESTART_COUNT"]
)
def test_variables_of_torchrun_are_looked_at_where_they_are_used_only(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for value in ("abc", "", "-1", "9" * 5_000):
        monkeypatch.setenv(name, value)
        assert main(["plan"]) == 0
        assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("environment", "is_silent"),
    [
        ({"WORLD_SIZE": "2", "RANK": "1"}, True),
        ({"WORLD_SIZE": "2", "RANK": "0"}, False),
        ({"WORLD_SIZE": "2", "RANK": "00"}, False),
        ({"WORLD_SIZE": "01", "RANK": "1"}, False),
        ({"WORLD_SIZE": "", "RANK": "1"}, False),
        ({"WORLD_SIZE": "2", "RANK": "x"}, False),
    ],
)
def test_of_several_processes_the_first_talks_as_does_one_that_is_alone(
    environment: dict[str, str],
    is_silent: bool,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert main(["plan"]) == 0
    assert talk.quiet == is_silent


@pytest.mark.parametrize("size", ["abc", "", "0", "2"])
def test_a_rehearsal_is_of_one_process(
    size: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("WORLD_SIZE", size)
    assert main(["train", str(tmp_path / "run"), "--data", "data", "--dry-run"]) == 2
    told = "--dry-run: is for one process" if size == "2" else f"WORLD_SIZE={size}: this environment variable"
    assert told in capsys.readouterr().err


@pytest.mark.parametrize(
    ("environment", "named"),
    [
        ({"WORLD_SIZE": "abc"}, "WORLD_SIZE=abc: "),
        ({"WORLD_SIZE": "0"}, "WORLD_SIZE=0: "),
        ({"WORLD_SIZE": "9" * 5_000}, "WORLD_SIZE=999"),
        ({"WORLD_SIZE": "2"}, "RANK=: "),
        ({"WORLD_SIZE": "2", "RANK": "x"}, "RANK=x: "),
        ({"WORLD_SIZE": "2", "RANK": "2"}, "RANK=2: there are 2 processes"),
        ({"WORLD_SIZE": "2", "RANK": "1", "MASTER_PORT": "http"}, "MASTER_PORT=http: "),
    ],
)
def test_training_names_the_variable_that_is_no_number(
    environment: dict[str, str],
    named: str,
    toy_data: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for name in ("WORLD_SIZE", "RANK", "MASTER_ADDR", "MASTER_PORT"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert main(["train", str(tmp_path / "run"), "--data", str(toy_data), "--device", "cpu"]) == 2
    assert named in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("command", [["plan"], ["doctor"], ["verify", "model"]])
def test_in_a_deleted_directory_every_command_says_so(
    command: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    assert main(command) == 6
    told = "allyouneed: error[E-DISK]: the working directory has been deleted; change to one that is there\n"
    assert capsys.readouterr().err == told


PROGRAM = """
import signal, time
from allyouneed.cli.console import end_by_signals

signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs ignore it
end_by_signals()

class Thing:
    def __del__(self):
        {in_destructor}

thing = Thing()
try:
    del thing
    time.sleep({seconds})
except BaseException as error:
    print("unwound", flush=True)
    raise
print("went on")
"""


def run(in_destructor: str, seconds: float) -> subprocess.CompletedProcess[str]:
    program = PROGRAM.format(in_destructor=in_destructor, seconds=seconds)
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGTERM, 128 + signal.SIGTERM), (signal.SIGINT, -signal.SIGINT)]
)
def test_a_signal_in_a_destructor_ends_the_program(number: int, code: int) -> None:
    ended = run(f"signal.raise_signal({int(number)})", 60.0)
    assert ended.returncode == code
    assert ended.stdout == "unwound\n"
    assert "Exception ignored" not in ended.stderr


INTERRUPTED = """
import signal, time
from allyouneed.cli.console import end_by_signals
from allyouneed.training.stop_signals import StopSignals

end_by_signals()

class Thing:
    def __del__(self):
        signal.raise_signal(signal.SIGTERM)

def work():
    thing = Thing()
    del thing
    time.sleep(60.0)
    print("went on")

with StopSignals() as stop:
    print(stop.interruptible(work), stop.received.name)
"""


def test_a_signal_in_a_destructor_aborts_interruptible_work() -> None:
    ended = subprocess.run([sys.executable, "-c", INTERRUPTED], capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "None SIGTERM\n", "")


def test_other_errors_of_destructors_are_told_and_end_nothing() -> None:
    ended = run("raise ValueError('of a destructor')", 0.0)
    assert ended.returncode == 0
    assert ended.stdout == "went on\n"
    assert "Exception ignored in" in ended.stderr
    assert "ValueError: of a destructor" in ended.stderr
