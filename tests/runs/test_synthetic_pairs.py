"""Pairs of a text and its translations: real ones, as many as a time allows, once each."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.conftest import TOY_WORDS

from allyouneed import PreparedData, Translator, load_translator
from allyouneed.data.monolingual_text import MonolingualText
from allyouneed.runs import row_file
from allyouneed.runs.synthetic_pairs import SyntheticPairs

LINES = [f"{word} {TOY_WORDS[number - 1]}" for number, word in enumerate(TOY_WORDS)]


class Progress:
    """Counts the lines that are to be translated, and those that are."""

    def __init__(self) -> None:
        self.counts: list[int] = []

    @contextmanager
    def __call__(self, total: int) -> Iterator[Callable[[int], None]]:
        self.counts.append(total)
        yield self.counts.append


@pytest.fixture(scope="module")
def translator(toy_run: Path) -> Translator:
    return load_translator(toy_run)


@pytest.fixture
def pairs(tmp_path: Path, toy_data: Path) -> SyntheticPairs:
    """Pairs to be made of text in the source language; one of its lines is too long."""
    (tmp_path / "text").write_bytes("".join(f"{line}\n" for line in [*LINES, "sun " * 500]).encode())
    text = MonolingualText(tmp_path / "text")
    return SyntheticPairs(tmp_path / "pairs.tsv", "source", text, PreparedData(toy_data))


def test_each_line_has_the_translation_that_the_model_has_learned(
    pairs: SyntheticPairs, translator: Translator
) -> None:
    pairs.require_suitable()
    assert pairs.write(translator, 100, Progress()) == len(LINES)
    rows = [row.split("\t") for row in pairs.file.read_bytes().decode().split("\n")[:-1]]
    assert sorted(source for source, _ in rows) == sorted(LINES)
    right = [target == " ".join(f"{word[::-1]}o" for word in source.split()) for source, target in rows]
    assert sum(right) > 0.8 * len(LINES)


def test_what_is_there_is_not_translated_again_and_a_torn_row_is(
    pairs: SyntheticPairs, translator: Translator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(row_file, "_LINES_AT_ONCE", 5)
    pairs.write(translator, 100, Progress())
    whole = pairs.file.read_bytes()
    for end, left in ((len(whole) - 3, [1, 1]), (len(whole), [0]), (0, [12, 5, 5, 2])):
        pairs.file.write_bytes(whole[:end])
        pairs.write(translator, 100, shown := Progress())
        assert pairs.file.read_bytes() == whole
        assert shown.counts == left


def test_the_number_of_lines_follows_from_the_time(pairs: SyntheticPairs, translator: Translator) -> None:
    assert pairs.choose(translator, 1e-9)[0] == 1
    number, seconds = pairs.choose(translator, 1e9)
    assert number == len(LINES) + 1
    assert 0 < seconds < 1e9
