"""A tokeniser's file may come from a stranger: it is one of ours, or refused in one line."""

import copy
import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from allyouneed.data.tokenizer import SMALLEST_VOCABULARY, Tokenizer
from allyouneed.data.tokenizer_file import TokenizerKind
from allyouneed.errors import ModelError

Description = dict[str, Any]

TEXTS = ["the sun sees the moon", "über 2,500 (stars)", "</s><pad>", "\0👨‍👩‍👧"]


def describe(kind: TokenizerKind, folder: Path) -> Description:
    Tokenizer.train(["the sun sees the moon and the stars of the moon"] * 9, kind, 280).save(
        folder / "good.json"
    )
    description: Description = json.loads((folder / "good.json").read_bytes())
    return description


@pytest.fixture(scope="module")
def description(tmp_path_factory: pytest.TempPathFactory) -> Description:
    return describe("bpe", tmp_path_factory.mktemp("good"))


def change_id(token: object) -> Callable[[Description], object]:
    return lambda description: description["model"]["vocab"].update({"the": token})


def change_merges(*merges: object) -> Callable[[Description], object]:
    return lambda description: description["model"]["merges"].extend(merges)


def put(key: str, value: object) -> Callable[[Description], object]:
    return lambda description: description.update({key: value})


PRECOMPILED = {"type": "Precompiled", "precompiled_charsmap": "AAAA"}
BOMB = {"type": "Split", "pattern": {"Regex": "(a+)+$"}, "behavior": "Isolated", "invert": False}

CHANGES = {
    "an id of four billion": change_id(4_000_000_000),
    "an id beyond 64 bits": change_id(10**30),
    "a negative id": change_id(-1),
    "an id twice": change_id(7),
    "an id that is a fraction": change_id(270.0),
    "an id that is true": change_id(True),
    "an id that is text": change_id("270"),
    "an id that is a list": change_id([270]),
    "no ids": lambda description: description["model"].update(vocab={}),
    "a list of entries": lambda description: description["model"].update(vocab=["a", "b"]),
    "an entry that is no bytes": lambda description: description["model"]["vocab"].update({"\u0437": 280}),
    "an entry of half a surrogate pair": lambda description: description["model"]["vocab"].update(
        {"\ud800": 280}
    ),
    "an empty entry": lambda description: description["model"]["vocab"].update({"": 280}),
    "a merge of no entries": change_merges(["qqqq", "zzzz"]),
    "a merge to no entry": change_merges(["q", "z"]),
    "a merge of three": change_merges(["t", "h", "e"]),
    "a merge that is text": change_merges("th"),
    "a merge of numbers": change_merges([1, 2]),
    "merges that are no list": lambda description: description["model"].update(merges={"t": "h"}),
    "a normaliser that makes the library panic": put("normalizer", PRECOMPILED),
    "a sequence with one": put("normalizer", {"type": "Sequence", "normalizers": [PRECOMPILED]}),
    "an expression that takes for ever": put("pre_tokenizer", BOMB),
    "a post-processor": put("post_processor", {"type": "ByteLevel", "trim_offsets": True}),
    "padding": put("padding", {"strategy": {"Fixed": 1_000_000_000}}),
    "another model": lambda description: description["model"].update(type="Unigram", unk_id=0),
    "another part": put("surprise", {"type": "Strip"}),
    "no model": put("model", None),
    "a model that is a list": put("model", [1]),
    "deep nesting inside": put("decoder", json.loads("[" * 500 + "]" * 500)),
}


def load(path: Path, content: object) -> Tokenizer:
    path.write_bytes(json.dumps(content).encode())
    return Tokenizer.load(path)


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES.keys())
def test_a_file_that_is_not_ours_is_refused_and_the_library_says_nothing(
    tmp_path: Path,
    description: Description,
    change: Callable[[Description], object],
    capfd: pytest.CaptureFixture[str],
) -> None:
    changed = copy.deepcopy(description)
    change(changed)
    with pytest.raises(
        ModelError, match=r"tokenizer\.json: is not a tokeniser that allyouneed has made: "
    ) as error:
        load(tmp_path / "tokenizer.json", changed)
    assert len(error.value.messages) == 1
    assert len(error.value.messages[0].removeprefix(str(tmp_path))) < 200
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    "content", [b"[" * 200_000, b"[]", b"3", b"null", b"\xff", b'{"model": 1' + b"0" * 5_000 + b"}"]
)
def test_what_is_no_object_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "tokenizer.json").write_bytes(content)
    with pytest.raises(ModelError, match=r"tokenizer\.json: is "):
        Tokenizer.load(tmp_path / "tokenizer.json")


def test_a_file_larger_than_any_vocabulary_is_not_read(tmp_path: Path) -> None:
    with (tmp_path / "tokenizer.json").open("wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(
        ModelError, match=r"tokenizer\.json: has 1,099,511,627,776 bytes, more than the 134,217,728"
    ):
        Tokenizer.load(tmp_path / "tokenizer.json")


def test_a_file_of_more_values_than_any_vocabulary_is_not_parsed(tmp_path: Path) -> None:
    (tmp_path / "tokenizer.json").write_bytes(b"[" + b"[]," * 4_000_000 + b"1]")
    with pytest.raises(
        ModelError, match=r"tokenizer\.json: is damaged .*it holds more than 8,000,000 values"
    ):
        Tokenizer.load(tmp_path / "tokenizer.json")


def test_a_vocabulary_of_bytes_has_nothing_else(tmp_path: Path) -> None:
    of_bytes = describe("byte", tmp_path)
    assert load(tmp_path / "same.json", of_bytes).vocab_size == SMALLEST_VOCABULARY
    of_bytes["model"]["vocab"]["th"] = SMALLEST_VOCABULARY
    of_bytes["model"]["merges"] = [["t", "h"]]
    with pytest.raises(ModelError, match="more entries than there are bytes"):
        load(tmp_path / "more.json", of_bytes)


@pytest.mark.parametrize("kind", ["bpe", "wordpiece", "byte"])
def test_options_that_are_off_may_be_left_out_or_come_with_a_newer_library(
    tmp_path: Path, kind: TokenizerKind
) -> None:
    description = describe(kind, tmp_path)
    changed = {key: value for key, value in description.items() if value is not None}
    changed["model"] = {
        key: value for key, value in description["model"].items() if value not in (None, False)
    }
    changed["a_new_option"] = False
    assert load(tmp_path / "other.json", changed) == Tokenizer.load(tmp_path / "good.json")


@pytest.mark.parametrize(("wanted", "fits"), [(None, True), (280, True), (279, False), (281, False)])
def test_a_tokeniser_of_another_size_than_the_model_is_refused_with_both_sizes(
    tmp_path: Path, description: Description, wanted: int | None, fits: bool
) -> None:
    path = tmp_path / "tokenizer.json"
    assert load(path, description).vocab_size == 280
    if fits:
        assert Tokenizer.load(path, wanted).vocab_size == 280
    else:
        with pytest.raises(ModelError, match=rf"has 280 entries, but the model was made for {wanted};"):
            Tokenizer.load(path, wanted)


STRANGE: list[Any] = [
    10**30,
    -1,
    1e308,
    None,
    True,
    "",
    "\ud800",
    [],
    {},
    [[[]]],
    {"type": "Precompiled"},
    "x" * 9_999,
]


def change_one(value: Any, draw: random.Random) -> Any:
    """The value with one part, at whatever depth, left out or replaced by something strange."""
    if isinstance(value, (dict, list)) and value and draw.random() < 0.8:
        key = draw.choice(list(value)) if isinstance(value, dict) else draw.randrange(len(value))
        changed = copy.copy(value)
        if draw.random() < 0.2:
            del changed[key]
        else:
            changed[key] = change_one(value[key], draw)
        return changed
    return draw.choice(STRANGE)


@pytest.mark.parametrize("kind", ["bpe", "wordpiece"])
def test_any_change_is_refused_or_harmless(
    tmp_path: Path, kind: TokenizerKind, capfd: pytest.CaptureFixture[str]
) -> None:
    """Promise: Contents."""
    description, draw, num_refused = describe(kind, tmp_path), random.Random(5), 0
    for _ in range(300):
        try:
            loaded = load(tmp_path / "tokenizer.json", change_one(description, draw))
        except ModelError:
            num_refused += 1
        else:
            assert [loaded.decode(loaded.encode(text)) for text in TEXTS] == TEXTS
            loaded.pieces(range(loaded.vocab_size))
    assert num_refused >= 200
    assert capfd.readouterr() == ("", "")
