"""`copy --precision int8` makes a model like any other, a quarter as large, and refuses what it cannot."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from allyouneed.runs.loading import load_translator
from allyouneed.storage.checkpoint import load_checkpoint

RunCommand = Callable[..., tuple[int, bytes, str]]
LINES = b"sun sees moon\nwolf bear\n"


@pytest.fixture(scope="module")
def small(toy_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The toy model in int8; not to be changed."""
    from allyouneed.cli.program import main

    out = tmp_path_factory.mktemp("copy") / "small"
    assert main(["copy", str(toy_model), str(out), "--precision", "int8"]) == 0
    return out


@pytest.fixture
def files(toy_text: Path) -> list[str | Path]:
    """The options that name the toy validation text."""
    return ["--source", toy_text / "valid.en", "--reference", toy_text / "valid.toy"]


def test_the_copy_is_told(run_command: RunCommand, toy_model: Path, tmp_path: Path) -> None:
    told = run_command("copy", toy_model, tmp_path / "small", "--precision", "int8")
    assert told == (
        0,
        f"{tmp_path / 'small'}: a copy of {toy_model} with its matrices in int8\n".encode(),
        "",
    )
    assert load_checkpoint(tmp_path / "small").arrays.rounded


def test_without_a_precision_every_byte_stays(
    run_command: RunCommand, toy_model: Path, small: Path, tmp_path: Path
) -> None:
    for model in (toy_model, small):
        assert run_command("copy", model, tmp_path / model.name)[0] == 0
        for file in model.iterdir():
            assert (tmp_path / model.name / file.name).read_bytes() == file.read_bytes()


def test_of_a_run_the_latest_checkpoint_is_copied(
    run_command: RunCommand, toy_run: Path, tmp_path: Path
) -> None:
    assert run_command("copy", toy_run, tmp_path / "small", "--precision", "int8")[0] == 0
    assert load_checkpoint(tmp_path / "small").manifest["parents"][0]["checkpoint"] == "step-00000120"


@pytest.mark.parametrize("precision", ["float32", "int8"])
def test_the_copy_translates_scores_and_attends(
    run_command: RunCommand,
    toy_model: Path,
    small: Path,
    files: list[str | Path],
    tmp_path: Path,
    precision: str,
) -> None:
    translator = load_translator(small, precision=precision)  # type: ignore[arg-type]
    code, out, _ = run_command("translate", small, "--precision", precision, stdin=LINES)
    expected = [each.text for each in translator.translate(LINES.decode().split("\n")[:-1])]
    assert (code, out.decode().split("\n")[:-1]) == (0, expected)
    source, target = files[1], files[3]
    code, out, _ = run_command(
        "score", small, "--source", source, "--target", target, "--precision", precision
    )
    assert (code, out.count(b"\n")) == (0, 20)
    evaluated = [run_command("evaluate", model, *files, "--json") for model in (toy_model, small)]
    before, after = (json.loads(out)["bleu_13a"]["score"] for _, out, _ in evaluated)
    assert abs(before - after) < 10
    assert run_command("attend", small, "sun sees moon", "--json", tmp_path / "attention.json")[0] == 0


def test_the_copy_is_verified_and_its_damage_found(
    run_command: RunCommand, small: Path, tmp_path: Path
) -> None:
    code, out, _ = run_command("verify", small)
    assert (code, out.decode().split("\t")[:4]) == (0, ["ok", str(small), "model", "4 files"])
    (damaged := tmp_path / "damaged").mkdir()
    for file in small.iterdir():
        content = bytearray(file.read_bytes())
        content[-1] ^= file.name == "model.safetensors"
        (damaged / file.name).write_bytes(content)
    for command in (("verify", damaged), ("copy", damaged, tmp_path / "copy", "--precision", "int8")):
        code, _, err = run_command(*command)
        assert (code, err.count("\n")) == (4, 1)
        assert f"{damaged / 'model.safetensors'}: is damaged: sha256 " in err


def test_what_cannot_be_rounded_is_refused_in_one_line(
    run_command: RunCommand, small: Path, toy_data: Path, toy_run: Path, tmp_path: Path
) -> None:
    (state,) = sorted((toy_run / "state").iterdir())[-1:]
    out = tmp_path / "out"
    for source, code, message in (
        (small, 2, "E-USAGE]: {}: has its matrices in int8 already; copy it as it is"),
        (toy_data, 4, "E-MODEL]: {}: is a data directory; a model directory is needed"),
        (state, 4, "E-MODEL]: {}: is a state directory; a model directory is needed"),
        (tmp_path / "absent", 4, "E-MODEL]: {}: no such model; name a run, a checkpoint in it, or a model"),
    ):
        found, said, err = run_command("copy", source, out, "--precision", "int8")
        assert (found, said, err.count("\n")) == (code, b"", 1), err
        assert err.startswith(f"allyouneed: error[{message.format(source)}")
    assert list(tmp_path.iterdir()) == []


def test_a_target_that_is_a_url_or_is_taken_is_refused_in_one_line(
    run_command: RunCommand, toy_model: Path, small: Path
) -> None:
    for target, message in (
        ("s3://bucket/model", "write to a local folder, then `allyouneed copy` it there"),
        (small, "exists and is not empty; name a new folder or remove this one"),
    ):
        code, _, err = run_command("copy", toy_model, target, "--precision", "int8")
        assert (code, err.count("\n")) == (2, 1), err
        assert f"error[E-USAGE]: {target}: " in err
        assert message in err


def test_other_precisions_are_refused(run_command: RunCommand, toy_model: Path, tmp_path: Path) -> None:
    code, _, err = run_command("copy", toy_model, tmp_path / "out", "--precision", "bfloat16")
    assert (code, err.count("\n")) == (2, 1)
    assert "int8" in err
