"""A vocabulary's file is read as it was written, or refused in one line with its name."""

import json
from pathlib import Path

import pytest

from allyouneed.config.run import DataConfig
from allyouneed.data.vocabulary_file import VocabularyFile, read_json
from allyouneed.errors import ModelError
from allyouneed.symbols import CONTROL_SYMBOLS, MAX_ENTRIES

FILE = VocabularyFile("allyouneed colours", 2, "vocabulary of colours", ("hue", "depth"))
SYMBOLS = [*CONTROL_SYMBOLS, "rot", "gr\N{LATIN SMALL LETTER U WITH DIAERESIS}n"]


def is_sound(symbols: list[str], hue: object, depth: object) -> bool:
    return (symbols, hue, depth) == (SYMBOLS, "warm", [1, 2])


def test_symbols_and_settings_are_read_as_they_were_written(tmp_path: Path) -> None:
    FILE.write(tmp_path / "colours.json", SYMBOLS, "warm", [1, 2])
    assert FILE.read(tmp_path / "colours.json", is_sound) == (SYMBOLS, ["warm", [1, 2]])


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({"format": "allyouneed tastes"}, "is not a vocabulary of colours that this version reads"),
        ({"format_version": 1}, "is not a vocabulary of colours that this version reads"),
        ({"depth": [2]}, "is not a vocabulary of colours that this version reads"),
        ({"symbols": SYMBOLS[1:]}, "is not a vocabulary of colours that this version reads"),
        ({"symbols": [*SYMBOLS, "rot"]}, "is not a vocabulary of colours that this version reads"),
        ({"hue": None, "symbols": {}}, "is not a vocabulary of colours that this version reads"),
        (None, "is damaged or not a vocabulary of colours"),
    ],
)
def test_another_content_is_refused(tmp_path: Path, changes: dict[str, object] | None, fault: str) -> None:
    file = tmp_path / "colours.json"
    FILE.write(file, SYMBOLS, "warm", [1, 2])
    written = json.loads(file.read_bytes())
    file.write_bytes(b"{}" if changes is None else json.dumps(written | changes).encode())
    with pytest.raises(ModelError, match=rf"colours\.json: {fault}"):
        FILE.read(file, is_sound)


def test_the_largest_vocabulary_that_can_be_asked_for_can_be_read(tmp_path: Path) -> None:
    bound = DataConfig.model_fields["vocab_size"].metadata[-1].le
    assert bound == MAX_ENTRIES
    file = tmp_path / "tokenizer.json"
    merges = b",\n".join([b'["w", "o"]'] * bound)  # as many values as a tokeniser has, in names and in merges
    file.write_bytes(b'{"vocab": [' + b",\n".join([b'"word"'] * bound) + b'], "merges": [' + merges + b"]}")
    assert len(read_json(file, "tokeniser")["merges"]) == bound
