"""What teachers write: real translations, the best of several, and the worst left out."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.conftest import TOY_WORDS

from allyouneed import Translator, load_translator
from allyouneed.errors import DataError
from allyouneed.evaluation.pairwise_chrf import pairwise_chrf
from allyouneed.preparation.derived_data import with_other_pairs
from allyouneed.preparation.prepared_data import PreparedData
from allyouneed.runs.distilled_pairs import DistilledPairs, SourceText, chosen, corpus_of
from allyouneed.tasks.translation.outputs import Translation

LINES = [f"{word} {TOY_WORDS[number - 1]}" for number, word in enumerate(TOY_WORDS)]


def quiet(total: int) -> AbstractContextManager[Callable[[int], None]]:
    return nullcontext(lambda count: None)


@pytest.fixture(scope="module")
def teacher(toy_run: Path) -> Translator:
    return load_translator(toy_run)


def rows_of(file: Path) -> list[list[str]]:
    return [row.split("\t") for row in file.read_bytes().decode().split("\n")[:-1]]


def test_a_reference_chooses_the_translation_most_similar_to_it() -> None:
    found = [
        Translation(text, score) for text, score in (("a cat", -1.0), ("the dog", -2.0), ("a dog", -3.0))
    ]
    best, similarity = chosen(found, "the dog")
    assert best.text == "the dog"
    assert similarity == pytest.approx(100)


def test_without_a_reference_the_translation_most_similar_to_all_is_the_best() -> None:
    # Of three texts, the middle one shares words with both others, which share none with each other.
    found = [Translation(text, 0.0) for text in ("aaaa bbbb", "bbbb cccc", "cccc dddd")]
    best, similarity = chosen(found, None)
    assert best.text == "bbbb cccc"
    assert 33 < similarity < 100


def test_the_first_of_equals_is_chosen() -> None:
    found = [Translation("same", -1.0), Translation("same", -2.0)]
    assert chosen(found, "same")[0] is found[0]
    assert chosen(found, None)[0] is found[0]


def test_a_row_has_the_line_a_translation_its_score_and_its_similarity(
    tmp_path: Path, teacher: Translator
) -> None:
    references = [" ".join(f"{word[::-1]}o" for word in line.split()) for line in LINES]
    pairs = [*zip(LINES, references, strict=True)]
    text = SourceText(tmp_path / "text", len(LINES), lambda number: pairs[:number])
    DistilledPairs(tmp_path / "pairs.tsv", text, 3).write(teacher, len(LINES), quiet)
    rows = rows_of(tmp_path / "pairs.tsv")
    beam = teacher.config.search.beam_size
    assert [row[0] for row in rows] == LINES
    for row, candidates, reference in zip(
        rows, teacher.stream(LINES, n_best=3, beam_size=beam), references, strict=True
    ):
        [found] = [each for each in candidates if each.text == row[1]]
        assert float(row[2]) == pytest.approx(np.mean(found.token_log_probs), abs=1e-4)
        assert float(row[3]) == pytest.approx(pairwise_chrf([row[1], reference])[0, 1], abs=0.01)
        assert float(row[3]) >= max(pairwise_chrf([each.text, reference])[0, 1] for each in candidates) - 0.01
    assert sum(float(row[3]) == 100 for row in rows) > 0.8 * len(rows)


def test_the_lowest_scores_and_translations_without_an_end_are_left_out(
    tmp_path: Path, toy_data: Path, teacher: Translator
) -> None:
    file, other = tmp_path / "pairs.tsv", tmp_path / "more.tsv"
    scores = ["-0.1000", "-0.9000", "-0.2000", "-1000.0000", "-0.3000"]
    file.write_bytes("".join(f"sun {n}\tnuso\t{score}\t50.00\n" for n, score in enumerate(scores)).encode())
    other.write_bytes(b"moon\tnoomo\t-0.4000\t50.00\n")
    prepared = PreparedData(toy_data)
    with_other_pairs(prepared, tmp_path / "all", corpus_of([file, other], 0.0), print)
    kept = PreparedData(tmp_path / "all")
    assert kept.lines("train", "source") == ["sun 0", "sun 1", "sun 2", "sun 4", "moon"]
    assert kept.lines("valid", "target") == prepared.lines("valid", "target")
    assert kept.tokenizers == prepared.tokenizers
    with_other_pairs(prepared, tmp_path / "most", corpus_of([file, other], 0.34), print)
    assert PreparedData(tmp_path / "most").lines("train", "source") == ["sun 0", "sun 2", "sun 4", "moon"]


@pytest.mark.parametrize("row", ["sun\tnuso", "sun\tnuso\tgood\t50.00"])
def test_a_row_that_was_edited_badly_is_named(tmp_path: Path, row: str) -> None:
    (tmp_path / "pairs.tsv").write_bytes(f"sun\tnuso\t-0.1\t50.00\n{row}\n".encode())
    with pytest.raises(DataError, match=r"pairs\.tsv:2: has no number in column 3; correct the line"):
        corpus_of([tmp_path / "pairs.tsv"], 0.0)


def text_of(lines: list[str]) -> SourceText:
    return SourceText(Path("text"), len(lines), lambda number: [(line, None) for line in lines[:number]])


def test_a_translation_that_was_cut_has_no_score(
    tmp_path: Path, teacher: Translator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(teacher, "config", teacher.config.replace(search={"max_length": 1}))
    pairs = DistilledPairs(tmp_path / "pairs.tsv", text_of(["sun moon"]), 1)
    pairs.write(teacher, 1, quiet)
    assert rows_of(pairs.file)[0][2] == "-1000.0000"


def test_lines_without_letters_are_kept_and_spoil_no_score(
    tmp_path: Path, teacher: Translator, toy_data: Path
) -> None:
    pairs = DistilledPairs(tmp_path / "pairs.tsv", text_of(["10:30", "sun moon"]), 2)
    pairs.write(teacher, 2, quiet)
    assert rows_of(pairs.file)[0] == ["10:30", "10:30", "0.0000", "100.00"]
    with_other_pairs(PreparedData(toy_data), tmp_path / "data", corpus_of([pairs.file], 0.0), print)
    assert PreparedData(tmp_path / "data").train.num_pairs == 2


def test_a_teacher_that_samples_by_itself_searches_here(
    tmp_path: Path, teacher: Translator, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = text_of(LINES[:3])
    DistilledPairs(tmp_path / "search.tsv", lines, 2).write(teacher, 3, quiet)
    for number, mbr in enumerate((8, None)):
        own = teacher.config.replace(search={"mbr": mbr, "sampling": True})
        monkeypatch.setattr(teacher, "config", own)
        pairs = DistilledPairs(tmp_path / f"{number}.tsv", lines, 2)
        pairs.write(teacher, 3, quiet)
        assert pairs.file.read_bytes() == (tmp_path / "search.tsv").read_bytes()


def test_the_first_lines_are_drawn_from_everywhere_with_their_references(toy_data: Path) -> None:
    prepared = PreparedData(toy_data)
    sources, targets = (prepared.lines("train", side) for side in ("source", "target"))
    text = SourceText.of_pairs(prepared)
    assert sorted(text.first(text.num_lines)) == sorted(zip(sources, targets, strict=True))
    places = [sources.index(source) for source, _ in text.first(100)]
    assert max(places) > 0.9 * len(set(sources))
    assert text.first(100) == SourceText.of_pairs(prepared).first(400)[:100]


def test_the_time_of_a_line_is_measured_on_some_lines(
    tmp_path: Path, teacher: Translator, monkeypatch: pytest.MonkeyPatch
) -> None:
    pairs = DistilledPairs(tmp_path / "pairs.tsv", text_of(LINES * 10), 2)
    asked, stream = list[int](), teacher.stream

    def counted(lines: Sequence[str], **options: Any) -> Iterator[list[Translation]]:
        asked.append(len(lines))
        return stream(lines, **options)

    monkeypatch.setattr(teacher, "stream", counted)
    assert pairs.seconds_per_line(teacher) > 0
    assert asked == [1, 32, 32, 32, 24]
    monkeypatch.setattr("allyouneed.runs.distilled_pairs._MEASURED_SECONDS", 1e-9)
    assert pairs.seconds_per_line(teacher) > 0
    assert asked[5:] == [1, 32]
    assert not pairs.file.exists()


def test_a_text_of_which_no_line_is_short_enough_adds_nothing(
    tmp_path: Path, teacher: Translator, toy_data: Path
) -> None:
    none, some = (DistilledPairs(tmp_path / f"{n}.tsv", text_of(LINES[:n]), 2) for n in (0, 3))
    assert none.seconds_per_line(teacher) >= 0
    for pairs in (none, some):
        pairs.write(teacher, 3, quiet)
    corpus = corpus_of([none.file, some.file], 0.0)
    with_other_pairs(PreparedData(toy_data), tmp_path / "data", corpus, print)
    assert PreparedData(tmp_path / "data").train.num_pairs == 3
