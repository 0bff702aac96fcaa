"""Folders of CTranslate2 are refused where their tokeniser, their start or their version is not ours."""

import json
import shutil
import struct
from pathlib import Path

import pytest
from tests.interop.foreign_models import SENTENCES, convert_to_ctranslate2, make_marian_folder, spm_of
from tests.packages import require_packages

from allyouneed.errors import ModelError
from allyouneed.interop.importing import import_model

require_packages("sentencepiece", "transformers", "ctranslate2")


@pytest.fixture(scope="module")
def converted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("converted")
    return convert_to_ctranslate2(make_marian_folder(folder / "opus"), folder / "ct2", None)


@pytest.fixture
def folder(converted: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(converted, tmp_path / "parent" / "ct2"))


def refusal(folder: Path) -> str:
    with pytest.raises(ModelError) as refused:
        import_model(folder, folder / "out")
    [message] = refused.value.messages
    return message


def test_a_tokeniser_one_folder_above_is_not_taken(folder: Path) -> None:
    for name in ("source.spm", "target.spm"):
        (folder / name).rename(folder.parent / name)
    assert "has no tokenisers" in refusal(folder)


def test_a_tokeniser_of_another_model_is_refused(folder: Path) -> None:
    greek = str.maketrans("aeinorstlu", "αειηορστλυ")
    (folder / "target.spm").write_bytes(spm_of([text.translate(greek).upper() for text in SENTENCES]))
    message = refusal(folder)
    assert message.startswith(f"{folder / 'target.spm'}: ")
    assert "pieces are no entries of the vocabulary; it is the tokeniser of another model" in message


def test_a_tokeniser_with_some_other_pieces_is_taken(folder: Path, tmp_path: Path) -> None:
    (folder / "source.spm").write_bytes(spm_of([*SENTENCES, "ω sun ω", "sun ψ ω"], 80))
    import_model(folder, tmp_path / "out")


@pytest.mark.parametrize("start", [None, "", "<start>"])
def test_a_start_that_the_caller_must_give_is_refused(start: str | None, folder: Path) -> None:
    settings = json.loads((folder / "config.json").read_bytes())
    assert settings["decoder_start_token"]
    content = (folder / "model.bin").read_bytes()
    zeros = b"decoder/start_from_zero_embedding\0"
    if zeros in content:  # the start has no effect then
        at = content.index(zeros) + len(zeros)
        assert content[at : at + 6] == struct.pack("<BBI", 0, 1, 1)
        content = content[: at + 6] + b"\0" + content[at + 7 :]
        (folder / "model.bin").write_bytes(content)
    (folder / "config.json").write_text(json.dumps({**settings, "decoder_start_token": start}))
    message = refusal(folder)
    assert message.startswith(f"{folder / 'config.json'}: ")
    said = (
        "decoder_start_token is null: the caller must give the start" if start is None else f"with {start!r}"
    )
    assert said in message


def test_models_of_older_versions_are_to_be_converted_again(folder: Path) -> None:
    content = (folder / "model.bin").read_bytes()
    for version in (1, 5):
        (folder / "model.bin").write_bytes(struct.pack("<I", version) + content[4:])
        message = refusal(folder)
        assert message.startswith(f"{folder / 'model.bin'}: has version {version} of the format")
        assert message.endswith("of CTranslate2 before 3; convert the original again")
    (folder / "model.bin").write_bytes(content)
    (folder / "config.json").unlink()
    assert refusal(folder).endswith("of CTranslate2 before 3; convert the original again")


def test_models_of_newer_versions_are_not_called_old(folder: Path) -> None:
    content = (folder / "model.bin").read_bytes()
    (folder / "model.bin").write_bytes(struct.pack("<I", 7) + content[4:])
    assert "its version is 7, 6 expected" in refusal(folder)
