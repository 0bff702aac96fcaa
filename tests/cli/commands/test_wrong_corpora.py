"""What is wrong with a corpus is told, or mended and told; nothing half-made stays."""

import gzip
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from allyouneed.data.tokenizer import Tokenizer
from allyouneed.preparation.prepared_data import PreparedData

RunCommand = Callable[..., tuple[int, bytes, str]]
LINES = [(f"the dog {number} runs", f"der Hund {number} rennt") for number in range(40)]
SPECIAL = "</s> <unk> <s> <pad> @@ \u2581 [UNK] \ue000", "\u2581\u2581 </s>@@ <0xFF>"


@dataclass
class Corpus:
    """Two good files, to be spoilt."""

    folder: Path

    @property
    def source(self) -> Path:
        return self.folder / "a.en"

    @property
    def target(self) -> Path:
        return self.folder / "a.de"

    def write(self, lines: list[tuple[str, str]], ends: tuple[str, str] = ("\n", "\n")) -> None:
        for path, texts, end in zip((self.source, self.target), zip(*lines, strict=True), ends, strict=True):
            path.write_bytes("".join(text + end for text in texts).encode())

    def with_a_pipe(self) -> None:
        self.source.unlink()
        os.mkfifo(self.source)

    def with_a_folder(self) -> None:
        self.source.unlink()
        self.source.mkdir()

    def with_one_file(self) -> None:
        self.target.unlink()
        self.target.hardlink_to(self.source)

    def replace(self, path: Path, number: int, line: bytes) -> None:
        lines = path.read_bytes().split(b"\n")
        lines[number - 1] = line
        path.write_bytes(b"\n".join(lines))


def bytes_of(text: str) -> Callable[[Corpus], None]:
    return lambda corpus: corpus.replace(corpus.target, 18, text.encode("latin-1"))


@pytest.fixture
def corpus(tmp_path: Path) -> Corpus:
    made = Corpus(tmp_path)
    made.write(LINES)
    return made


REFUSED: list[tuple[str, Callable[[Corpus], object], int, str]] = [
    (
        "a line is missing",
        lambda c: c.target.write_bytes(c.target.read_bytes().replace(b"der Hund 11 rennt\n", b"")),
        3,
        "has 40 lines, DIR/a.de has 39",
    ),
    ("not UTF-8", bytes_of("der H\xffnd"), 3, "DIR/a.de:18:6: invalid byte 0xFF"),
    ("UTF-16", lambda c: c.source.write_bytes("dog\n".encode("utf-16")), 3, "DIR/a.en:1:1: UTF-16"),
    ("NUL", bytes_of("der \0 Hund"), 3, "DIR/a.de:18:5: NUL character"),
    ("empty", lambda c: c.source.write_bytes(b""), 3, "DIR/a.en: is empty"),
    ("missing", lambda c: c.source.unlink(), 3, "DIR/a.en: no such file"),
    ("a folder", Corpus.with_a_folder, 3, "DIR/a.en: is a directory"),
    (
        "a pipe",
        Corpus.with_a_pipe,
        2,
        "DIR/a.en: is a pipe, but is needed twice",
    ),
    (
        "the same file",
        Corpus.with_one_file,
        3,
        "is both source and target",
    ),
    ("the output is there", lambda c: (c.folder / "data" / "mine").mkdir(parents=True), 2, "data"),
]


@pytest.mark.parametrize(
    ("spoil", "code", "message"), [row[1:] for row in REFUSED], ids=[row[0] for row in REFUSED]
)
def test_what_cannot_be_used_is_refused_and_leaves_nothing(
    corpus: Corpus,
    run_command: RunCommand,
    spoil: Callable[[Corpus], object],
    code: int,
    message: str,
) -> None:
    spoil(corpus)
    before = sorted(path for path in corpus.folder.rglob("*"))
    ended, out, err = prepare(run_command, corpus)
    assert (ended, out) == (code, b""), err
    assert message.replace("DIR", str(corpus.folder)) in err
    assert err.count("error[") == 1
    assert sorted(path for path in corpus.folder.rglob("*")) == before


KEPT: list[
    tuple[str, Callable[[Corpus], object], tuple[str, ...], list[tuple[str, str]], tuple[str, ...]]
] = [
    (
        "a byte order mark",
        lambda c: c.source.write_bytes(b"\xef\xbb\xbf" + c.source.read_bytes()),
        (),
        LINES,
        ("byte order mark removed",),
    ),
    (
        "carriage returns on one side",
        lambda c: c.write(LINES, ("\r\n", "\n")),
        (),
        LINES,
        ("40 carriage returns removed",),
    ),
    (
        "other line ends",
        lambda c: c.write([("a\u2028b\x0cc\x85d", "e\u2029f"), *LINES]),
        (),
        [("a\u2028b\x0cc\x85d", "e\u2029f"), *LINES],
        (),
    ),
    (
        "lines without text",
        lambda c: c.write([("", "x"), ("x", "\xa0\u200b "), *LINES]),
        (),
        LINES,
        ("1 dropped: empty source (DIR/a.en:1)", "1 dropped: empty target (DIR/a.en:2)"),
    ),
    (
        "a line of a megabyte",
        lambda c: c.write([*LINES, ("x" * 1_000_000, "y" * 1_000_000)]),
        (),
        LINES,
        ("1 dropped: too many characters (DIR/a.en:41)",),
    ),
    ("one pair", lambda c: c.write(LINES[:1]), (), LINES[:1], ("no validation data",)),
    ("text like symbols", lambda c: c.write([SPECIAL, *LINES]), (), [SPECIAL, *LINES], ()),
    (
        "gzip in two parts",
        lambda c: [
            path.write_bytes(b"".join(map(gzip.compress, path.read_bytes().partition(b"7"))))
            for path in zipped(c)
        ],
        (".gz",),
        LINES,
        (),
    ),
    (
        "not UTF-8, to be dropped",
        bytes_of("der H\xffnd"),
        ("", "--on-bad-line", "drop", "--max-bad-share", "0.03"),
        LINES[:17] + LINES[18:],
        ("1 dropped: unusable line (DIR/a.en:18)",),
    ),
    (
        "NUL, to be dropped",
        bytes_of("der \0 Hund"),
        ("", "--on-bad-line", "drop", "--max-bad-share", "0.03"),
        LINES[:17] + LINES[18:],
        ("1 dropped: unusable line (DIR/a.en:18)",),
    ),
]


@pytest.mark.parametrize(
    ("spoil", "options", "kept", "told"), [row[1:] for row in KEPT], ids=[row[0] for row in KEPT]
)
def test_what_can_be_used_is_kept_and_the_rest_is_told(
    corpus: Corpus,
    run_command: RunCommand,
    spoil: Callable[[Corpus], object],
    options: tuple[str, ...],
    kept: list[tuple[str, str]],
    told: tuple[str, ...],
) -> None:
    spoil(corpus)
    suffix, *rest = options or ("",)
    code, _, err = prepare(run_command, corpus, *rest, suffix=suffix)
    assert code == 0, err
    prepared = PreparedData(corpus.folder / "data")
    sides = [prepared.lines("train", side) for side in ("source", "target")]
    assert list(zip(*sides, strict=True)) == kept
    for units, store, lines in zip(
        prepared.units, (prepared.train.source, prepared.train.target), sides, strict=True
    ):
        assert isinstance(units, Tokenizer)
        assert [units.decode(store.sentence(index).tolist()) for index in range(len(lines))] == lines
    for message in told:
        assert message.replace("DIR", str(corpus.folder)) in err


def test_compressed_text_that_is_cut_off_says_where(corpus: Corpus, run_command: RunCommand) -> None:
    for path in zipped(corpus):
        path.write_bytes(gzip.compress(path.read_bytes()))
    cut = corpus.folder / "a.de.gz"
    cut.write_bytes(cut.read_bytes()[:-9])
    code, _, err = prepare(run_command, corpus, suffix=".gz")
    assert code == 3
    assert f"{cut}: compressed data damaged or cut off" in err
    assert not (corpus.folder / "data").exists()


def test_more_sub_words_than_the_text_has_are_refused_with_the_most(
    corpus: Corpus, run_command: RunCommand
) -> None:
    code, _, err = prepare(run_command, corpus, "--tokenizer", "bpe", "--vocab-size", "5000")
    assert code == 2
    assert "vocab-size" in err
    assert not (corpus.folder / "data").exists()


def test_a_small_file_that_expands_to_a_large_one_ends_at_the_bound(
    run_command: RunCommand, tmp_path: Path
) -> None:
    bomb = tmp_path / "pairs.tsv.gz"
    with gzip.open(bomb, "wb") as stream:
        for _ in range(64):
            stream.write(b"dog\tHund\n" * 100_000)  # 58 MB from a few kB
    options = "--pairs", bomb, "--tokenizer", "byte", "--max-bytes", "1000000"
    code, _, err = run_command("prepare", tmp_path / "data", *options)
    assert code == 3
    assert f"{bomb}: has more than --max-bytes = 1000000 of text, after line 1" in err
    assert [path.name for path in tmp_path.iterdir()] == ["pairs.tsv.gz"]
    with gzip.open(bomb, "wb") as stream:  # one long line
        for _ in range(70):
            stream.write(bytes(1 << 20))
    code, _, err = run_command("prepare", tmp_path / "data", *options)
    assert code == 3
    assert f"{bomb}: has more than --max-bytes = 1000000 of text, in its first lines; raise" in err
    (tmp_path / "few.tsv").write_bytes(b"dog\tHund\n")
    few = "--pairs", tmp_path / "few.tsv", "--tokenizer", "byte"
    assert run_command("prepare", tmp_path / "data", *few, "--max-bytes", "8")[0] == 3
    assert run_command("prepare", tmp_path / "data", *few, "--max-bytes", "9")[0] == 0


@pytest.mark.parametrize("step", ["_encode_training", "TrainingText"])
@pytest.mark.parametrize("part", ["training text", "validation text"])
@pytest.mark.parametrize("tokenizer", ["bpe", "byte"])
def test_a_file_that_changes_while_it_is_read_is_refused(
    corpus: Corpus,
    run_command: RunCommand,
    monkeypatch: pytest.MonkeyPatch,
    step: str,
    part: str,
    tokenizer: str,
) -> None:
    from allyouneed.preparation import preparing

    valid = corpus.folder / "valid.tsv"
    valid.write_bytes(b"dog\tHund\n")
    changed = corpus.source if part == "training text" else valid
    do = getattr(preparing, step)

    def change_first(*arguments: object) -> object:
        changed.write_bytes(changed.read_bytes().replace(b"dog", b"cat"))
        return do(*arguments)

    monkeypatch.setattr(preparing, step, change_first)
    options = ("--vocab-size", "280") if tokenizer == "bpe" else ()
    code, _, err = prepare(
        run_command, corpus, "--tokenizer", tokenizer, "--valid-pairs", str(valid), *options
    )
    assert code == 3
    assert f"{changed}: has changed while it was read; prepare again" in err
    assert not (corpus.folder / "data").exists()


def zipped(corpus: Corpus) -> list[Path]:
    """The two files under names of compressed ones, not compressed yet."""
    for path in (corpus.source, corpus.target):
        path.rename(f"{path}.gz")
    return [Path(f"{path}.gz") for path in (corpus.source, corpus.target)]


def prepare(
    run_command: RunCommand, corpus: Corpus, *options: str, suffix: str = ""
) -> tuple[int, bytes, str]:
    tokenizer = () if "--tokenizer" in options else ("--tokenizer", "byte")
    files = ("--source", f"{corpus.source}{suffix}", "--target", f"{corpus.target}{suffix}")
    return run_command("prepare", corpus.folder / "data", *files, *tokenizer, *options)
