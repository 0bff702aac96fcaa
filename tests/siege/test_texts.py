"""Texts to translate, to score and to prepare: hostile bytes, long lines, tables, JSON, compressed files."""

import gzip
import json
import random
from pathlib import Path

import pytest
from tests.siege.cases import Case, Change, prepare, train, translate
from tests.siege.conftest import Record, Siege
from tests.siege.mutations import HOSTILE, damaged, mutate, reseal, with_odd_json

SCORE = ("score", "model", "--source", "text.en", "--target", "text.toy")
PARALLEL = ("--source", "text.en", "--target", "text.toy", "--vocab-size", "280")
LONG_REQUEST = json.dumps({"id": 1, "text": "sun moon " * 150_000}).encode() + b"\n"


def written(name: str, content: bytes) -> Change:
    """Let a file hold something else."""

    def change(folder: Path) -> None:
        (folder / name).write_bytes(content)

    return change


def table(name: str, content: bytes, *codes: int, says: str = "") -> Case:
    case = prepare(name, "--pairs", "pairs.tsv", "--vocab-size", "280", change=written("pairs.tsv", content))
    return case.ending(*codes, says=says)


PAIRS = b"".join(b"sun %d\tnus %d\n" % (number, number) for number in range(50))
PACKED = gzip.compress(PAIRS, mtime=0)

TABLE = [
    *(
        translate(f"text {name}", *options, stdin=text).ending(*codes)
        for name, options, text, codes in (
            ("of nothing", (), b"", (0,)),
            ("of line feeds", (), b"\n" * 1_000, (0,)),
            ("of carriage returns", (), b"\r" * 1_000, (0,)),
            ("of zeros", (), bytes(10_000), (0,)),
            ("of 0xff", (), b"\xff" * 1_000, (9,)),
            ("without a line feed at the end", (), b"sun\nmoon", (0,)),
            ("of 20,000 short lines", ("--beam-size", "1"), b"a\n" * 20_000, (0,)),
            ("of a line of 300,000 characters", ("--beam-size", "1"), b"x" * 300_000 + b"\nsun\n", (0,)),
            (
                "of a line of 300,000 characters, refused",
                ("--too-long", "error"),
                b"x" * 300_000 + b"\nsun\n",
                (9,),
            ),
            ("of a megabyte in UTF-16", ("--beam-size", "1"), "sun\n".encode("utf-16") * 50, (9,)),
            ("with marks", (), b"\xef\xbb\xbfsun\n\xef\xbb\xbf\n", (0,)),
            ("of combining marks", (), b"e" + b"\xcc\x81" * 5_000 + b"\n", (0,)),
            ("of control symbols", (), b"</s><s><pad><unk>\n", (0,)),
            ("of lone surrogates", (), b"\xed\xa0\x80\n", (9,)),
        )
    ),
    *(
        translate(f"request {name}", "--jsonl", "--beam-size", "1", stdin=line).ending(*codes)
        for name, line, codes in (
            ("of 300,000 tokens", LONG_REQUEST, (0, 9)),
            ("that is a list", b"[]\n", (9,)),
            ("that is no JSON", b"{\n", (9,)),
            ("with a number for a text", b'{"text": 1}\n', (9,)),
            ("with a lone surrogate", b'{"text": "\\ud800"}\n', (0, 9)),
            ("with an integer of 5,000 digits", b'{"text": "sun", "id": ' + b"9" * 5_000 + b"}\n", (0, 9)),
            ("with NaN", b'{"text": "sun", "id": NaN}\n', (0, 9)),
            ("nested", b'{"text": "sun", "id": ' + b"[" * 100_000 + b"]" * 100_000 + b"}\n", (9,)),
            ("with two texts", b'{"text": "sun", "text": "moon"}\n', (0, 9)),
            ("with a line feed", b'{"text": "sun\\nmoon", "id": "a\\nb"}\n', (0, 9)),
            (
                "with a prefix of its own",
                b'{"text": "sun", "target_prefix": "' + b"x" * 5_000 + b'"}\n',
                (0, 9),
            ),
        )
    ),
    table("a table without tabs", b"sun moon\n" * 50, 3),
    table("a table of tabs", b"\t\t\t\n" * 50, 2, 3),
    table("a table of nothing", b"", 3),
    table("a table of three columns", b"sun\tnus\tx\n" * 50, 0, 2, 3),
    table("a table that is no UTF-8", PAIRS + b"\xff\t\xff\n", 0, 3),
    table("a table of one long line", b"sun " * 500_000 + b"\tnus\n" + PAIRS, 0, 3),
    table("a table of zeros", bytes(100_000), 3),
    *(
        prepare(
            f"gzip {name}",
            "--pairs",
            "pairs.tsv.gz",
            "--vocab-size",
            "280",
            change=written("pairs.tsv.gz", packed),
        ).ending(*codes)
        for name, packed, codes in (
            ("of nothing", b"", (3,)),
            ("cut off", PACKED[:-20], (3,)),
            ("with a wrong sum", PACKED[:-8] + bytes(8), (3,)),
            ("that is plain text", PAIRS, (0, 3)),
            ("and garbage behind", PACKED + b"garbage", (0, 3)),
            ("twice", PACKED + PACKED, (0,)),
            ("of zeros", gzip.compress(bytes(20 << 20), mtime=0), (3,)),
        )
    ),
    prepare("parallel text of other lengths", *PARALLEL, change=written("text.toy", b"nus\n" * 7)).ending(3),
    prepare("parallel text that is not there", "--source", "nothing.en", "--target", "text.toy").ending(2, 3),
    prepare("parallel text in a folder", "--source", "data", "--target", "text.toy").ending(2, 3, 6),
    prepare("one side only", "--source", "text.en").ending(2, 3),
    prepare("nothing to prepare").ending(2, 3),
    prepare(
        "the same text twice", "--source", "text.en", "--target", "text.en", "--vocab-size", "280"
    ).ending(0, 3),
    Case("score of other lengths", SCORE, change=written("text.toy", b"nus\n" * 7)).ending(3, 9),
    Case("score of nothing", SCORE, change=written("text.en", b"")).ending(3, 9),
    Case(
        "evaluate nothing",
        ("evaluate", "--hypotheses", "text.en", "--reference", "text.toy"),
        change=written("text.en", b""),
    ).ending(3),
]


def fuzzed(number: int) -> Case:
    """A text, a table, requests or prepared data that are mutated, for a command that reads them."""
    draw = random.Random(f"texts-{number}")
    return draw.choice((_lines, _lines, _requests, _files, _files, _prepared))(draw, str(number))


def _lines(draw: random.Random, name: str) -> Case:
    pieces = [*HOSTILE[:-3], b"sun ", b"moon", b"\n", b"\n", b". ", b"!\n", "é日本語。".encode()]
    text = damaged(draw, b"".join(draw.choices(pieces, k=draw.randint(1, 30))))
    options = draw.choice(
        [(), ("--split-sentences",), ("--beam-size", "1"), ("--scores",), ("--too-long", "error")]
    )
    return translate(name, *options, stdin=text)


def _requests(draw: random.Random, name: str) -> Case:
    lines = []
    for line in range(draw.randint(1, 4)):
        content = json.dumps({"id": line, "text": "sun moon", "target_prefix": "nus"}).encode()
        content = draw.choice((with_odd_json, with_odd_json, damaged))(draw, content)
        lines.append(content.replace(b"\n", b" ") + b"\n")
    return translate(name, "--jsonl", "--beam-size", "1", stdin=b"".join(lines))


def _files(draw: random.Random, name: str) -> Case:
    files, arguments = draw.choice(
        [
            (("text.en", "text.toy"), prepare("", *PARALLEL).arguments),
            (("pairs.tsv",), prepare("", "--pairs", "pairs.tsv", "--tokenizer", "byte").arguments),
            (("pairs.tsv.gz",), prepare("", "--pairs", "pairs.tsv.gz", "--vocab-size", "280").arguments),
            (("text.en", "text.toy"), SCORE),
            (("text.en", "text.toy"), ("evaluate", "--hypotheses", "text.en", "--reference", "text.toy")),
        ]
    )

    def change(folder: Path) -> None:
        mutate(draw, folder / draw.choice(files))

    return Case(name, arguments, change=change, targets=("new",))


def _prepared(draw: random.Random, name: str) -> Case:
    def change(folder: Path) -> None:
        path = draw.choice(sorted(path for path in (folder / "data").rglob("*") if path.is_file()))
        mutate(draw, path)
        if path.name != "MANIFEST.json" and draw.random() < 0.7:
            reseal(folder / "data")

    arguments = draw.choice([train("", "--steps", "1").arguments, ("shortlist", "data", "--out", "new")])
    return Case(name, arguments, change=change, targets=("new",))


@pytest.mark.parametrize("count", [15, pytest.param(1_500, marks=pytest.mark.release)])
def test_texts_are_answered_line_by_line_or_refused_in_a_line(
    siege: Siege, count: int, record_property: Record
) -> None:
    """Promise: Siege."""
    siege.hold("texts", TABLE, fuzzed, count, record_property)
