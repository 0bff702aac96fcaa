"""A catalogue that `pot2po` has updated is completed, and passes `msgfmt --check` and `pofilter`."""

import difflib
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tests.packages import require_packages

from allyouneed import load_translator, translate_file

HEADER = r"""# German translation
msgid ""
msgstr ""
"Project-Id-Version: zoo\n"
"POT-Creation-Date: 2026-11-30 12:00+0000\n"
"PO-Revision-Date: 2026-11-30 12:00+0000\n"
"Last-Translator: Jane <jane@example.org>\n"
"Language-Team: German\n"
"Language: \n"
"MIME-Version: 1.0\n"
"Content-Type: text/plain; charset=UTF-8\n"
"Content-Transfer-Encoding: 8bit\n"
"Plural-Forms: nplurals=2; plural=(n != 1);\n"
"""
OLD = rf"""{HEADER}
# A remark of the translator
msgid "The sun"
msgstr "Die Sonne"

msgid "The bird sees three old fish."
msgstr "Der Vogel sieht drei alte Fische."

msgctxt "menu"
msgid "Open"
msgstr "Öffnen"

msgid "Gone"
msgstr "Weg"
"""
NEW = rf"""{HEADER}
#: zoo.c:1
msgid "The sun"
msgstr ""

#: zoo.c:2
msgid "The bird sees three new fish."
msgstr ""

msgctxt "menu"
msgid "Open"
msgstr ""

#. For the title
msgctxt "title"
msgid "bird"
msgstr ""

#, c-format
msgid "%d fish"
msgid_plural "%d fishes"
msgstr[0] ""
msgstr[1] ""

#, python-format
msgid ""
"sun %(name)s <b>moon</b>\n"
"\n"
"tree\tstar\n"
msgstr ""

#, c-format
msgid "100%% of the wolf, %s bear"
msgstr ""
"""
TESTS = (
    "printf",
    "pythonbraceformat",
    "newlines",
    "tabs",
    "xmltags",
    "escapes",
    "startwhitespace",
    "unchanged",
)


def test_a_catalogue_that_was_updated_is_completed_and_nothing_else_changes(
    toy_model: Path, tmp_path: Path
) -> None:
    require_packages("translate.convert.pot2po")
    if not (msgfmt := shutil.which("msgfmt")):
        pytest.skip("NOT RUN: needs msgfmt of gettext")
    old, new, updated, done = (tmp_path / name for name in ("old.po", "new.pot", "updated.po", "done.po"))
    old.write_bytes(OLD.encode())
    new.write_bytes(NEW.encode())
    run(sys.executable, "-m", "translate.convert.pot2po", "-t", old, new, updated)
    translate_file(load_translator(toy_model), updated, done)
    before, after = (file.read_bytes().decode().split("\n") for file in (updated, done))
    changed = [line[2:] for line in difflib.ndiff(before, after) if line.startswith("- ")]
    assert sorted(changed) == [*['msgstr ""'] * 2, 'msgstr[0] ""', 'msgstr[1] ""']
    assert '#~ msgid "Gone"' in after
    assert after.count("#, fuzzy") == before.count("#, fuzzy") == 1
    run(msgfmt, "--check", "--output-file", tmp_path / "done.mo", done)
    tests = [f"--test={name}" for name in TESTS]
    found = run(sys.executable, "-m", "translate.filters.pofilter", "--nofuzzy", *tests, done)
    assert "(pofilter)" not in found, found


def run(*command: object) -> str:
    done = subprocess.run([*map(str, command)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout
