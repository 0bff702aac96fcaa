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
from allyouneed.runs.loading import load_for
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


def repacked(package: Path, out: Path, rename: Callable[[str], str], **more: bytes) -> Path:
    """A copy with other names of members, and further members."""
    with zipfile.ZipFile(package) as before, zipfile.ZipFile(out, "w") as after:
        for member in before.namelist():
            after.writestr(rename(member), before.read(member))
        for name, content in more.items():
            after.writestr(name, content)
    return out


def imported(path: Path) -> bytes:
    """The weights of the model, whose languages are those of its metadata."""
    out = path.with_name(f"{path.name}-model")
    assert import_model(path, out).format == "argos"
    data = load_for(out, TRANSLATION).config.data
    assert (data.source_language, data.target_language) == ("en", "fr")
    return (out / "model.safetensors").read_bytes()


def test_a_package_may_have_any_outer_folder_or_none(package: Path, tmp_path: Path) -> None:
    shadow = {"__MACOSX/metadata.json": b"x", "__MACOSX/en_fr/._metadata.json": b"x", ".DS_Store": b"x"}
    bare = repacked(package, tmp_path / "bare.argosmodel", lambda name: name.removeprefix("en_fr/"), **shadow)
    other = repacked(
        package,
        tmp_path / "other.argosmodel",
        lambda name: name.replace("en_fr/", "translate-en_fr-1_9/"),
        **shadow,
        **{"translate-en_fr-1_9/stanza/a/metadata.json": b"x", "translate-en_fr-1_9/model": b""},
    )
    assert imported(bare) == imported(other)


def test_an_installed_package_is_read_as_its_zip(package: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(package) as archive:
        archive.extractall(tmp_path)  # as Argos Translate does
    copy = tmp_path / "a.argosmodel"
    copy.write_bytes(package.read_bytes())
    assert imported(tmp_path / "en_fr") == imported(copy)
    facts = json.loads((tmp_path / "en_fr-model" / "MANIFEST.json").read_bytes())
    assert [*facts["imported_sha256"]] == ["model.bin"]


@pytest.mark.parametrize(
    ("code", "stored"),
    [("pb", "pt-BR"), ("zh-Hans", "zh-Hans"), ("zt", "zh-Hant"), ("fra", "fr"), ("x!", ""), (7, "")],
)
def test_codes_of_languages_have_one_spelling(
    package: Path, code: object, stored: str, tmp_path: Path
) -> None:
    metadata = json.dumps({"from_code": "en", "to_code": code}).encode()
    path = changed(package, tmp_path / "a.argosmodel", "metadata.json", lambda content: metadata)
    import_model(path, tmp_path / "model")
    assert load_for(tmp_path / "model", TRANSLATION).config.data.target_language == stored


def test_a_package_with_another_tokeniser_is_refused_by_the_file_it_lacks(
    package: Path, tmp_path: Path
) -> None:
    path = repacked(
        package, tmp_path / "a.argosmodel", lambda name: name.replace("sentencepiece.model", "other.model")
    )
    end = "has neither sentencepiece.model nor bpe.model; take another copy of the package"
    assert refusal(path) == f"{path}: {end}"


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
