"""A file is translated into another: whole or not at all, resumably, and only what is text.

Promise: Files.
"""

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import allyouneed
from allyouneed.errors import DataError, DiskError, UsageError
from allyouneed.files import translation
from allyouneed.files.translation import translate_file
from allyouneed.terms.keeping import KeepingTranslator, Kept

STRINGS = {"a": "sun moon", "b": "bird sees {name}", "c": ["wolf", "sun moon"]}


@pytest.fixture(scope="module")
def translator(toy_model: Path) -> KeepingTranslator:
    return KeepingTranslator(allyouneed.load_translator(toy_model), Kept())


@pytest.fixture
def source(tmp_path: Path) -> Path:
    file = tmp_path / "en.json"
    file.write_bytes(json.dumps(STRINGS).encode())
    return file


def test_a_file_is_translated_and_nothing_is_left_beside_it(
    translator: KeepingTranslator, source: Path, tmp_path: Path
) -> None:
    told = list[tuple[int, int]]()
    translate_file(translator, source, tmp_path / "de.json", watch=lambda *each: told.append(each))
    found = json.loads((tmp_path / "de.json").read_bytes())
    assert found["a"] == found["c"][1] == translator.translate(["sun moon"])[0].text
    assert found["b"].count("{name}") == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["de.json", "en.json"]
    assert told[-1] == (3, 3)


def test_a_translation_goes_on_where_it_was_stopped(
    translator: KeepingTranslator, source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(translation, "_AT_A_TIME", 1)

    def stop(done: int, _: int) -> None:
        if done == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        translate_file(translator, source, tmp_path / "de.json", watch=stop)
    journal = tmp_path / ".de.json.translations"
    assert not (tmp_path / "de.json").exists()
    journal.write_bytes(journal.read_bytes() + b'["torn')
    told = list[int]()
    translate_file(translator, source, tmp_path / "de.json", watch=lambda done, _: told.append(done))
    assert told[0] == 2
    translate_file(translator, source, tmp_path / "again.json")
    assert (tmp_path / "de.json").read_bytes() == (tmp_path / "again.json").read_bytes()


KILLED = """
import os, signal, sys
from pathlib import Path
import allyouneed
from allyouneed.files import translation

translation._AT_A_TIME = 1
model, source, target = map(Path, sys.argv[1:])
kill = lambda done, known: os.kill(os.getpid(), signal.SIGKILL) if done == 2 else None
translation.translate_file(allyouneed.load_translator(model), source, target, watch=kill)
"""


def test_a_killed_translation_goes_on_to_the_same_bytes(
    translator: KeepingTranslator, toy_model: Path, source: Path, tmp_path: Path
) -> None:
    target = tmp_path / "de.json"
    killed = subprocess.run([sys.executable, "-c", KILLED, toy_model, source, target], check=False)
    assert killed.returncode == -signal.SIGKILL
    assert not target.exists()
    told = list[int]()
    translate_file(translator, source, target, watch=lambda done, _: told.append(done))
    assert told[0] >= 1
    translate_file(translator, source, tmp_path / "again.json")
    assert target.read_bytes() == (tmp_path / "again.json").read_bytes()


def test_another_request_begins_anew(translator: KeepingTranslator, source: Path, tmp_path: Path) -> None:
    journal = tmp_path / ".de.json.translations"
    journal.write_bytes(b'{"request": "another"}\n["sun moon", "wrong", null]\n')
    translate_file(translator, source, tmp_path / "de.json")
    assert b"wrong" not in (tmp_path / "de.json").read_bytes()


def test_wrong_files_are_refused(translator: KeepingTranslator, source: Path, tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.json"
    wrong.write_bytes(b"{")
    with pytest.raises(DataError, match=r"wrong.json: no JSON"):
        translate_file(translator, wrong, tmp_path / "de.json")
    with pytest.raises(DataError, match="cannot be read"):
        translate_file(translator, tmp_path / "absent.json", tmp_path / "de.json")
    with pytest.raises(UsageError, match=r"is not of the format of en\.json"):
        translate_file(translator, source, tmp_path / "de.po")
    with pytest.raises(UsageError, match="exists"):
        translate_file(translator, source, source)
    with pytest.raises(DiskError, match="there is no folder"):
        translate_file(translator, source, tmp_path / "absent" / "de.json")
    (tmp_path / "en.tmx").write_text("<tmx/>")
    with pytest.raises(UsageError, match=r"the languages.* are not known"):
        translate_file(translator, tmp_path / "en.tmx", tmp_path / "de.tmx")
    assert {each.name for each in tmp_path.iterdir()} == {"wrong.json", source.name, "en.tmx"}
