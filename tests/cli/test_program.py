"""The program keeps the contract: one line an error, its exit code, data apart from talk."""

import importlib
import inspect
import keyword
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import BrokenExecutor
from pathlib import Path

import pytest
from tests.patience import PATIENCE_SECONDS

from allyouneed.cli import program as cli
from allyouneed.cli.program import COMMANDS, app, explain, main, with_standard_input
from allyouneed.errors import DataError, DiskError, LockedError, ModelError, UserError, notice
from allyouneed.native.library import library
from allyouneed.storage.publish import publish_directory
from allyouneed.version import __version__

Register = Callable[[Callable[..., object]], object]


@pytest.fixture
def register() -> Iterator[Register]:
    """Make a function the command `probe` for the length of a test."""
    yield lambda function: app.command(function, name="probe")
    del app["probe"]


@pytest.fixture
def model(tmp_path: Path) -> Path:
    with publish_directory(tmp_path / "größe-→", "corpus") as folder:
        (folder / "weights").write_bytes(b"12345")
    return tmp_path / "größe-→"


def program(*arguments: str | Path) -> list[str]:
    return [sys.executable, "-m", "allyouneed", *map(str, arguments)]


def test_the_version_is_told_at_once_without_torch(capfd: pytest.CaptureFixture[str]) -> None:
    command = [sys.executable, "-X", "importtime", "-m", "allyouneed", "--version"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    imported = {line.split("|")[-1].strip() for line in done.stderr.split("\n")}
    assert done.stdout == f"{__version__}\n"
    assert "cyclopts" in imported
    assert imported.isdisjoint({"torch", "numpy", "pydantic", "safetensors", "tokenizers", "matplotlib"})


def imported_by(*arguments: str | Path, stdin: bytes = b"") -> set[str]:
    """The modules that a command has imported when it ends."""
    code = "import sys; from allyouneed.cli.program import main; main(sys.argv[1:]); print(*sys.modules)"
    command = [sys.executable, "-c", code, *map(str, arguments)]
    done = subprocess.run(command, input=stdin, capture_output=True, check=True)
    return set(done.stdout.decode().split("\n")[-2].split())


def test_listing_the_commands_imports_nothing_large() -> None:
    imported = imported_by("--help")
    assert not [name for name in imported if name.startswith("allyouneed.cli.commands.")]
    assert imported.isdisjoint({"torch", "numpy", "sacrebleu", "safetensors", "tokenizers", "matplotlib"})


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_is_listed_with_the_first_line_of_its_help(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([name, "--help"]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert COMMANDS[name] in shown


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_translating_on_a_cpu_imports_nothing_that_it_does_not_use(toy_model: Path, precision: str) -> None:
    imported = imported_by(
        *("translate", toy_model, "--device", "cpu", "--precision", precision), stdin=b"sun\n"
    )
    assert "allyouneed.inference.engine" in imported
    if library() is None:
        # `import torch` alone imports none of these. The first three take a second.
        assert imported.isdisjoint({"torch._dynamo", "torch._inductor", "torch.distributed.tensor", "sympy"})
    else:
        assert imported.isdisjoint({"torch", "jaxtyping", "allyouneed.tasks.parsing.task"})
    assert imported.isdisjoint({"rich", "pygments", "sacrebleu", "lxml", "matplotlib", "transformers"})


@pytest.mark.parametrize("arguments", [[], ["--help"], ["-h"]])
def test_help_lists_every_command_in_order_with_what_it_does(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 0
    rows = [
        line.strip("│ ").split(maxsplit=1) for line in capsys.readouterr().out.split("\n") if line[:1] == "│"
    ]
    described = [name for name, *description in rows if name in COMMANDS and description[0].strip()]
    assert described == [*COMMANDS]


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_explains_itself_with_an_example(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    spelled = f"{name}_" if keyword.iskeyword(name) else name
    function = getattr(importlib.import_module(f"allyouneed.cli.commands.{spelled}"), spelled)
    assert main([name, "--help"]) == 0
    shown = capsys.readouterr().out
    assert (inspect.getdoc(function) or "").split("\n")[0] in " ".join(shown.split())
    assert f"\n allyouneed {name}" in shown
    assert "--debug" in shown
    assert "--quiet" in shown


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["verfy"], 'Unknown command "verfy". Did you mean "verify"?'),
        (["doctor", "--jsn"], "Unknown option: --jsn. Did you mean --json? (see `allyouneed doctor --help`)"),
        (["verify"], "error[E-USAGE]: DIRECTORY is missing (see `allyouneed verify --help`)"),
        (["train", "run"], "error[E-USAGE]: --data is missing (see `allyouneed train --help`)"),
        (["train", "run", "--data"], 'Command "train" parameter --data requires an argument.'),
        (["attend", "model", "They", "sit.", "Now."], "Unexpected: Now.; quote what has spaces (see `"),
        (["--nonsense"], '"--nonsense"'),
    ],
)
def test_wrong_usage_is_one_line_that_names_what_is_nearest(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("allyouneed: error[E-USAGE]: ")
    assert err.count("\n") == 1
    assert message in err


@pytest.mark.parametrize(
    ("given", "understood"),
    [
        ("score m --source - --target t", "score m --source=- --target t"),
        ("evaluate --hypotheses - --json", "evaluate --hypotheses=- --json"),
        ("translate m --target-prefix -", "translate m --target-prefix=-"),
        ("attend m -- --word -", "attend m -- --word -"),
        ("attend m -", "attend m -"),
        ("- --source=a -", "- --source=a=-"),
    ],
)
def test_a_hyphen_after_an_option_is_its_value(given: str, understood: str) -> None:
    assert list(with_standard_input(given.split())) == understood.split()


@pytest.mark.parametrize(
    ("error", "code", "line"),
    [
        (DataError("a.de:3: bad", label="E-UTF8"), 3, "error[E-UTF8]: a.de:3: bad"),
        (ModelError("m: damaged"), 4, "error[E-MODEL]: m: damaged"),
        (LockedError("run: in use"), 8, "error[E-LOCKED]: run: in use"),
        (PermissionError(13, "Permission denied", "x"), 6, "error[E-DISK]: x: Permission denied"),
        (
            OSError(28, "No space left on device"),
            6,
            "error[E-DISK]: standard output: No space left on device",
        ),
        (MemoryError(), 7, "error[E-MEMORY]: there is not enough memory"),
        (BrokenExecutor("abruptly"), 7, "error[E-MEMORY]: a worker process was killed"),
        (KeyboardInterrupt(), 130, "interrupted"),
        (BrokenPipeError(32, "Broken pipe"), 141, None),
        (
            ZeroDivisionError("division\nby zero"),
            1,
            "error[E-INTERNAL]: ZeroDivisionError: division\\nby zero; please",
        ),
    ],
)
def test_whatever_is_raised_becomes_one_line_and_an_exit_code(
    error: BaseException, code: int, line: str | None, register: Register, capsys: pytest.CaptureFixture[str]
) -> None:
    def probe() -> None:
        raise error

    register(probe)
    assert main(["probe"]) == code
    told = capsys.readouterr().err
    assert told.startswith(f"allyouneed: {line}") if line else told == ""
    assert told.count("\n") == (line is not None)


def test_torch_running_out_of_memory_is_told_as_such() -> None:
    import torch

    with pytest.raises(RuntimeError) as caught:
        torch.empty(1 << 55)
    for error in (caught.value, torch.OutOfMemoryError("CUDA out of memory")):
        assert explain(error).exit_code == 7


def test_debug_shows_the_traceback_before_the_line(
    register: Register, capsys: pytest.CaptureFixture[str]
) -> None:
    def probe() -> None:
        raise DiskError("full")

    register(probe)
    assert main(["probe", "--debug"]) == 6
    told = capsys.readouterr().err
    assert told.startswith("Traceback")
    assert "in probe" in told
    assert told.endswith("allyouneed: error[E-DISK]: full\n")


def test_quiet_silences_notices_but_no_errors(register: Register, capsys: pytest.CaptureFixture[str]) -> None:
    def probe() -> None:
        notice("by the way\x1b[0m")
        raise UserError("wrong")

    register(probe)
    assert main(["probe"]) == 2
    assert capsys.readouterr().err == "allyouneed: by the way\\x1b[0m\nallyouneed: error[E-USAGE]: wrong\n"
    assert main(["--quiet", "probe"]) == 2
    assert capsys.readouterr().err == "allyouneed: error[E-USAGE]: wrong\n"


def test_a_command_may_end_with_an_exit_code_of_its_own(register: Register) -> None:
    def probe(*, code: int) -> int:
        return code

    register(probe)
    assert main(["probe", "--code", "9"]) == 9


def test_a_reader_that_stops_reading_ends_the_program_quietly(model: Path) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(program("verify", model), stdout=writing, stderr=subprocess.PIPE, check=False)
    os.close(writing)
    assert (done.returncode, done.stderr) == (141, b"")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="NOT RUN: needs /dev/full")
def test_a_full_disk_under_standard_output_is_one_line(model: Path) -> None:
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(program("verify", model), stdout=full, stderr=subprocess.PIPE, check=False)
    assert done.returncode == 6
    assert done.stderr == b"allyouneed: error[E-DISK]: standard output: No space left on device\n"


def test_output_is_utf8_whatever_the_locale(model: Path) -> None:
    ascii_only = os.environ | {"LC_ALL": "C", "PYTHONUTF8": "0"}
    done = subprocess.run(program("verify", model), env=ascii_only, capture_output=True, check=True)
    assert str(model).encode() in done.stdout
    latin = os.environ | {"PYTHONIOENCODING": "latin-1"}
    done = subprocess.run(program("verify", model / "→"), env=latin, capture_output=True, check=False)
    assert str(model / "→").encode() in done.stderr


def test_termination_leaves_nothing_half_written(tmp_path: Path) -> None:
    code = f"""
import time; from pathlib import Path
from allyouneed.cli import program as cli
from allyouneed.storage.publish import publish_directory
def probe():
    with publish_directory(Path({str(tmp_path / "model")!r}), "model") as folder:
        print(folder, flush=True)
        time.sleep(60)
cli.app.command(probe)
cli.run()
"""
    process = subprocess.Popen([sys.executable, "-c", code, "probe"], stdout=subprocess.PIPE)
    assert process.stdout is not None
    with process.stdout:
        assert process.stdout.readline()
    assert list(tmp_path.iterdir()) != []
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=PATIENCE_SECONDS) == 143
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("together", "said"), [({"WORLD_SIZE": "2"}, ""), ({}, "the interpreter ends\n")])
def test_one_of_several_processes_ends_without_the_interpreters_own_end(
    together: dict[str, str], said: str
) -> None:
    """Threads of gloo may be left, and abort the process there."""
    code = """
import atexit, sys
from allyouneed.cli import program as cli
atexit.register(print, "the interpreter ends")
print("said before")
cli.run()
"""
    command = [sys.executable, "-c", code, "train"]
    done = subprocess.run(
        command, env={**os.environ, **together}, capture_output=True, check=False, text=True
    )
    assert (done.returncode, done.stdout) == (2, f"said before\n{said}")
    assert done.stderr.startswith("allyouneed: error[E-USAGE]: ")


def test_the_program_is_installed_under_its_name() -> None:
    done = subprocess.run(
        [Path(sys.executable).parent / "allyouneed", "--version"], capture_output=True, check=True
    )
    assert done.stdout.decode() == f"{__version__}\n"
    assert cli.app.name == ("allyouneed",)
