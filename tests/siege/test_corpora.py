"""Corpora to prepare: files that are damaged, compressed, too long or of another kind, with all options."""

import gzip
import random
from collections.abc import Sequence
from pathlib import Path

import pytest
from tests.siege.cases import Case, prepare
from tests.siege.conftest import Record, Siege
from tests.siege.mutations import HOSTILE, damaged

BYTES = ("--tokenizer", "byte")
PARALLEL = ("--source", "text.en", "--target", "text.toy")
PAIRS = ("--pairs", "pairs.tsv")
SCORED = (
    *("--columns", "2", "1", "--score-column", "3", "--min-score", "0.5"),
    *("--on-bad-line", "drop", "--max-bad-share", "1"),
)
CODES = (0, 2, 3)


def pairs(name: str, content: bytes, options: Sequence[str], *codes: int) -> Case:
    """Prepare such a file of pairs."""

    def change(folder: Path) -> None:
        (folder / "pairs.tsv").write_bytes(content)

    return prepare(name, *PAIRS, *BYTES, *options, change=change).ending(*codes)


GOOD = b"".join(b"dog %d\tHund %d\t0.%d\n" % (n, n, n % 10) for n in range(50))
TABLE = [
    pairs("scores", GOOD, SCORED, 0),
    pairs("scores that are no numbers", GOOD.replace(b"0.7", b"x"), SCORED, 0),
    pairs("scores of nothing", GOOD.replace(b"0.", b""), SCORED[:-4], 0),
    pairs("no score is enough", GOOD, (*SCORED[:5], "--min-score", "2"), 3),
    pairs("one pair again and again", b"dog\tHund\n" * 5_000, (), 0),
    pairs("one pair again and again, kept", b"dog\tHund\n" * 5_000, ("--keep-repeats",), 0),
    pairs("a weight of nothing", GOOD, ("--weights", "0"), 3),
    pairs("a weight of a thousand", GOOD, ("--weights", "1000"), 0),
    pairs("weights that are none", GOOD, ("--weights", "nan"), 2),
    pairs("more bytes than may be", GOOD, ("--max-bytes", "100"), 3),
    pairs("all bad", b"\xff\n" * 500, ("--on-bad-line", "drop", "--max-bad-share", "1"), 3),
    prepare("a corpus that is not there", "--corpus", "wmt14-en-de", "--from", ".").ending(3),
    prepare("a corpus that nobody knows", "--corpus", "wmt15", "--from", ".").ending(2),
    prepare("a folder without a corpus", *PAIRS, *BYTES, "--from", ".").ending(2),
]


def fuzzed(number: int) -> Case:
    """A damaged corpus, as parallel files, as pairs, or compressed, with options drawn for it."""
    draw = random.Random(f"corpora-{number}")
    form = draw.choice(["parallel", "pairs", "gz"])
    options = [*draw.choice([BYTES, ("--vocab-size", "280"), (*BYTES, "--workers", "0")])]
    for more in (
        ("--on-bad-line", "drop", "--max-bad-share", draw.choice(["0.5", "1"])),
        ("--drop-copies",),
        ("--keep-repeats",),
        ("--weights", draw.choice(["0.5", "3", "-1"])),
        ("--max-bytes", draw.choice(["1", "1000", "100000"])),
        ("--max-tokens", draw.choice(["1", "20"])),
        SCORED[:7] if form != "parallel" else (),
    ):
        if draw.random() < 0.25:
            options += more

    def spoil(path: Path) -> None:
        content = path.read_bytes()
        if draw.random() < 0.3:
            lines = content.split(b"\n")
            lines[draw.randrange(len(lines))] = b"".join(draw.choices(HOSTILE, k=draw.randint(1, 4)))
            content = b"\n".join(lines)
        path.write_bytes(damaged(draw, content))

    def change(folder: Path) -> None:
        if form == "parallel":
            spoil(folder / draw.choice(PARALLEL[1::2]))
        elif form == "pairs":
            spoil(folder / "pairs.tsv")
        elif draw.random() < 0.5:
            spoil(folder / "pairs.tsv.gz")
        else:
            spoil(folder / "pairs.tsv")
            (folder / "pairs.tsv.gz").write_bytes(gzip.compress((folder / "pairs.tsv").read_bytes(), mtime=0))

    files = {"parallel": PARALLEL, "pairs": PAIRS, "gz": ("--pairs", "pairs.tsv.gz")}[form]
    needs = ("pairs.tsv",) if form == "gz" else ()
    return prepare(str(number), *files, *options, change=change, needs=needs).ending(*CODES)


@pytest.mark.parametrize("count", [6, pytest.param(2_000, marks=pytest.mark.release)])
def test_corpora_are_prepared_or_refused_in_a_line(siege: Siege, count: int, record_property: Record) -> None:
    """Promise: Siege."""
    siege.hold("corpora", TABLE, fuzzed, count, record_property)
