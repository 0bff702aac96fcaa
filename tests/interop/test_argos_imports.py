"""Packages of Argos Translate that are refused, by the name of the package."""

import json
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.interop.foreign_models import argos_package, make_marian_folder
from tests.packages import require_packages

from allyouneed.errors import ModelError
from allyouneed.interop.importing import import_model
from allyouneed.tasks.loading import load_for
from allyouneed.tasks.translation.task import TRANSLATION

require_packages("sentencepiece", "transformers", "ctranslate2")


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("argos")
    return argos_package(make_marian_folder(folder / "opus"), folder)


def changed(package: Path, out: Path, name: str, alter: Callable[[bytes], bytes | None]) -> Path:
    """A copy with another content of a member, or without it."""
    with zipfile.ZipFile(package) as before, zipfile.ZipFile(out, "w") as after:
        for member in before.namelist():
            content: bytes | None = before.read(member)
            if member.endswith(f"/{name}") and content is not None:
                content = alter(content)
            if content is not None:
                after.writestr(member, content)
    return out


def refusal(path: Path) -> str:
    with pytest.raises(ModelError) as refused:
        import_model(path, path.parent / "model")
    [message] = refused.value.messages
    return message


def with_prefix(package: Path, folder: Path, prefix: str | None) -> Path:
    metadata = json.dumps({"from_code": "en", "to_code": "fr", "target_prefix": prefix}).encode()
    return changed(package, folder / "a.argosmodel", "metadata.json", lambda content: metadata)


def test_a_prefix_of_targets_is_refused_by_name(package: Path, tmp_path: Path) -> None:
    path = with_prefix(package, tmp_path, "<2fr>")
    assert refusal(path).startswith(f"{path}/metadata.json: target_prefix = '<2fr>' is not supported")


@pytest.mark.parametrize("prefix", ["", None])
def test_an_empty_prefix_is_none(package: Path, prefix: str | None, tmp_path: Path) -> None:
    import_model(with_prefix(package, tmp_path, prefix), tmp_path / "model")
    assert load_for(tmp_path / "model", TRANSLATION).config.data.target_language == "fr"


def test_models_of_older_versions_are_refused_by_the_name_of_the_package(
    package: Path, tmp_path: Path
) -> None:
    end = "like models of CTranslate2 before 3; convert the original again"
    without = changed(package, tmp_path / "without.argosmodel", "config.json", lambda content: None)
    assert refusal(without) == f"{without}/model/model.bin: has no config.json beside it, {end}"
    fifth = changed(
        package, tmp_path / "5.argosmodel", "model.bin", lambda content: struct.pack("<I", 5) + content[4:]
    )
    assert refusal(fifth) == f"{fifth}/model/model.bin: has version 5 of the format, {end}"
