"""What users get wrong ends in one line that says what, where and what to do, and leaves nothing behind."""

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

RunCommand = Callable[..., tuple[int, bytes, str]]


@pytest.fixture
def text(tmp_path: Path, toy_text: Path) -> Path:
    """A folder with good parallel text, to be spoilt."""
    for language in ("en", "toy"):
        shutil.copy(toy_text / f"train.{language}", tmp_path)
    return tmp_path


def run_process(folder: Path, *arguments: str | Path) -> tuple[int, bytes, str]:
    """The program as users start it."""
    command = [sys.executable, "-m", "allyouneed", *map(str, arguments)]
    done = subprocess.run(command, cwd=folder, capture_output=True, check=False)
    return done.returncode, done.stdout, done.stderr.decode()


def assert_one_line(err: str, label: str) -> None:
    assert err.startswith(f"allyouneed: error[{label}]: ")
    assert err.count("\n") == 1
    assert err.endswith("\n")


PREPARE = ("prepare", "data", "--tokenizer", "byte", "--source", "train.en", "--target", "train.toy")


def replace_line(path: Path, number: int, *lines: bytes) -> None:
    """Put `lines` in the place of line `number`, counted from 1."""
    old = path.read_bytes().split(b"\n")
    path.write_bytes(b"\n".join([*old[: number - 1], *lines, *old[number:]]))


@pytest.mark.parametrize(
    ("spoil", "label", "message"),
    [
        (
            lambda path: replace_line(path, 200),
            "E-DATA",
            "train.en has 400 lines, train.toy has 399; line 400 is only in train.en; "
            "by the lengths of their lines, they drift apart near line 200; mend the files there",
        ),
        (
            lambda path: replace_line(path, 123, b"nuso \xc3 noomo"),
            "E-UTF8",
            "train.toy:123:6: invalid byte 0xC3; convert the file to UTF-8 with iconv",
        ),
        (Path.unlink, "E-DATA", "train.toy: no such file; check the path"),
        (lambda path: path.write_bytes(b""), "E-DATA", "train.toy: is empty; give a file with one sentence"),
        (
            lambda path: path.write_bytes("nuso\n".encode("utf-16")),
            "E-UTF16",
            "train.toy:1:1: UTF-16; convert with iconv -f UTF-16 -t UTF-8",
        ),
    ],
    ids=["different length", "invalid UTF-8", "missing", "empty", "UTF-16"],
)
def test_unusable_text_is_named_with_its_place(
    text: Path, spoil: Callable[[Path], object], label: str, message: str
) -> None:
    spoil(text / "train.toy")
    before = sorted(text.iterdir())
    code, out, err = run_process(text, *PREPARE)
    assert (code, out) == (3, b"")
    assert_one_line(err, label)
    assert message in err
    assert sorted(text.iterdir()) == before


def test_a_folder_that_is_in_use_is_not_written_to(text: Path) -> None:
    (text / "data").mkdir()
    (text / "data" / "mine").write_bytes(b"precious")
    code, out, err = run_process(text, *PREPARE)
    assert (code, out) == (2, b"")
    assert err == (
        "allyouneed: error[E-USAGE]: data: exists and is not empty; name a new folder or remove this one\n"
    )
    assert [path.name for path in (text / "data").iterdir()] == ["mine"]


@pytest.mark.parametrize("command", ["train", "average"])
def test_a_folder_that_is_in_use_is_neither_run_nor_model(
    run_command: RunCommand, tmp_path: Path, toy_run: Path, toy_data: Path, command: str
) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine").write_bytes(b"precious")
    arguments = {
        "train": ("train", tmp_path / "out", "--data", toy_data, "--steps", "1"),
        "average": ("average", toy_run, "--out", tmp_path / "out"),
    }
    code, out, err = run_command(*arguments[command])
    assert (code, out) == (2, b"")
    assert_one_line(err, "E-USAGE")
    assert f"{tmp_path / 'out'}: exists and is " in err
    assert "name a new folder" in err
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["mine"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            ["--set", "training.warmup_stps=9"],
            "setting training.warmup_stps: is unknown; did you mean training.warmup_steps?",
        ),
        (["--config", "my.toml"], "my.toml:2: unknown setting model.dropuot; did you mean model.dropout?"),
        (
            ["--set", "model.dropout=1.5"],
            "setting model.dropout: must be less than 1, not 1.5",
        ),
        (["--steps", "many"], "--steps"),
        (["--steps", "0"], 'Invalid value "0" for --steps. Must be >= 1.'),
        (["--set", "training.seed=1.5"], "setting training.seed: must be a whole number, not 1.5"),
        (["--set", "model.attention=cosine"], "must be 'scaled', 'unscaled' or 'additive', not 'cosine'"),
        (["--preset", "bse"], "--preset bse: unknown; did you mean base?"),
        (["--preset", "enormous"], "--preset enormous: unknown; presets: base, base_en_fr, "),
    ],
    ids=[
        *("misspelt option", "misspelt in a file", "bad number", "no number", "no steps", "a fraction"),
        *("no choice", "nearest preset", "no preset"),
    ],
)
def test_a_wrong_configuration_is_told_before_a_run_is_made(
    run_command: RunCommand,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    toy_data: Path,
    options: list[str],
    message: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("my.toml").write_bytes(b"[model]\ndropuot = 0.2\n")
    code, out, err = run_command("train", "run", "--data", toy_data, *options)
    assert (code, out) == (2, b"")
    assert_one_line(err, "E-USAGE")
    assert message in err
    assert [path.name for path in tmp_path.iterdir()] == ["my.toml"]


MODEL_FILES = (
    "model.safetensors",
    "config.toml",
    "source_tokenizer.json",
    "target_tokenizer.json",
    "MANIFEST.json",
)


def flip_a_bit(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def cut_off(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])


@pytest.mark.parametrize("damage", [flip_a_bit, cut_off, Path.unlink])
@pytest.mark.parametrize("name", MODEL_FILES)
def test_a_damaged_model_is_refused_and_the_file_named(
    run_command: RunCommand, tmp_path: Path, toy_model: Path, name: str, damage: Callable[[Path], None]
) -> None:
    model = Path(shutil.copytree(toy_model, tmp_path / "model"))
    damage(model / name)
    code, out, err = run_command("translate", model, stdin=b"sun\n")
    assert (code, out) == (4, b"")
    assert_one_line(err, "E-MODEL")
    assert name in err
    assert str(model) in err


def test_damaged_data_are_refused_and_the_file_named(
    run_command: RunCommand, tmp_path: Path, toy_data: Path
) -> None:
    data = Path(shutil.copytree(toy_data, tmp_path / "data"))
    flip_a_bit(data / "train" / "source-00000.bin")
    code, _, err = run_command("train", tmp_path / "run", "--data", data, "--steps", "1")
    assert code == 4
    assert not (tmp_path / "run").exists()
    assert_one_line(err, "E-MODEL")
    assert f"{data / 'train' / 'source-00000.bin'}: is damaged: sha256 " in err


def test_a_consumer_that_has_enough_ends_the_program_quietly(tmp_path: Path, toy_model: Path) -> None:
    lines = b"sun\n" + b"\n" * 40_000  # more rows than a pipe holds; the blank ones cost nothing
    program = [sys.executable, "-m", "allyouneed", "translate", str(toy_model), "--scores"]
    script = '"$@" | head -1; echo "${PIPESTATUS[0]}"'
    done = subprocess.run(
        ["bash", "-c", script, "bash", *program], input=lines, capture_output=True, check=False
    )
    row, code, end = done.stdout.split(b"\n")
    assert row.endswith(b"\tnuso")
    assert (code, end, done.stderr) == (b"141", b"", b"")


def test_carriage_returns_and_unicode_separators_are_no_error_and_shift_no_line(
    run_command: RunCommand, toy_model: Path
) -> None:
    lines = ["sun\u2028moon", "sun\x85moon", "", "sun\x0cmoon", "sun\rmoon", "sun\u2029"]
    stdin = "".join(f"{line}\r\n" for line in lines).encode()
    code, out, err = run_command("translate", toy_model, stdin=stdin)
    assert (code, err) == (0, "")
    found = out.decode().split("\n")
    assert len(found) == len(lines) + 1
    assert [not text for text in found] == [line == "" for line in [*lines, ""]]
    assert "\r" not in out.decode()
