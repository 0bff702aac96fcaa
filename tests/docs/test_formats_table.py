"""The table of formats in `docs/files.md` has the versions in the code; files of each are kept for tests."""

import json
import re
from pathlib import Path

import pytest

from allyouneed.data import store
from allyouneed.data.vocabulary_file import VocabularyFile
from allyouneed.storage.publish import manifest
from allyouneed.tasks import attention_maps
from allyouneed.tasks.parsing.tree_vocabulary import TreeVocabulary
from allyouneed.tasks.parsing.word_features import WordFeatures

ROOT = Path(__file__).parents[2]
_WRITTEN_ONLY = "allyouneed attention"
_VOCABULARIES: list[VocabularyFile] = [WordFeatures.file, TreeVocabulary.file]
VERSIONS = {
    "published directory": manifest.FORMAT_VERSION,
    store.FORMAT: store.FORMAT_VERSION,
    **{each.format: each.version for each in _VOCABULARIES},
    _WRITTEN_ONLY: int(attention_maps.FORMAT.removeprefix(_WRITTEN_ONLY)),
}


def test_the_table_has_the_versions_of_the_code() -> None:
    rows = re.findall(
        r"^\| (.+?) \| .+ \| (\d+) \|$", (ROOT / "docs" / "files.md").read_bytes().decode(), re.M
    )
    assert {name: int(version) for name, version in rows} == VERSIONS


def test_no_format_of_the_code_is_missing_here() -> None:
    sources = [path.read_bytes().decode() for path in (ROOT / "src").rglob("*.py")]
    named = r'^FORMAT_VERSION = |= VocabularyFile\("|"allyouneed [a-z ]+ \d"$'
    assert sum(len(re.findall(named, source, re.MULTILINE)) for source in sources) == len(VERSIONS)


@pytest.mark.parametrize("name", sorted({*VERSIONS} - {_WRITTEN_ONLY}))
def test_files_of_every_version_are_kept(name: str) -> None:
    kept = {
        found["format_version"]
        for path in (ROOT / "tests" / "compatibility").rglob("*.json")
        if isinstance(found := json.loads(path.read_bytes()), dict)
        and found.get("format", "published directory" if "files" in found else "") == name
        and "format_version" in found
    }
    assert kept == {*range(1, VERSIONS[name] + 1)}
