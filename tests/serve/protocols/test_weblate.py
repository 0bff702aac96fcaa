"""Weblate's machinery, unmodified, translates its units on the server, by both protocols that it knows."""

import json
import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
from tests.serve.conftest import StartServer

from allyouneed import load_translator

pytestmark = pytest.mark.release

KEPT = ["%(name)s", "%(n)d"], ["<b>", "</b>", '<a href="x?a=1">', "</a>"]
"""What the translations of the second and the third unit must have, each once."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "glossaries"


@pytest.fixture
def answers(start_server: StartServer, folder: Path) -> dict[str, Any]:
    python = os.environ.get("WEBLATE_PYTHON")
    if not python:
        pytest.skip("NOT RUN: needs Weblate; set WEBLATE_PYTHON to a Python that has it")
    program, address = (
        Path(__file__).with_name("weblate_client.py"),
        start_server(glossaries=folder, keep=True),
    )
    ran = subprocess.run([python, program, address], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    found: dict[str, Any] = json.loads(ran.stdout.splitlines()[-1])
    return found


def test_weblate_translates(answers: dict[str, Any], toy_model: Path, folder: Path) -> None:
    libretranslate, deepl = answers["LibreTranslate"], answers["DeepL"]
    assert libretranslate["languages"] == ["de", "en", "fr"]
    assert ["EN", "DE"] in deepl["languages"]
    [offline] = load_translator(toy_model).translate(["sun"])
    for answer in (libretranslate, deepl):
        assert answer["unsupported"] == [[]] * 5
        for sun, placeholders, tags, lines, plurals in answer["translations"]:
            assert sun == [offline.text]
            for [text], kept in ((placeholders, KEPT[0]), (tags, KEPT[1])):
                assert [text.count(each) for each in kept] == [1] * len(kept)
            assert [bool(line) for line in lines[0].split("\n")] == [True, False, True, True]
            assert [re.findall("%.", text) for text in plurals] == [["%d"], ["%d", "%s"]]
    assert libretranslate["refusal"].endswith("cs is not supported")
    assert deepl["refusal"] == "Value for 'target_lang' not supported."
    for word, (_, placeholders, _, lines, _) in zip(("Zebra", "Yak"), deepl["translations"], strict=True):
        assert all(re.search(rf"\b{word}\b", text) for text in (placeholders[0], lines[0]))
    assert len([*folder.iterdir()]) == 1  # Weblate has deleted the first one
