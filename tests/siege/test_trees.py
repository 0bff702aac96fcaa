"""Trees to prepare and to score, and sentences to parse: brackets that do not fit, depths, labels."""

import random
from pathlib import Path

import pytest
from tests.siege.cases import Case, Change, parse, prepare
from tests.siege.conftest import Record, Siege
from tests.siege.mutations import HOSTILE, damaged, mutate, reseal

PREPARE = ("--task", "parsing", "--trees", "trees.mrg", "--vocab-size", "311")
EVALUATE = ("evaluate", "parser", "--trees", "trees.mrg")
GOOD = b"( (S (NP-SBJ (DT the) (NN sun)) (VP (VBZ sees) (NP (DT the) (NN moon))) (. .)))\n"


def trees(name: str, content: bytes, *codes: int) -> list[Case]:
    """Prepare such a treebank, and evaluate on it."""

    def change(folder: Path) -> None:
        (folder / "trees.mrg").write_bytes(content)

    return [
        prepare(f"treebank {name}", *PREPARE, change=change).ending(*codes),
        Case(f"gold trees {name}", EVALUATE, change=change).ending(*codes),
    ]


def deep(depth: int) -> bytes:
    return b"(S " * depth + b"(NN sun)" + b")" * depth + b"\n"


def manifested(name: str) -> Change:
    """Damage a file of the parser under a seal that holds."""

    def change(folder: Path) -> None:
        path = folder / "parser" / name
        path.write_bytes(path.read_bytes()[:-100])
        reseal(folder / "parser")

    return change


TABLE = [
    *trees("of nothing", b"", 3),
    *trees("of an empty tree", b"()\n" + GOOD * 5, 0, 2, 3),
    *trees("of brackets that do not close", b"(S (NP (NN sun)\n" + GOOD * 5, 0, 2, 3),
    *trees("of brackets that were not opened", b")))))\n" + GOOD * 5, 0, 2, 3),
    *trees("of 100,000 brackets", b"(" * 100_000, 3),
    *trees("of 100,000 levels", deep(100_000) + GOOD * 5, 0, 2, 3),
    *trees("of 900 levels", deep(900) + GOOD * 5, 0, 2, 3),
    *trees("of a label of a megabyte", b"(" + b"X" * 1_000_000 + b" (NN sun))\n" + GOOD * 5, 0, 2, 3),
    *trees("of a word of 100,000 characters", b"(S (NN " + b"x" * 100_000 + b"))\n" + GOOD * 5, 0, 2, 3),
    *trees("that are no UTF-8", b"(S (NN \xff))\n" + GOOD * 5, 0, 2, 3),
    *trees("of zeros", bytes(10_000), 3),
    *trees("that are text", b"the sun sees the moon\n", 3),
    *trees("of one tree", GOOD, 0, 2, 3),
    *(
        parse(f"sentence {name}", *options, stdin=text).ending(*codes)
        for name, options, text, codes in (
            ("of nothing", (), b"", (0,)),
            ("of brackets", (), b"((( )))\n(S\n-LRB-\n", (0,)),
            ("of 5,000 words", ("--beam-size", "1"), b"the sun " * 2_500 + b"\n", (0, 9)),
            ("of 100,000 characters", ("--beam-size", "1"), b"x" * 100_000 + b"\nsun\n", (0, 9)),
            ("that is no UTF-8", (), b"\xff\nsun\n", (9,)),
            ("of blanks", (), b" \t \n\xe3\x80\x80\n", (0,)),
            ("of control characters", (), b"\x1b[2J \x00 \x07\n", (0, 9)),
            ("of words with blanks of other kinds", ("--tokenized",), "a\u00a0b c\u2028d\n".encode(), (0,)),
        )
    ),
    parse("a model of translation", model="model").ending(4, says="translat"),
    parse("a parser and a translator", "model").ending(4),
    *(
        parse(f"a parser with half a {name}", change=manifested(name)).ending(4)
        for name in ("source_tokenizer.json", "target_tokenizer.json", "model.safetensors")
    ),
    Case("gold trees of a translator", ("evaluate", "model", "--trees", "trees.mrg")).ending(2, 4),
    prepare("trees and pairs", *PREPARE, "--pairs", "pairs.tsv").ending(2),
    prepare("trees without the task", "--trees", "trees.mrg").ending(2),
]


def fuzzed(number: int) -> Case:
    """Mutated trees for a command that reads them, hostile sentences, or a parser that is mutated."""
    draw = random.Random(f"trees-{number}")
    kind = draw.random()
    if kind < 0.5:
        arguments = draw.choice([prepare("", *PREPARE).arguments, EVALUATE])
        return Case(
            str(number), arguments, targets=("new",), change=lambda folder: mutate(draw, folder / "trees.mrg")
        )
    if kind < 0.8:
        pieces = [*HOSTILE[:-3], b"the ", b"sun ", b"\n", b"-LRB- ", b". "]
        text = damaged(draw, b"".join(draw.choices(pieces, k=draw.randint(1, 20))))
        options = draw.choice([(), ("--tokenized",), ("--unconstrained",), ("--beam-size", "1")])
        return parse(str(number), *options, stdin=text)

    def change(folder: Path) -> None:
        mutate(draw, folder / "parser" / draw.choice(["source_tokenizer.json", "target_tokenizer.json"]))
        reseal(folder / "parser")

    return parse(str(number), change=change)


@pytest.mark.parametrize("count", [8, pytest.param(1_200, marks=pytest.mark.release)])
def test_trees_are_read_or_refused_in_a_line(siege: Siege, count: int, record_property: Record) -> None:
    """Promise: Siege."""
    siege.hold("trees", TABLE, fuzzed, count, record_property)
