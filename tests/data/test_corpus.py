"""Pairs are read in step, cleaned by stated limits, and every line is accounted for."""

import gzip
import json
import os
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from allyouneed.data.bad_lines import find_drift
from allyouneed.data.corpus import (
    MAX_EXAMPLES,
    CleaningLimits,
    CleaningReport,
    DropReason,
    Pair,
    clean_pairs,
    read_parallel,
)
from allyouneed.data.corpus_files import CorpusFiles
from allyouneed.data.tab_separated import read_tab_separated
from allyouneed.errors import DataError, UsageError


def write(path: Path, text: str) -> Path:
    content = text.encode()
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    return path


def pair(source: str, target: str, line_number: int = 1) -> Pair:
    return Pair(source, target, line_number, "train.de")


def test_parallel_files_are_read_line_by_line_one_after_the_other(tmp_path: Path) -> None:
    sources = [write(tmp_path / "a.de", "eins\n\nzwei"), write(tmp_path / "b.de.gz", "drei\n")]
    targets = [write(tmp_path / "a.en", "one\r\n-\r\ntwo\r\n"), write(tmp_path / "b.en", "\ufeffthree\n")]
    report = CleaningReport()
    a, b = map(str, sources)
    places = [("eins", "one", 1, a), ("", "-", 2, a), ("zwei", "two", 3, a), ("drei", "three", 1, b)]
    expected = [Pair(*each) for each in places]
    assert list(read_parallel(sources, targets, report)) == expected
    assert list(read_parallel(sources, targets)) == expected
    assert report.lines() == [
        f"{a}: 3 lines",
        f"{targets[0]}: 3 lines; 3 carriage returns removed",
        f"{b}: 1 lines",
        f"{targets[1]}: 1 lines; byte order mark removed",
        "0 pairs read, 0 kept, 0 dropped",
    ]


def test_tab_separated_files_are_read_and_further_columns_counted(tmp_path: Path) -> None:
    file = write(tmp_path / "pairs.tsv", "Go.\tGeh.\nHi.\tHallo!\tCC-BY 2.0 (France) #538123\nRun\u2028!\t\n")
    report = CleaningReport()
    assert list(read_tab_separated(file, report)) == [
        Pair("Go.", "Geh.", 1, str(file)),
        Pair("Hi.", "Hallo!", 2, str(file)),
        Pair("Run\u2028!", "", 3, str(file)),
    ]
    assert "1 lines have columns after the second; these are ignored" in report.lines()


def test_lines_without_a_tab_are_named_together(tmp_path: Path) -> None:
    file = write(tmp_path / "pairs.tsv", "a\tb\nno tab\nc\td\n\n")
    with pytest.raises(DataError) as caught:
        list(read_tab_separated(file, CleaningReport()))
    assert caught.value.messages == (
        f"{file}:2: no tab; write source TAB target on each line (likewise line 4)",
    )


def test_missing_files_and_directories_are_named_together_at_the_call(tmp_path: Path) -> None:
    there = write(tmp_path / "a.de", "eins\n")
    with pytest.raises(DataError) as caught:
        read_parallel([there, tmp_path / "b.de"], [tmp_path / "a.en", tmp_path])
    assert [message.split(": ")[1] for message in caught.value.messages] == [
        "no such file; check the path",
        "no such file; check the path",
        "is a directory; check the path",
    ]


def test_pipes_and_standard_input_are_refused_at_the_call(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for file in (pipe, Path("-")):
        with pytest.raises(UsageError, match="is a pipe, but is needed twice; save it to a file first"):
            CorpusFiles(pairs=file).read(CleaningReport())


def test_the_numbers_of_source_and_target_files_must_agree(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="2 source files, but 1 target files"):
        read_parallel([tmp_path / "a", tmp_path / "b"], [tmp_path / "c"])


def test_one_file_cannot_be_source_and_target_even_by_another_name(tmp_path: Path) -> None:
    file = write(tmp_path / "a.de", "eins\n")
    (tmp_path / "link").symlink_to(file)
    with pytest.raises(DataError, match="is both source and target"):
        read_parallel([file], [tmp_path / "link"])


@pytest.mark.parametrize(
    ("source", "target", "named"), [("", "", "a.de"), ("", "x\n", "a.de"), ("x\n", "", "a.en")]
)
def test_empty_files_are_errors(tmp_path: Path, source: str, target: str, named: str) -> None:
    files = write(tmp_path / "a.de", source), write(tmp_path / "a.en", target)
    with pytest.raises(DataError, match=rf"{named}: is empty"):
        list(read_parallel([files[0]], [files[1]]))
    with pytest.raises(DataError, match="is empty"):
        list(read_tab_separated(write(tmp_path / "a.tsv", ""), CleaningReport()))


def test_a_nul_character_is_an_error_with_its_place(tmp_path: Path) -> None:
    source, target = write(tmp_path / "a.de", "a\nb\n"), write(tmp_path / "a.en", "a\nb\0\n")
    with pytest.raises(DataError, match=r"a.en:2:2: NUL character"):
        list(read_parallel([source], [target]))


def test_files_of_different_length_are_an_error_with_both_counts_and_the_place(tmp_path: Path) -> None:
    words = ["a", "bb bb bb", "cc", "dddddd dddddd ddddd dddd", "e e", "fffffffffff ffff", "g"]
    source = write(tmp_path / "a.de", "".join(f"{word}\n" for word in words))
    target = write(
        tmp_path / "a.en", "".join(f"{word}\n" for word in words if word != "dddddd dddddd ddddd dddd")
    )
    with pytest.raises(DataError) as caught:
        list(read_parallel([source], [target]))
    assert caught.value.messages == (
        f"{source} has 7 lines, {target} has 6; line 7 is only in {source}; "
        "by the lengths of their lines, they drift apart near line 4; mend the files there",
    )


@pytest.mark.parametrize("num_lost", [1, 3, 40])
def test_the_place_of_lost_lines_is_found_by_their_lengths(num_lost: int) -> None:
    random = np.random.default_rng(7)
    for lost in random.integers(0, 2000 - num_lost, size=100):
        lengths = random.lognormal(4, 0.6, size=2000)
        translated = lengths * random.lognormal(0.1, 0.2, size=2000)
        found = find_drift(
            lengths.astype(int), np.delete(translated.astype(int), slice(lost, lost + num_lost))
        )
        assert abs(found - (lost + 1)) <= 15


def test_lines_lost_at_the_end_are_found_after_the_last_common_line() -> None:
    lengths = np.array([10, 80, 30, 50, 20, 70])
    assert find_drift(lengths, lengths[:4]) == 5


LIMITS = CleaningLimits(max_words=5, max_characters=100, max_length_ratio=2.0)


@pytest.mark.parametrize(
    ("source", "target", "reason"),
    [
        ("", "x", DropReason.EMPTY_SOURCE),
        ("\xa0\u200b ", "x", DropReason.EMPTY_SOURCE),
        ("x", "\u3000", DropReason.EMPTY_TARGET),
        ("x" * 101, "x" * 100, DropReason.TOO_MANY_CHARACTERS),
        ("x" * 100, "x" * 50, None),
        ("x" * 100, "x" * 49, DropReason.CHARACTER_RATIO),
        ("x" * 30, "x" * 61, DropReason.CHARACTER_RATIO),
        ("x" * 29, "x" * 60, None),
        ("a b c d e", "x", None),
        ("x", "a b c d e f", DropReason.TOO_MANY_WORDS),
    ],
)
def test_pairs_are_dropped_for_the_reason_that_holds(
    source: str, target: str, reason: DropReason | None
) -> None:
    report = CleaningReport()
    kept = list(clean_pairs([pair(source, target)], LIMITS, report))
    assert kept == ([] if reason else [pair(source, target)])
    assert list(report.dropped) == ([reason] if reason else [])


def test_the_report_accounts_for_every_pair_also_those_dropped_by_others() -> None:
    report = CleaningReport()
    pairs = [pair("eins", "" if number <= 8 else "one", number) for number in range(1, 1001)]
    kept = list(clean_pairs(pairs, LIMITS, report))
    report.drop(DropReason.TOO_MANY_TOKENS, kept[-1])
    assert (report.num_read, report.num_kept, report.num_dropped) == (1000, len(kept) - 1, 9)
    assert len(report.dropped[DropReason.EMPTY_TARGET].examples) == MAX_EXAMPLES
    assert report.lines() == [
        "1,000 pairs read, 991 kept, 9 dropped",
        "  8 dropped: empty target (train.de:1, train.de:2, train.de:3, train.de:4, train.de:5, ...)",
        "  1 dropped: too many tokens (train.de:1000)",
    ]


def test_the_report_is_plain_json(tmp_path: Path) -> None:
    report = CleaningReport()
    file = write(tmp_path / "a.tsv", "eins\t\nzwei\ttwo\r\n")
    list(clean_pairs(read_tab_separated(file, report), CleaningLimits(), report))
    assert json.loads(json.dumps(report.to_dict())) == {
        "num_read": 2,
        "num_kept": 1,
        "num_dropped": 1,
        "files": {str(file): {"num_lines": 2, "num_carriage_returns": 1, "has_byte_order_mark": False}},
        "dropped": {"empty target": {"num_pairs": 1, "examples": [f"{file}:1"]}},
        "notes": {},
    }


def test_the_default_limits_keep_all_but_a_few_of_a_clean_corpus(data_folder: Path) -> None:
    report = CleaningReport()
    files = [[data_folder / "multi30k" / f"train.{language}.gz"] for language in ("de", "en")]
    kept = list(clean_pairs(read_parallel(files[0], files[1], report), CleaningLimits(), report))
    assert report.num_read == 29_000
    assert len(kept) == report.num_kept > 28_990


@pytest.mark.parametrize("form", ["parallel", "tsv"])
def test_a_few_bad_lines_may_be_dropped_with_their_pairs(tmp_path: Path, form: str) -> None:
    sources = [b"eins", b"zw\xffei", b"drei", b"vi\0er", b"f\xc3\xbcnf", b"sechs"]
    targets = [b"one", b"two", b"th\xc3ree", b"four", b"five", b"six"]
    a, b = tmp_path / "a.de", tmp_path / "a.en"
    if form == "parallel":
        a.write_bytes(b"\n".join(sources))
        b.write_bytes(b"\n".join(targets))
    else:
        lines = [source + b"\t" + target for source, target in zip(sources, targets, strict=True)]
        a.write_bytes(b"\n".join([*lines, b"no tab"]))
    corpus = partial(CorpusFiles, a, b) if form == "parallel" else partial(CorpusFiles, pairs=a)

    with pytest.raises(DataError, match=rf"{a}:2:3: invalid byte 0xFF"):
        list(corpus().read(CleaningReport()))

    report = CleaningReport()
    num_bad = 3 if form == "parallel" else 4
    share = num_bad / (num_bad + 3)
    read = corpus(max_bad_share=share).read(report)
    kept = list(clean_pairs(read, CleaningLimits(), report))
    assert [(pair.source, pair.target, pair.line_number) for pair in kept] == [
        ("eins", "one", 1),
        ("f\xfcnf", "five", 5),
        ("sechs", "six", 6),
    ]
    assert (report.num_read, report.num_kept) == (num_bad + 3, 3)
    assert report.dropped[DropReason.BAD_LINE].num_pairs == num_bad
    assert report.dropped[DropReason.BAD_LINE].examples[:3] == [f"{a}:{number}" for number in (2, 3, 4)]

    with pytest.raises(
        DataError, match=rf"{num_bad} of the first {num_bad + 3} lines cannot be used"
    ) as caught:
        list(corpus(max_bad_share=share - 0.01).read(CleaningReport()))
    assert f"{a}:2:3: invalid byte 0xFF" in str(caught.value)


def test_a_file_of_bad_lines_is_not_read_to_its_end(tmp_path: Path) -> None:
    file = tmp_path / "latin1.tsv"
    file.write_bytes(b"H\xe4user\thouses\n" * 200_000)
    with pytest.raises(DataError, match=r"latin1\.tsv:1:2: invalid byte 0xE4.*101 of the first 101 lines"):
        list(read_tab_separated(file, CleaningReport(), max_bad_share=0.01))


@pytest.mark.parametrize("order", [1, -1])
def test_the_share_of_bad_lines_is_that_of_the_whole_file_in_any_order(tmp_path: Path, order: int) -> None:
    lines = [b"H\xe4user\thouses", b"dog\tHund", b"cat\tKatze"] * 199 + [b"bird\tVogel"] * 19_303
    file = tmp_path / "mixed.tsv"
    file.write_bytes(b"\n".join(lines[::order]))
    kept = list(read_tab_separated(file, CleaningReport(), max_bad_share=0.01))
    assert len(kept) == 19_900
    with pytest.raises(DataError, match="199 of the first 19,900 lines cannot be used"):
        list(read_tab_separated(file, CleaningReport(), max_bad_share=0.0099))


def test_what_is_no_text_is_an_error_however_many_lines_may_be_bad(tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_bytes("a\tb\n".encode("utf-16"))
    with pytest.raises(DataError, match="UTF-16; convert with iconv"):
        list(read_tab_separated(tmp_path / "a.tsv", CleaningReport(), max_bad_share=1.0))
    (tmp_path / "b.tsv").write_bytes(b"")
    with pytest.raises(DataError, match="is empty"):
        list(read_tab_separated(tmp_path / "b.tsv", CleaningReport(), max_bad_share=1.0))


def test_files_of_different_lengths_are_an_error_beside_bad_lines(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"one\n\xff\nthree\n")
    (tmp_path / "b").write_bytes(b"eins\nzwei\n")
    with pytest.raises(DataError, match=r"has 3 lines, .* has 2; line 3 is only in"):
        list(read_parallel([tmp_path / "a"], [tmp_path / "b"], max_bad_share=0.5))


def test_copies_are_counted_and_dropped_if_that_is_asked_for(tmp_path: Path) -> None:
    file = write(tmp_path / "a.tsv", "Berlin\tBerlin\none\teins\nA\ta\nx y\tx y\n\t\n")
    for files, num_kept in ((CorpusFiles(pairs=file), 4), (CorpusFiles(pairs=file, drop_copies=True), 2)):
        report = CleaningReport()
        kept = list(clean_pairs(files.read(report), files.limits, report))
        assert len(kept) == report.num_kept == num_kept
        told = "\n".join(report.lines())
        assert ("2 dropped: copy of the source" in told) == files.drop_copies
        assert ("2 pairs are copies of their source" in told) == (not files.drop_copies)
