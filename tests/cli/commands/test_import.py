"""`import` of what is not on the disk: names and URLs of the Hugging Face hub are answered by a command."""

import shutil
from pathlib import Path

import pytest
from tests.packages import require_packages

from allyouneed.cli.program import main
from allyouneed.runs.loading import load_for
from allyouneed.tasks.translation.task import TRANSLATION

FIXTURES = Path(__file__).parents[2] / "interop" / "fixtures" / "marian"
OPUS = "Helsinki-NLP/opus-mt-en-de"


@pytest.mark.parametrize(
    ("asked", "command"),
    [
        (OPUS, f"hf download {OPUS} --local-dir opus-mt-en-de"),
        (f"https://huggingface.co/{OPUS}", f"hf download {OPUS} --local-dir opus-mt-en-de"),
        (f"http://www.huggingface.co/{OPUS}/", f"hf download {OPUS} --local-dir opus-mt-en-de"),
        (f"https://hf.co/{OPUS}/tree/main?a=b#c", f"hf download {OPUS} --local-dir opus-mt-en-de"),
        (f"hf.co/{OPUS}", f"hf download {OPUS} --local-dir opus-mt-en-de"),
        (f"hf://{OPUS}@v1", f"hf download {OPUS} --revision v1 --local-dir opus-mt-en-de"),
        ("https://hf.co/a/b/blob/refs%2Fpr%2F3/c.json", "hf download a/b --revision refs/pr/3 --local-dir b"),
        ("https://hf.co/a/b/tree/x;rm%20y", "hf download a/b --revision 'x;rm y' --local-dir b"),
    ],
)
def test_names_and_urls_of_the_hub_are_answered_by_the_command_that_downloads_them(
    asked: str,
    command: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["import", asked, "out"]) == 2
    [line] = capsys.readouterr().err.splitlines()
    assert f"{asked.removesuffix('/')}: is not on this disk, and nothing is downloaded; " in line
    assert line.endswith(f"download it with: {command}")


def test_a_local_folder_of_such_a_name_is_meant(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path(OPUS).mkdir(parents=True)
    assert main(["import", OPUS, "out"]) == 2
    assert "is of no format that can be imported" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("asked", "reason"),
    [
        ("models/typo", "does not exist; name a folder or file of a model"),
        ("a/b/c", "does not exist; name a folder or file of a model"),
        ("org/model.npz", "does not exist; name a folder or file of a model"),
        ("https://hf.co/datasets/a/b", "is not local, and nothing is downloaded; download it, then name"),
        ("s3://bucket/model", "is not local, and nothing is downloaded; download it, then name the folder"),
    ],
)
def test_other_paths_and_urls_are_no_names_of_the_hub(
    asked: str,
    reason: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("models").mkdir()
    assert main(["import", asked, "out"]) == 2
    [line] = capsys.readouterr().err.splitlines()
    assert f"{asked}: {reason}" in line


def test_a_path_that_is_too_long_is_refused_in_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["import", "a" * 300, "out"]) in (2, 6)
    assert capsys.readouterr().err.count("error[") == 1


def test_languages_are_named_in_any_spelling(tmp_path: Path) -> None:
    require_packages("sentencepiece", "yaml")
    for name in ("swish.npz", "vocab.spm"):
        shutil.copy(FIXTURES / name, tmp_path)
    assert main(["import", str(tmp_path), str(tmp_path / "out"), "--languages", "pt_BR-zho_Hans"]) == 0
    data = load_for(tmp_path / "out", TRANSLATION).config.data
    assert (data.source_language, data.target_language) == ("pt-BR", "zh-Hans")


@pytest.mark.parametrize("pair", ["en", "en-de-fr", "e1-de", "en-_de"])
def test_a_pair_of_languages_has_two_codes(pair: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["import", "model", "out", "--languages", pair]) == 2
    assert f"--languages {pair}: is not of the form SOURCE-TARGET" in capsys.readouterr().err
