"""Packages for Argos Translate: what is in them, and that they come back."""

import json
import zipfile
from pathlib import Path

import pytest
from tests.interop.foreign_models import SENTENCES
from tests.interop.marian_form import random_model
from tests.packages import require_packages

from allyouneed import load_translator
from allyouneed.cli.program import main
from allyouneed.data.sentencepiece_tokenizer import SentencePieceTokenizer
from allyouneed.interop.exporting import export_model
from allyouneed.interop.importing import import_model

require_packages("sentencepiece", "ctranslate2")


def test_a_package_has_what_argos_translate_reads_and_comes_back(tmp_path: Path) -> None:
    model = random_model(tmp_path / "original", positions="sinusoidal", decoder_start="symbol")
    assert export_model(model, "argos", tmp_path / "out").difference < 1e-5
    package = tmp_path / "out" / "translate-en_de-1_0.argosmodel"
    with zipfile.ZipFile(package) as archive:
        contents = {name: archive.read(name) for name in archive.namelist()}
    root = "translate-en_de-1_0"
    files = {"metadata.json", "sentencepiece.model", "README.md"}
    files |= {f"model/{name}" for name in ("model.bin", "config.json", "shared_vocabulary.json")}
    assert contents.keys() == {f"{root}/{name}" for name in files}
    metadata = json.loads(contents[f"{root}/metadata.json"])
    assert (metadata["from_code"], metadata["to_code"], metadata["type"]) == ("en", "de", "translate")
    assert (metadata["from_name"], metadata["to_name"]) == ("English", "German")
    pieces = SentencePieceTokenizer.entries_of(contents[f"{root}/sentencepiece.model"])
    assert json.loads(contents[f"{root}/model/shared_vocabulary.json"]) == pieces

    import_model(package, tmp_path / "back")
    texts = SENTENCES[:5]
    written = [
        [found.text for found in load_translator(each).translate(texts, max_length=9)]
        for each in (model, tmp_path / "back")
    ]
    assert written[0] == written[1]


def test_a_package_needs_languages(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = random_model(tmp_path / "original", languages=("", ""))
    export = ["export", str(model), str(tmp_path / "out"), "--to", "argos"]
    assert main(export) == 2
    assert main([*export, "--languages", "English"]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 2
    assert lines[0].endswith("the model tells none; name them: --languages en-de")
    assert "is not of the form SOURCE-TARGET" in lines[1]
    assert main([*export, "--languages", "en-de"]) == 0
