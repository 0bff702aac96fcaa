"""Options with numbers that nobody needs, words in the place of numbers, and orders that mislead."""

import random
from itertools import pairwise

import pytest
from tests.siege.cases import Case, parse, train, translate
from tests.siege.conftest import Record, Siege

SCORE = ("score", "model", "--source", "text.en", "--target", "text.toy")
EVALUATE = ("evaluate", "model", "--source", "text.en", "--reference", "text.toy")
SEARCH = (
    *("--beam-size", "--length-penalty", "--length-normalization", "--coverage-penalty", "--min-length"),
    *("--max-length", "--max-extra-tokens", "--early-stopping", "--no-repeat-ngram-size", "--seed", "--mbr"),
    *("--repetition-penalty", "--sampling", "--temperature", "--top-k", "--top-p"),
)
COMPUTING = ("--precision", "--workers", "--threads", "--device")
OPTIONS: dict[tuple[str, ...], tuple[str, ...]] = {
    ("translate", "model"): (
        *SEARCH,
        *COMPUTING,
        *("--n-best", "--scores", "--alignments", "--jsonl", "--target-prefix", "--split-sentences"),
        *("--too-long", "--batch-tokens", "--batch-size", "--shortlist"),
    ),
    ("parse", "parser"): (
        *COMPUTING,
        *("--tokenized", "--scores", "--min-confidence", "--unconstrained", "--beam-size", "--batch-tokens"),
        *("--length-penalty", "--max-extra-tokens"),
    ),
    SCORE: (*COMPUTING, "--normalized", "--tokens", "--length-penalty", "--length-normalization"),
    EVALUATE: (*SEARCH, "--target-language", "--json", "--device", "--labels"),
    ("plan",): ("--vocab-size", "--length", "--tflops", "--json", "--preset", "--fidelity", "--all"),
    ("cost", "run"): ("--price-per-hour", "--tflops", "--json"),
    ("average", "run", "--out", "new"): ("--last",),
    ("shortlist", "data", "--out", "new"): ("--translations", "--frequent"),
    ("prepare", "new", "--pairs", "pairs.tsv"): (
        *("--tokenizer", "--vocab-size", "--separate-vocabularies", "--max-tokens", "--max-length-ratio"),
        *("--source-language", "--target-language", "--preset", "--task", "--tags", "--brackets"),
        *("--tokenizer-from", "--on-bad-line", "--max-bad-share", "--drop-copies"),
    ),
    ("inspect", "data"): ("--examples", "--out", "--json"),
    ("train", "new", "--data", "data", "--config", "config.toml"): (
        *("--init-from", "--init-moments", "--replay", "--replay-share"),
    ),
    ("prepare", "new", "--task", "parsing", "--trees", "trees.mrg"): (
        *(
            "--repeat-trees",
            "--exchange",
            "--tokenizer",
            "--vocab-size",
            "--tags",
            "--brackets",
            "--max-tokens",
        ),
    ),
    ("attend", "model", "sun moon"): ("--kind", "--layer", "--head", "--word", "--sort", "--device"),
}
VALUES = (
    *(
        "0",
        "1",
        "2",
        "3",
        "-1",
        "4.5",
        "1e3",
        "1e999",
        "nan",
        "inf",
        "-inf",
        "-0.0",
        "0.5",
        "1_000",
        "0x10",
        "٣",
    ),
    *("1000000", "1000000000", "4294967296", "9223372036854775808", "9" * 4_301, "1e-400"),
    *("", " ", "x", "true", "false", "None", "cpu", "cuda", "cuda:99", "float32", "int8", "bfloat16", "none"),
    *(
        "average",
        "gnmt",
        "en",
        "xx",
        "../..",
        "base",
        "byte",
        "words",
        "joined",
        "a\nb",
        "\x1b[2J",
        "x" * 100_000,
    ),
    *("-", "--", "--beam-size", "model", "shortlist", "text.en", "\udcff"),
)


def refused(name: str, *options: str) -> Case:
    return translate(name, *options).ending(2, says=options[-2].lstrip("-")[:9].replace("-", "."))


TABLE = [
    refused("workers of a million", "--workers", "1000000"),
    refused("workers of none", "--workers", "0"),
    refused("threads of a million", "--threads", "1000000"),
    refused("10^9 samples", "--mbr", "1000000000"),
    refused("half a hypothesis", "--beam-size", "4.5"),
    refused("no hypothesis", "--beam-size", "0"),
    refused("a beam of 5,000 digits", "--beam-size", "9" * 5_000),
    refused("a beam of 10^12", "--beam-size", "1000000000000"),
    refused("10^12 rows", "--n-best", "1000000000000"),
    refused("a penalty that is no number", "--length-penalty", "nan"),
    refused("a temperature of 0", "--sampling", "--temperature", "0"),
    refused("half a batch", "--batch-size", "1.5"),
    refused("no batch", "--batch-tokens", "0"),
    refused("a word of a megabyte", "--beam-size", "x" * 100_000),
    translate("an option of a megabyte", f"--{'x' * 100_000}").ending(2, says="xxx"),
    refused("an option that is none", "--beam-sise", "4"),
    Case("no command", ()).ending(0, 2),
    Case("a command of a megabyte", ("x" * 100_000,)).ending(2),
    Case("a command that is near one", ("translat",)).ending(2, says="translate"),
    Case("version", ("--version",)).ending(0),
    *(
        Case(f"help of {command}", (command, "--help")).ending(0)
        for command in sorted({command[0] for command in OPTIONS})
    ),
    *(
        Case(name, ("plan", option, value)).ending(2, says=option)
        for name, option, value in (
            ("a length of 5,000 digits", "--length", "9" * 5_000),
            ("a length of 0", "--length", "0"),
            ("a speed that is no number", "--tflops", "nan"),
            ("a vocabulary of 10^12", "--vocab-size", "1000000000000"),
        )
    ),
    train("a model to continue", "--init-from", "model").ending(0, says="starts with the weights of model"),
    train("a checkpoint with moments", "--init-from", "run", "--init-moments").ending(0),
    train("a model without moments", "--init-from", "model", "--init-moments").ending(2, says="moments"),
    train("a parser to continue", "--init-from", "parser").ending(4, says="is a model for parsing"),
    train("a model of other sub-words", "--init-from", "other").ending(3, says="--tokenizer-from other"),
    train("a share that is no number", "--replay", "data", "--replay-share", "nan").ending(2),
    train("a share of all", "--replay", "data", "--replay-share", "1").ending(2),
    train("a share of nearly all", "--replay", "data", "--replay-share", "0.999999").ending(2),
    train("a share of next to nothing", "--replay", "data", "--replay-share", "1e-300").ending(0),
    parse("confidence above 1", "--min-confidence", "1.5").ending(2),
    parse("a parser with workers of a million", "--workers", "1000000").ending(2),
]


def fuzzed(number: int) -> Case:
    """A command with one option or several, and any values."""
    draw = random.Random(f"options-{number}")
    command = draw.choice(list(OPTIONS))
    arguments = list(command)
    for option in draw.sample(OPTIONS[command], k=min(len(OPTIONS[command]), draw.choice([1, 1, 2, 3]))):
        arguments += [option, draw.choice(VALUES)] if draw.random() < 0.8 else [option]
    several = {"--n-best", "--jsonl"} & set(arguments)
    targets = {"new", *(value for option, value in pairwise(arguments) if option == "--out")}
    rows = 3 if command[0] in ("translate", "parse") and not several else None
    return Case(str(number), tuple(arguments), targets=tuple(targets), stdin=b"sun moon\n\nstar\n", rows=rows)


@pytest.mark.parametrize("count", [12, pytest.param(1_200, marks=pytest.mark.release)])
def test_options_are_heeded_or_refused_in_a_line(siege: Siege, count: int, record_property: Record) -> None:
    """Promise: Siege."""
    siege.hold("options", TABLE, fuzzed, count, record_property)
