"""Columns and scores of other programs' files are read as they are."""

import tracemalloc
from pathlib import Path

import pytest

from allyouneed.data.corpus import CleaningLimits, CleaningReport, DropReason, clean_pairs
from allyouneed.data.tab_separated import Columns, read_tab_separated
from allyouneed.errors import DataError

LINES = "u\tv\tone\teins\t0.9\nu\tv\ttwo\tzwei\t0.2\nu\tv\tthree\tdrei\tnan\nu\tv\tfour\tvier\t 1e0 \n"


def kept(file: Path, columns: Columns, **options: float) -> tuple[list[tuple[str, str, int]], CleaningReport]:
    report = CleaningReport()
    read = read_tab_separated(file, report, columns=columns, max_bad_share=options.get("max_bad_share"))
    pairs = [(p.source, p.target, p.line_number) for p in clean_pairs(read, CleaningLimits(), report)]
    return pairs, report


def test_any_columns_may_have_source_and_target(tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_bytes(LINES.encode())
    pairs, report = kept(tmp_path / "a.tsv", Columns(4, 3))
    assert pairs == [("eins", "one", 1), ("zwei", "two", 2), ("drei", "three", 3), ("vier", "four", 4)]
    assert not any("after the second" in line for line in report.lines())  # they are left out on purpose


def test_pairs_with_low_scores_are_dropped_and_counted(tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_bytes(LINES.encode())
    pairs, report = kept(tmp_path / "a.tsv", Columns(3, 4, 5, 0.9))
    assert pairs == [("one", "eins", 1), ("four", "vier", 4)]
    dropped = report.dropped[DropReason.LOW_SCORE]
    assert (dropped.num_pairs, dropped.examples) == (2, [f"{tmp_path / 'a.tsv'}:{line}" for line in (2, 3)])


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (Columns(3, 6), r":1: has 5 columns, 6 are needed; check .* \(likewise lines 2, 3, 4\)"),
        (Columns(3, 4, 2, 0.5), r":1: column 2 is 'v', not a score; name another .*lines 2, 3, 4\)"),
    ],
)
def test_lines_without_a_column_or_a_score_are_named(tmp_path: Path, columns: Columns, message: str) -> None:
    (tmp_path / "a.tsv").write_bytes(LINES.encode())
    with pytest.raises(DataError, match=message):
        kept(tmp_path / "a.tsv", columns)


@pytest.mark.parametrize("later", [b"zwei\t\xff\n", b"zwei\t\0\n"])
def test_a_later_fault_of_another_kind_does_not_hide_the_first(tmp_path: Path, later: bytes) -> None:
    (tmp_path / "a.tsv").write_bytes(b"one\teins\nno tab\nnone here\n" + later + b"nor here\n")
    with pytest.raises(DataError, match=r"a\.tsv:2: no tab; .* \(likewise line 3\)$"):
        kept(tmp_path / "a.tsv", Columns())


@pytest.mark.parametrize("columns", [Columns(), Columns(2, 1), Columns(1, 4, 3, 0.0)])
def test_a_line_of_tabs_takes_no_more_memory_than_its_text(tmp_path: Path, columns: Columns) -> None:
    num_tabs = 1 << 22
    (tmp_path / "a.tsv").write_bytes(b"one\teins\t1\tuno" + b"\t" * num_tabs)
    tracemalloc.start()
    pairs, report = kept(tmp_path / "a.tsv", columns)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert [pair[:2] for pair in pairs] == [
        tuple(("one", "eins", "1", "uno")[column - 1] for column in (columns.source, columns.target))
    ]
    assert report.notes.total() == (columns == Columns())
    assert peak < 8 * num_tabs  # a list of so many cells alone


def test_some_lines_without_a_score_may_be_dropped(tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_bytes((LINES + "u\tv\tfive\tfünf\t\nu\tv\n").encode())
    pairs, report = kept(tmp_path / "a.tsv", Columns(3, 4, 5, 0.0), max_bad_share=0.4)
    assert [number for *_, number in pairs] == [1, 2, 4]
    assert report.dropped[DropReason.BAD_LINE].num_pairs == 2
