"""Tokenisers of strangers, in models whose seal holds: another library reads them, in another language."""

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.siege.cases import Case, Change, translate
from tests.siege.conftest import Record, Siege
from tests.siege.mutations import damaged, reseal, with_odd_json

BOTH = ("source_tokenizer.json", "target_tokenizer.json")


def tokeniser(change_document: Callable[[dict[str, Any]], object], names: tuple[str, ...] = BOTH) -> Change:
    """Change the tokenisers, and seal the model again."""

    def change(folder: Path) -> None:
        for name in names:
            path = folder / "model" / name
            document = json.loads(path.read_bytes())
            change_document(document)
            path.write_bytes(json.dumps(document, ensure_ascii=False).encode())
        reseal(folder / "model")

    return change


def bad(name: str, change_document: Callable[[dict[str, Any]], object]) -> Case:
    return translate(name, change=tokeniser(change_document)).ending(4, says=r"tokenizer\.json|vocabular")


def rename(document: dict[str, Any], number: int) -> None:
    """Give the last entry of the vocabulary another id."""
    entries = document["model"]["vocab"]
    entries[list(entries)[-1]] = number


def enlarge(document: dict[str, Any]) -> None:
    entries = document["model"]["vocab"]
    entries.update({f"more-{number}": number for number in range(len(entries), len(entries) + 100)})


TABLE = [
    bad("id of 4,000,000,000", lambda document: rename(document, 4_000_000_000)),
    bad("id of 2^32", lambda document: rename(document, 1 << 32)),
    bad("id below 0", lambda document: rename(document, -1)),
    bad("id twice", lambda document: rename(document, 7)),
    bad("a gap in the ids", lambda document: rename(document, 1_000)),
    bad("larger than the model", enlarge),
    bad(
        "bad Precompiled normaliser",
        lambda d: d.update(normalizer={"type": "Precompiled", "precompiled_charsmap": "AAAA"}),
    ),
    bad(
        "Precompiled normaliser of nothing",
        lambda d: d.update(normalizer={"type": "Precompiled", "precompiled_charsmap": ""}),
    ),
    bad(
        "normaliser that is a huge pattern",
        lambda d: d.update(normalizer={"type": "Replace", "pattern": {"Regex": "(" * 5_000}, "content": ""}),
    ),
    bad("no model", lambda document: document.pop("model")),
    bad("model of another type", lambda document: document["model"].update(type="WordPiece")),
    bad("merges of what is not there", lambda document: document["model"].update(merges=[["zz", "yy"]])),
    bad(
        "truncation",
        lambda d: d.update(
            truncation={"direction": "Right", "max_length": 0, "strategy": "LongestFirst", "stride": 5}
        ),
    ),
    bad(
        "padding to 10^9",
        lambda d: d.update(
            padding={
                "strategy": {"Fixed": 1_000_000_000},
                "direction": "Right",
                "pad_to_multiple_of": None,
                "pad_id": 0,
                "pad_type_id": 0,
                "pad_token": "<pad>",
            }
        ),
    ),
    translate("other tokeniser on each side", change=tokeniser(enlarge, BOTH[:1])).ending(4),
]


def fuzzed(number: int) -> Case:
    """A tokeniser of which values or bytes are changed, in a model that is sealed again."""
    draw = random.Random(f"tokeniser-{number}")

    def change(folder: Path) -> None:
        names = draw.choice([BOTH, BOTH[:1], BOTH[1:]])
        mutation = with_odd_json if draw.random() < 0.8 else damaged
        content = mutation(draw, (folder / "model" / BOTH[0]).read_bytes())
        for name in names:
            (folder / "model" / name).write_bytes(content)
        reseal(folder / "model")

    return translate(str(number), change=change, stdin=b"sun moon\n\xc3\xa9 star\n\n")


@pytest.mark.parametrize("count", [10, pytest.param(1_500, marks=pytest.mark.release)])
def test_tokenisers_are_used_as_they_should_be_or_refused_in_a_line(
    siege: Siege, count: int, record_property: Record
) -> None:
    """Promise: Siege."""
    siege.hold("tokeniser", TABLE, fuzzed, count, record_property)
