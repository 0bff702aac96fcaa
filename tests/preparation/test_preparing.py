"""Prepared data hold the text that was given, account for what was dropped, and are complete or absent."""

import gzip
import json
import resource
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NoReturn
from xml.sax.saxutils import escape

import numpy as np
import pytest
import zstandard
from tests.packages import require_packages

from allyouneed.config import presets
from allyouneed.config.run import DataConfig
from allyouneed.data.corpus import CleaningReport, Pair
from allyouneed.data.corpus_files import CorpusFiles
from allyouneed.data.lines import write_lines
from allyouneed.data.store import PairStore, Sentences
from allyouneed.data.tab_separated import Columns
from allyouneed.data.tokenizer import SMALLEST_VOCABULARY, Tokenizer
from allyouneed.errors import DataError, DiskError, ModelError, UsageError
from allyouneed.preparation import prepared_data, preparing
from allyouneed.preparation.inspecting import inspect
from allyouneed.preparation.prepared_data import PreparedData
from allyouneed.preparation.preparing import prepare
from allyouneed.storage.publish import publish_directory, read_manifest
from allyouneed.symbols import UNKNOWN
from allyouneed.tasks.parsing.treebank import TreeFiles
from allyouneed.tasks.task import SOURCE_TOKENIZER, TARGET_TOKENIZER

SOURCES = ["Ein Hund rennt.", "Zwei Hunde rennen.", "Ein\u2028Hund \U0001f415 bellt.", "Der </s> Hund <pad>"]
TARGETS = ["A dog runs.", "Two dogs run.", "A\u2028dog \U0001f415 barks.", "The </s> dog <unk>"]
BYTES = DataConfig(tokenizer="byte")


@pytest.fixture
def files(tmp_path: Path) -> CorpusFiles:
    return write_corpus(tmp_path, "train", SOURCES, TARGETS)


def write_corpus(folder: Path, name: str, sources: list[str], targets: list[str]) -> CorpusFiles:
    write_lines(folder / f"{name}.de", sources)
    write_lines(folder / f"{name}.en", targets)
    return CorpusFiles(folder / f"{name}.de", folder / f"{name}.en")


def contents(directory: Path) -> dict[str, bytes]:
    return {
        path.relative_to(directory).as_posix(): path.read_bytes()
        for path in directory.rglob("*")
        if path.is_file()
    }


def without_names(directory: Path) -> dict[str, bytes]:
    """All that does not depend on what the files were called."""
    return {
        name: content
        for name, content in contents(directory).items()
        if name not in ("report.json", "MANIFEST.json")
    }


def decoded(store: PairStore, directory: Path) -> list[tuple[str, str]]:
    source, target = (Tokenizer.load(directory / name) for name in (SOURCE_TOKENIZER, TARGET_TOKENIZER))
    return [
        (source.decode(store.source.sentence(i).tolist()), target.decode(store.target.sentence(i).tolist()))
        for i in range(store.num_pairs)
    ]


@pytest.mark.parametrize("joint_vocabulary", [True, False])
@pytest.mark.parametrize("tokenizer", ["bpe", "wordpiece", "byte"])
def test_the_ids_of_each_pair_decode_to_its_line_of_text(
    tmp_path: Path, files: CorpusFiles, tokenizer: str, joint_vocabulary: bool
) -> None:
    config = DataConfig.checked(tokenizer=tokenizer, vocab_size=265, joint_vocabulary=joint_vocabulary)
    prepared = prepare(tmp_path / "data", files, files, config)
    for part, store in (("train", prepared.train), ("valid", prepared.valid)):
        assert store is not None
        texts = list(zip(prepared.lines(part, "source"), prepared.lines(part, "target"), strict=True))
        assert texts == list(zip(SOURCES, TARGETS, strict=True))
        assert decoded(store, prepared.directory) == texts


@pytest.mark.parametrize("joint_vocabulary", [True, False])
def test_sentencepiece_is_learned_and_read_again(tmp_path: Path, joint_vocabulary: bool) -> None:
    require_packages("sentencepiece")
    words = ["sun", "moon", "star", "tree", "river", "stone", "bird", "fish", "wolf", "bear"]
    sources = [f"{first} sees {second}" for first in words for second in words]
    targets = [f"{first[::-1]} {second[::-1]} o" for first in words for second in words]
    files = write_corpus(tmp_path, "words", sources, targets)
    config = DataConfig(tokenizer="sentencepiece", vocab_size=285, joint_vocabulary=joint_vocabulary)
    prepared = prepare(tmp_path / "data", files, config=config)
    assert (prepared.source_vocab_size, prepared.target_vocab_size) == (285, 285)
    assert (len(set(prepared.tokenizers.values())) == 1) == joint_vocabulary
    assert decoded(prepared.train, prepared.directory) == list(zip(sources, targets, strict=True))


def test_text_that_looks_like_control_symbols_has_no_control_ids(tmp_path: Path, files: CorpusFiles) -> None:
    prepared = prepare(tmp_path / "data", files, config=DataConfig(vocab_size=270))
    assert prepared.train.source.gather([3]).min() > UNKNOWN
    assert prepared.train.target.gather([3]).min() > UNKNOWN


@pytest.mark.parametrize("joint_vocabulary", [True, False])
def test_both_languages_have_one_vocabulary_or_each_its_own(
    tmp_path: Path, files: CorpusFiles, joint_vocabulary: bool
) -> None:
    config = DataConfig(vocab_size=265, joint_vocabulary=joint_vocabulary)
    prepared = prepare(tmp_path / "data", files, config=config)
    assert (prepared.source_vocab_size, prepared.target_vocab_size) == (265, 265)
    assert (len(set(prepared.tokenizers.values())) == 1) == joint_vocabulary


LONG, WORD = "ab " * 40, "x" * 30
DROPPED = [
    ("", "b", "empty source"),
    ("a", "\u3000\u200b", "empty target"),
    ("a" * 10_001, "b" * 10_001, "too many characters"),
    ("a " * 1_001, "b " * 1_001, "too many words"),
    ("a" * 91, "b" * 10, "lengths in characters too different"),
    ("a" * 101, "b" * 101, "too many tokens"),
    ("a" * 21, "b" * 4, "lengths in tokens too different"),
    ("a" * 42, "b" * 10, "lengths in tokens too different"),
]
KEPT = [("a" * 100, "b" * 100), ("a" * 20, "b"), ("a" * 40, "b" * 10), ("ä" * 10, "b" * 20)]


def test_the_report_tells_how_many_pairs_were_dropped_why_and_where_and_adds_up(tmp_path: Path) -> None:
    pairs = [*[(source, target) for source, target, _ in DROPPED], *KEPT]
    train = write_corpus(tmp_path, "train", *map(list, zip(*pairs, strict=True)))
    valid = write_corpus(tmp_path, "valid", ["a", ""], ["b", "b"])
    said: list[str] = []
    config = DataConfig(tokenizer="byte", max_tokens=100, max_length_ratio=4.0)
    prepared = prepare(tmp_path / "data", train, valid, config, say=said.append)
    report = json.loads((tmp_path / "data" / "report.json").read_bytes())
    assert prepared.lines("train", "source") == [source for source, _ in KEPT]
    assert report["train"]["num_read"] == len(pairs)
    assert report["train"]["num_kept"] == len(KEPT) == prepared.train.num_pairs
    assert report["train"]["num_dropped"] == len(DROPPED)
    expected: dict[str, list[str]] = {}
    for number, (*_, reason) in enumerate(DROPPED, start=1):
        expected.setdefault(reason, []).append(f"{tmp_path / 'train.de'}:{number}")
    assert {reason: dropped["examples"] for reason, dropped in report["train"]["dropped"].items()} == expected
    assert all(
        dropped["num_pairs"] == len(dropped["examples"]) for dropped in report["train"]["dropped"].values()
    )
    assert (report["valid"]["num_read"], report["valid"]["num_kept"]) == (2, 1)
    assert "train: 12 pairs read, 4 kept, 8 dropped" in said
    assert f"valid:   1 dropped: empty source ({tmp_path / 'valid.de'}:2)" in said


def test_line_numbers_count_over_all_files_dropped_pairs_included(tmp_path: Path) -> None:
    first = write_corpus(tmp_path, "first", ["a", "", "c"], ["A", "B", "C"])
    second = write_corpus(tmp_path, "second", ["d", "e"], ["", "E"])
    write_lines(tmp_path / "third.tsv", ["f\tF", "g\tG\tignored"])
    files = CorpusFiles(
        [str(first.sources), str(second.sources)],
        [str(first.targets), str(second.targets)],
        tmp_path / "third.tsv",
    )
    prepared = prepare(tmp_path / "data", files, config=BYTES)
    assert prepared.lines("train", "source") == ["a", "c", "e", "f", "g"]
    assert prepared.lines("train", "target") == ["A", "C", "E", "F", "G"]
    assert prepared.train.line_numbers.tolist() == [1, 3, 5, 6, 7]


def test_line_numbers_stay_right_past_what_is_encoded_at_once(tmp_path: Path) -> None:
    sources = ["" if number % 7 == 0 else str(number) for number in range(1, 10_001)]
    files = write_corpus(tmp_path, "train", sources, ["x"] * len(sources))
    prepared = prepare(tmp_path / "data", files, config=BYTES)
    assert prepared.lines("train", "source") == [str(n) for n in prepared.train.line_numbers]
    assert prepared.train.num_pairs == sum(map(bool, sources))


def as_bytes(lines: Iterable[str]) -> bytes:
    return b"".join(f"{line}\n".encode() for line in lines)


def as_tmx(sources: Iterable[str], targets: Iterable[str]) -> bytes:
    """A translation memory whose units stand on the lines of their pairs."""
    units = (
        f"<tu><tuv xml:lang='DE'><seg>{escape(source)}</seg></tuv>"
        f"<tuv xml:lang='en-US'><seg>{escape(target)}</seg></tuv></tu>"
        for source, target in zip(sources, targets, strict=True)
    )
    return b"<tmx version='1.4'><body>" + as_bytes(units) + b"</body></tmx>\n"


@pytest.mark.parametrize("form", ["gz", "zst", "tsv", "tsv.gz", "tmx", "crlf"])
def test_compressed_and_other_text_gives_the_same_data_as_plain_text(
    tmp_path: Path, files: CorpusFiles, form: str
) -> None:
    config = DataConfig(vocab_size=270)
    plain = prepare(tmp_path / "plain", files, config=config).directory
    sources, targets = as_bytes(SOURCES), as_bytes(TARGETS)
    pairs = as_bytes(f"{source}\t{target}" for source, target in zip(SOURCES, TARGETS, strict=True))
    zstd = zstandard.ZstdCompressor().compress
    written = {
        "gz": {"a.gz": gzip.compress(sources), "b.gz": gzip.compress(targets)},
        "zst": {"a.zst": zstd(sources), "b.zst": zstd(targets)},
        "tsv": {"a.tsv": pairs},
        "tsv.gz": {"a.tsv.gz": gzip.compress(pairs)},
        "tmx": {"a.tmx": as_tmx(SOURCES, TARGETS)},
        "crlf": {"a": sources.replace(b"\n", b"\r\n"), "b": b"\xef\xbb\xbf" + targets},
    }[form]
    for name, content in written.items():
        (tmp_path / name).write_bytes(content)
    paths = [tmp_path / name for name in written]
    languages: dict[str, Any] = {"source_language": "de", "target_language": "en"}
    other = CorpusFiles(*paths) if len(paths) == 2 else CorpusFiles(pairs=paths, **languages)
    again = prepare(tmp_path / "other", other, config=config).directory
    assert without_names(again) == without_names(plain)


def test_the_same_text_gives_the_same_files_to_the_last_byte(tmp_path: Path, files: CorpusFiles) -> None:
    config = DataConfig(vocab_size=270)
    first, second = (prepare(tmp_path / name, files, files, config).directory for name in "ab")
    assert contents(first) == contents(second)


def test_a_path_may_be_a_string_and_one_file_may_stand_for_a_list(tmp_path: Path, files: CorpusFiles) -> None:
    one = CorpusFiles(str(files.sources), [str(files.targets)])
    prepared = prepare(str(tmp_path / "data"), one, config=BYTES)
    assert PreparedData(str(tmp_path / "data")).train.num_pairs == prepared.train.num_pairs == len(SOURCES)


def test_every_flipped_bit_is_seen_and_its_file_named(tmp_path: Path, files: CorpusFiles) -> None:
    directory = prepare(tmp_path / "data", files, files, BYTES).directory
    draw = np.random.default_rng(1)
    for name, content in contents(directory).items():
        damaged = bytearray(content)
        damaged[draw.integers(len(damaged))] ^= 1 << draw.integers(8)
        (directory / name).write_bytes(damaged)
        with pytest.raises(ModelError, match=rf"{name}: (is damaged|format)"):
            read_everything(directory)
        (directory / name).write_bytes(content)
    assert read_everything(directory).train.num_pairs == len(SOURCES)


def read_everything(directory: Path) -> PreparedData:
    data = PreparedData(directory)
    for part, store in (("train", data.train), ("valid", data.valid)):
        assert store is not None
        assert store.source.sentence(0).size
        assert store.target.sentence(0).size
        assert store.line_numbers.size
        assert data.lines(part, "source")
        assert data.lines(part, "target")
    return data


@pytest.mark.parametrize(
    ("name", "read"),
    [
        ("train/source-00000.bin", lambda data: data.train.source.sentence(3)),
        ("train/target-00000.bin", lambda data: data.train.target.gather([0, 1])),
        ("train/target-00000.bin", lambda data: data.train.target.counts(300)),
        ("train/line_numbers.bin", lambda data: data.train.line_numbers[0]),
        ("text/train.target", lambda data: data.lines("train", "target")),
    ],
)
def test_what_is_large_is_checked_when_it_is_first_read(
    tmp_path: Path,
    files: CorpusFiles,
    name: str,
    read: Callable[[PreparedData], object],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(prepared_data, "_LARGE_BYTES", 1)
    directory = prepare(tmp_path / "data", files, config=BYTES).directory
    path = directory / name
    sound = PreparedData(directory)
    read(sound)
    content = path.read_bytes()
    path.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    damaged = PreparedData(directory)
    for _ in range(2):
        with pytest.raises(ModelError, match=f"{name}: is damaged"):
            read(damaged)
    path.write_bytes(content[:-1])
    with pytest.raises(ModelError, match=rf"{name}: has {len(content) - 1} bytes"):
        PreparedData(directory)


def test_a_file_that_is_missing_is_told_before_anything_is_read(tmp_path: Path, files: CorpusFiles) -> None:
    (tmp_path / "train.de").write_bytes(b"\xff\n")
    with pytest.raises(DataError, match=r"valid\.de: no such file"):
        prepare(tmp_path / "data", files, CorpusFiles(tmp_path / "valid.de", tmp_path / "train.en"))


def test_no_file_at_all_is_a_usage_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no training text: give source and target, or pairs"):
        prepare(tmp_path / "data", CorpusFiles())


def test_a_part_of_which_no_pair_is_left_is_an_error(tmp_path: Path, files: CorpusFiles) -> None:
    with pytest.raises(DataError, match="valid: 0 of 4 pairs are left"):
        prepare(
            tmp_path / "data",
            write_corpus(tmp_path, "short", ["a"], ["b"]),
            files,
            BYTES.replace(max_tokens=3),
        )
    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize("tokenizer", ["bpe", "wordpiece"])
def test_a_vocabulary_too_large_for_the_text_is_refused_with_the_largest_possible(
    tmp_path: Path, files: CorpusFiles, tokenizer: str
) -> None:
    config = DataConfig.checked(tokenizer=tokenizer, vocab_size=5_000)
    with pytest.raises(UsageError, match=r"use vocab_size (\d+) or less") as caught:
        prepare(tmp_path / "data", files, config=config)
    largest = int(caught.value.messages[0].split()[-3])
    assert not (tmp_path / "data").exists()
    prepared = prepare(tmp_path / "data", files, config=config.replace(vocab_size=largest))
    assert prepared.source_vocab_size == largest > SMALLEST_VOCABULARY


@pytest.mark.parametrize("changes", [{}, {"vocab_sample_bytes": 0}, {"joint_vocabulary": False}])
@pytest.mark.parametrize("tokenizer", ["bpe", "sentencepiece", "byte"])
def test_text_of_which_cleaning_leaves_nothing_is_an_error_with_the_reasons(
    tmp_path: Path, tokenizer: str, changes: dict[str, object]
) -> None:
    file = tmp_path / "scored.tsv"
    write_lines(file, ["a\tb\t0.1", "c\td\t0.2", "\te\t0.9"])
    files = CorpusFiles(pairs=file, columns=Columns(score=3, min_score=0.5))
    said: list[str] = []
    config = DataConfig.checked(tokenizer=tokenizer, vocab_size=2_000, **changes)
    with pytest.raises(DataError, match=r"^train: 0 of 3 pairs are left; see the reasons above$"):
        prepare(tmp_path / "data", files, config=config, say=said.append)
    assert said == [
        f"train: {file}: 3 lines",
        "train: 3 pairs read, 0 kept, 3 dropped",
        f"train:   2 dropped: score too low ({file}:1, {file}:2)",
        f"train:   1 dropped: empty source ({file}:3)",
    ]
    assert not (tmp_path / "data").exists()


def test_sub_words_are_not_learned_from_files_of_weight_0(tmp_path: Path, files: CorpusFiles) -> None:
    other = write_corpus(tmp_path, "other", ["zz zz zz zz"] * 9, ["yy yy yy yy"] * 9)
    write_lines(tmp_path / "a.tsv", ["xx xx\tww ww"] * 9)
    config = DataConfig(vocab_size=265)
    plain = prepare(tmp_path / "plain", files, config=config)
    more = CorpusFiles(
        [str(other.sources), str(files.sources)],
        [str(other.targets), str(files.targets)],
        tmp_path / "a.tsv",
        weights=[0, 1, 0],
    )
    weighted = prepare(tmp_path / "weighted", more, config=config)
    assert weighted.tokenizers == plain.tokenizers
    assert weighted.lines("train", "source") == SOURCES
    assert weighted.report("train")["num_read"] == len(SOURCES) + 18
    told = prepare(tmp_path / "told", replace(more, weights=[1, 1, 1]), config=config)
    assert told.tokenizers != plain.tokenizers


def test_a_source_with_two_translations_may_have_one_weight_or_two_names(
    tmp_path: Path, files: CorpusFiles
) -> None:
    write_lines(tmp_path / "other.en", [f"{target} too" for target in TARGETS])
    targets = [str(files.targets), str(tmp_path / "other.en")]
    twice = CorpusFiles([str(files.sources)] * 2, targets, weights=[2, 2])
    assert prepare(tmp_path / "twice", twice, config=BYTES).train.num_pairs == 16
    with pytest.raises(UsageError, match=r"train\.de: is given twice, with the weights 2 and 3; .*ln -s"):
        prepare(tmp_path / "data", replace(twice, weights=[2, 3]), config=BYTES)
    (tmp_path / "again.de").symlink_to(str(files.sources))
    linked = replace(twice, sources=[str(files.sources), str(tmp_path / "again.de")], weights=[2, 3])
    assert prepare(tmp_path / "linked", linked, config=BYTES).train.num_pairs == 20


def test_text_that_begins_with_a_byte_order_mark_stays_as_its_ids_say(tmp_path: Path) -> None:
    files = write_corpus(tmp_path, "marked", ["", "\ufeffHund", "\ufeffKatze"], ["x", "\ufeffdog", "cat"])
    data = prepare(tmp_path / "data", files, files, BYTES)
    for part, store in (("train", data.train), ("valid", data.valid)):
        assert store is not None
        texts = list(zip(data.lines(part, "source"), data.lines(part, "target"), strict=True))
        assert texts == [("\ufeffHund", "\ufeffdog"), ("\ufeffKatze", "cat")]
        assert decoded(store, data.directory) == texts
    found = inspect(data)
    assert (found.longest[1].source, found.longest[1].target) == ("\ufeffHund", "\ufeffdog")
    assert found.source.num_characters == len("\ufeffHund\ufeffKatze")


def test_trees_that_are_too_long_shape_no_vocabulary(tmp_path: Path) -> None:
    deep = "(S " + "(NP (NN wolf) " * 3_000 + "(NN bear)" + ")" * 3_001
    write_lines(tmp_path / "trees.mrg", ["(S (NP (NN wolf)) (VP (VB sees)))"] * 9)
    write_lines(tmp_path / "deep.mrg", [deep])
    config = presets.parsing_tiny().data
    plain = prepare(tmp_path / "plain", TreeFiles(tmp_path / "trees.mrg"), config=config)
    files = TreeFiles([tmp_path / "trees.mrg", tmp_path / "deep.mrg"])
    deeper = prepare(tmp_path / "deeper", files, config=config)
    assert deeper.report("train")["dropped"]["too many tokens"]["num_pairs"] == 1
    assert deeper.target_vocab_size == plain.target_vocab_size
    assert deeper.tokenizers[TARGET_TOKENIZER] == plain.tokenizers[TARGET_TOKENIZER]


@dataclass(frozen=True)
class Interrupted(CorpusFiles):
    """A corpus at whose third pair the user presses Ctrl-C."""

    def read(self, report: CleaningReport) -> Iterator[Pair]:
        pairs = super().read(report)
        return (pair if pair.line_number < 3 else interrupt() for pair in pairs)


def interrupt(*_: object) -> NoReturn:
    raise KeyboardInterrupt


def test_an_interrupt_while_learning_sub_words_leaves_nothing_behind(
    tmp_path: Path, files: CorpusFiles
) -> None:
    before = contents(tmp_path)
    with pytest.raises(KeyboardInterrupt):
        prepare(tmp_path / "data", Interrupted(files.sources, files.targets))
    assert contents(tmp_path) == before
    assert [path.name for path in tmp_path.iterdir() if path.is_dir()] == []


def test_an_interrupt_after_writing_leaves_nothing_behind(tmp_path: Path, files: CorpusFiles) -> None:
    with pytest.raises(KeyboardInterrupt):
        prepare(tmp_path / "data", files, config=BYTES, say=interrupt)
    assert [path.name for path in tmp_path.iterdir() if path.is_dir()] == []


@contextmanager
def files_of_at_most(num_bytes: int) -> Iterator[None]:
    """The system refuses to let any file grow larger, as a quota does."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (num_bytes, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


def test_a_full_disk_leaves_nothing_behind_and_tells_what_is_free(tmp_path: Path) -> None:
    files = write_corpus(tmp_path, "train", [f"{n:05}" * 20 for n in range(5_000)], ["b" * 100] * 5_000)
    with files_of_at_most(300_000), pytest.raises(DiskError, match=r"File too large; .* bytes are free"):
        prepare(tmp_path / "data", files, config=BYTES)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["train.de", "train.en"]
    assert prepare(tmp_path / "data", files, config=BYTES).train.num_pairs == 5_000


def test_data_with_settings_of_another_version_are_refused(toy_data: Path, tmp_path: Path) -> None:
    changed = {**read_manifest(toy_data)["config"], "brackets_of_old": "round"}
    with publish_directory(tmp_path / "data", "data", {"config": changed}) as directory:
        shutil.copytree(
            toy_data, directory, dirs_exist_ok=True, ignore=shutil.ignore_patterns("MANIFEST.json")
        )
    with pytest.raises(ModelError, match=r"brackets_of_old.*prepare the data again"):
        PreparedData(tmp_path / "data")


def test_a_vocabulary_is_learned_from_a_sample_of_a_corpus_with_many_words_and_a_notice_says_so(
    tmp_path: Path,
) -> None:
    draw = np.random.default_rng(1)
    words = ["".join(map(chr, letters)) for letters in draw.integers(97, 123, (8_000, 6))]
    lines = [" ".join(words[begin : begin + 4]) for begin in range(0, len(words), 4)]
    files = write_corpus(tmp_path, "train", lines, lines)
    said: list[str] = []
    config = DataConfig(vocab_size=300, vocab_sample_bytes=14_000)
    sampled = prepare(tmp_path / "sampled", files, config=config, say=said.append)
    assert said[0] == (
        "train: vocabulary learned from a sample of 500 of 2,000 pairs, which has 14,000 bytes of distinct "
        "words; vocab_sample_bytes changes that, 0 takes all"
    )
    assert sampled.lines("train", "source") == lines
    assert PreparedData(sampled.directory).config.vocab_sample_bytes == 14_000


def test_where_the_sample_is_too_small_the_message_names_its_option(tmp_path: Path) -> None:
    lines = ["\N{CJK UNIFIED IDEOGRAPH-65E5}\N{CJK UNIFIED IDEOGRAPH-672C}" * 20 + str(n) for n in range(300)]
    files = write_corpus(tmp_path, "train", lines, lines)
    config = DataConfig(vocab_size=300, vocab_sample_bytes=100)  # less than one sentence, which has no spaces
    with pytest.raises(UsageError, match=r"use vocab_size 261 or less, or a larger vocab_sample_bytes$"):
        prepare(tmp_path / "data", files, config=config)
    with pytest.raises(UsageError, match=r"use vocab_size 261 or more$"):
        prepare(tmp_path / "data", files, config=config.replace(vocab_size=260))
    with pytest.raises(UsageError, match=r"use vocab_size [0-9]+ or less$"):
        prepare(tmp_path / "data", files, config=DataConfig(vocab_size=9_000))


@pytest.mark.parametrize("tokenizer", ["bpe", "wordpiece"])
def test_a_corpus_within_the_bound_has_the_vocabulary_of_all_of_its_text(
    tmp_path: Path, files: CorpusFiles, tokenizer: str
) -> None:
    """Promise: Preparation."""
    config = DataConfig.checked(tokenizer=tokenizer, vocab_size=270)
    said: list[str] = []
    of_all = prepare(tmp_path / "all", files, config=config.replace(vocab_sample_bytes=0))
    bounded = prepare(tmp_path / "bounded", files, config=config, say=said.append)
    assert without_names(bounded.directory) == without_names(of_all.directory)
    assert not any("sample" in line for line in said)


def test_long_pairs_are_encoded_a_few_at_a_time(
    tmp_path: Path, files: CorpusFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Promise: Preparation."""
    encode, characters = Tokenizer.encode_corpus, []

    def watched(self: Tokenizer, texts: Sequence[str]) -> Sentences:
        characters.append(sum(map(len, texts)))
        return encode(self, texts)

    monkeypatch.setattr(Tokenizer, "encode_corpus", watched)
    files = write_corpus(tmp_path, "long", [f"{n} " * 900 for n in range(1_000)], ["x" * 4_000] * 1_000)
    prepared = prepare(tmp_path / "data", files, config=BYTES.replace(max_tokens=10_000))
    assert prepared.train.num_pairs == 1_000
    assert prepared.lines("train", "source") == [f"{n} " * 900 for n in range(1_000)]
    assert sum(characters[::2]) == sum(len(f"{n} " * 900) for n in range(1_000))
    assert max(characters) <= 1_100_000


def drop_a_line(data: Path) -> None:
    path = data / "text" / "valid.source"
    path.write_bytes(path.read_bytes().partition(b"\n")[2])


def store_an_unknown_id(data: Path) -> None:
    path = data / "train" / "target-00000.bin"
    path.write_bytes(b"\xff\xff" + path.read_bytes()[2:])


def take_a_smaller_vocabulary(data: Path) -> None:
    Tokenizer.train([], "byte", 0).save(data / TARGET_TOKENIZER)


@pytest.mark.parametrize(
    ("facts", "change", "fault"),
    [
        ({}, drop_a_line, r"valid\.source: has 19 lines, not one for each pair"),
        ({}, store_an_unknown_id, r"target-00000\.bin: holds ids from \d+ to 65535, 3 to 289 are possible"),
        ({}, take_a_smaller_vocabulary, r"target_tokenizer\.json: has 261 entries, .* made for 290"),
        ({"source_vocab_size": 10**30}, None, r"source_tokenizer\.json: has 290 entries"),
        ({"source_vocab_size": "290"}, None, r"MANIFEST\.json: is damaged; prepare the data again"),
        ({"source_vocab_size": -290}, None, r"MANIFEST\.json: is damaged; prepare the data again"),
        ({"config": 3}, None, r"MANIFEST\.json: is damaged; prepare the data again"),
        ({"config": {"self": 1}}, None, r"MANIFEST\.json: is damaged; prepare the data again"),
        ({"facts": {}}, None, r"MANIFEST\.json: is damaged; prepare the data again"),
        ({"facts": ["a"]}, None, r"MANIFEST\.json: is damaged; prepare the data again"),
    ],
)
def test_data_from_a_stranger_that_are_sealed_but_inconsistent_are_refused(
    toy_data: Path,
    tmp_path: Path,
    facts: dict[str, object],
    change: Callable[[Path], None] | None,
    fault: str,
) -> None:
    """Promise: Contents."""
    manifest = read_manifest(toy_data)
    names = ("config", "source_vocab_size", "target_vocab_size", "facts")
    with publish_directory(
        tmp_path / "data", "data", {name: manifest[name] for name in names} | facts
    ) as aside:
        shutil.copytree(toy_data, aside, dirs_exist_ok=True, ignore=shutil.ignore_patterns("MANIFEST.json"))
        if change:
            change(aside)
    with pytest.raises(ModelError, match=fault):
        read_everything(tmp_path / "data")


def test_files_of_the_user_in_folders_of_his_own_are_no_matter(toy_data: Path, tmp_path: Path) -> None:
    data = shutil.copytree(toy_data, tmp_path / "data")
    (data / "cache").mkdir()
    (data / "cache" / "a.bin").write_bytes(b"mine")
    assert PreparedData(data).train.num_pairs == PreparedData(toy_data).train.num_pairs


def test_faults_of_validation_text_are_found_before_anything_is_learned(
    tmp_path: Path, files: CorpusFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(preparing, "_units", interrupt)
    damaged = write_corpus(tmp_path, "damaged", ["a dog"], ["ein Hund"])
    (tmp_path / "damaged.en").write_bytes(b"ein Hund \xff\n")
    with pytest.raises(DataError, match="invalid byte"):
        prepare(tmp_path / "data", files, damaged, BYTES)
    empty = write_corpus(tmp_path, "empty", ["", " "], ["ein Hund", "eine Katze"])
    with pytest.raises(DataError, match="valid: 0 of 2 pairs are left"):
        prepare(tmp_path / "data", files, empty, BYTES)


def test_trees_need_a_tokeniser_that_keeps_every_word(tmp_path: Path) -> None:
    config = presets.parsing_tiny().data.replace(tokenizer="sentencepiece")
    with pytest.raises(UsageError, match=r"^tokenizer sentencepiece: rewrites characters"):
        prepare(tmp_path / "data", TreeFiles(tmp_path / "none"), config=config)


@pytest.mark.parametrize("number", [-1, 1_025])
def test_an_impossible_number_of_processes_is_refused(number: int, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=f"^num_workers {number}: give 0 to 1,024$"):
        prepare(tmp_path / "data", CorpusFiles(pairs=tmp_path / "none"), config=BYTES, num_workers=number)


def test_text_that_sentencepiece_normalises_away_is_dropped_as_empty(tmp_path: Path) -> None:
    sources = [*(f"Hund {n} und Katze" for n in range(60)), "\u200e", "Hallo Welt"]
    targets = [*(f"dog {n} and cat" for n in range(60)), "hello world", "\u200e"]
    config = DataConfig(vocab_size=290, tokenizer="sentencepiece")
    data = prepare(tmp_path / "data", write_corpus(tmp_path, "text", sources, targets), CorpusFiles(), config)
    report = data.report("train")
    assert {reason: found["num_pairs"] for reason, found in report["dropped"].items()} == {
        "empty source": 1,
        "empty target": 1,
    }
    assert report["num_kept"] == data.train.num_pairs == 60
    assert min(data.train.source_lengths.min(), data.train.target_lengths.min()) > 0
