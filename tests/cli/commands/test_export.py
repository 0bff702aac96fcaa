"""`export` says in one line what it has made, and how well it was found to agree."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.interop.marian_form import random_model
from tests.packages import require_packages

from allyouneed.cli.program import main
from allyouneed.interop.exporting import FORMATS
from allyouneed.model.transformer import Transformer
from allyouneed.storage.checkpoint import load_checkpoint, save_checkpoint

RunCommand = Callable[..., tuple[int, bytes, str]]


@pytest.mark.parametrize("name", ["ctranslate2", "huggingface"])
def test_a_folder_is_made_checked_and_verified(
    run_command: RunCommand, toy_model: Path, tmp_path: Path, name: str
) -> None:
    package = FORMATS[name].package
    require_packages(package)
    out = tmp_path / "out"
    code, told, err = run_command("export", toy_model, "--to", name, out)
    assert (code, err) == (0, "")
    line = rf"{out}: {toy_model} for {name}; log-probabilities differ by \de-\d\d at most\n"
    assert re.fullmatch(line, told.decode())
    assert run_command("verify", out)[0] == 0


def test_a_folder_is_made_for_marian_and_says_whether_it_was_proved(
    run_command: RunCommand, tmp_path: Path
) -> None:
    require_packages("yaml", "sentencepiece")
    out, model = tmp_path / "out", random_model(tmp_path / "original")
    code, told, err = run_command("export", model, "--to", "marian", out)
    assert (code, err) == (0, "")
    proof = r"(not proved, as pymarian is not installed|log-probabilities differ by \de-\d\d at most)"
    assert re.fullmatch(rf"{out}: {model} for marian; {proof}\n", told.decode())
    assert run_command("verify", out)[0] == 0


def test_an_export_is_no_model_of_ours(run_command: RunCommand, toy_model: Path, tmp_path: Path) -> None:
    assert run_command("export", toy_model, "--to", "huggingface", tmp_path / "out")[0] == 0
    code, _, err = run_command("translate", tmp_path / "out", stdin=b"sun\n")
    assert code == 4
    assert "is a huggingface directory; a model directory is needed" in err


def test_a_model_that_the_format_cannot_hold_is_refused_in_one_line(
    run_command: RunCommand, toy_model: Path, tmp_path: Path
) -> None:
    checkpoint = load_checkpoint(toy_model)
    config = checkpoint.config.replace(model={"positions": "learned"})
    weights = dict(Transformer(config.model).state_dict())
    save_checkpoint(tmp_path / "model", config, weights, checkpoint.attachments, {})
    code, out, err = run_command("export", tmp_path / "model", "--to", "huggingface", tmp_path / "out")
    assert (code, out) == (4, b"")
    assert err.startswith("allyouneed: error[E-MODEL]: huggingface: does not have this variant")
    assert err.count("\n") == 1
    assert not (tmp_path / "out").exists()


def test_a_format_that_does_not_exist_is_a_usage_error(
    toy_model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["export", str(toy_model), "--to", "onnx", str(tmp_path / "out")]) == 2
    assert "ctranslate2" in capsys.readouterr().err
