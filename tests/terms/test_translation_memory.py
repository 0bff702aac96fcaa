"""A translation memory is read in bounded memory, refuses entities, and says what is wrong."""

from pathlib import Path

import pytest

from allyouneed.errors import DataError, UsageError
from allyouneed.terms.translation_memory import TranslationMemory

UNIT = '<tu><tuv xml:lang="en"><seg>{}</seg></tuv><tuv xml:lang="de-AT"><seg>{}</seg></tuv></tu>'


def tmx(folder: Path, units: str, head: str = "") -> Path:
    file = folder / "old.tmx"
    file.write_bytes(
        f'<?xml version="1.0"?>{head}\n<tmx version="1.4"><header/><body>{units}</body></tmx>'.encode()
    )
    return file


def test_the_first_translation_of_a_text_counts(tmp_path: Path) -> None:
    units = UNIT.format("a &lt; b", "A &lt; B") + UNIT.format("sun", "Sonne") + UNIT.format("sun", "Stern")
    found = TranslationMemory.read(tmx(tmp_path, units), "en", "de").translations
    assert found == {"a < b": "A < B", "sun": "Sonne"}


def test_declared_entities_are_refused(tmp_path: Path) -> None:
    head = '<!DOCTYPE tmx [<!ENTITY e SYSTEM "file:///etc/passwd">]>'
    with pytest.raises(DataError, match="entit"):
        TranslationMemory.read(tmx(tmp_path, UNIT.format("a", "&e;"), head), "en", "de")


def test_other_files_and_models_without_languages_are_refused(tmp_path: Path) -> None:
    (tmp_path / "plain.txt").write_bytes(b"sun\tSonne\n")
    with pytest.raises(DataError, match=r"plain\.txt: is no translation memory"):
        TranslationMemory.read(tmp_path / "plain.txt", "en", "de")
    with pytest.raises(UsageError, match="does not say its languages"):
        TranslationMemory.read(tmx(tmp_path, UNIT.format("a", "b")), "", "de")
    with pytest.raises(DataError, match="fr"):
        TranslationMemory.read(tmx(tmp_path, UNIT.format("a", "b")), "en", "fr")
