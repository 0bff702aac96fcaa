"""Every word has as many ids, the finest that were learned; what is saved is what is read."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from allyouneed.errors import DataError, ModelError, UsageError
from allyouneed.symbols import END, UNKNOWN
from allyouneed.tasks.parsing.word_features import WordFeatures, word_symbol

LINES = [
    "the dog runs walking",
    "The dog talking 1987 Running-mates",
    "the 1988 IBM walks sits",
    "reserves IBM stalking",
]
SMALLEST = 38  # 5 control symbols, 16 shapes of rare words and of endings, and a beginning of no letters


def features(vocabulary: WordFeatures, word: str) -> list[str]:
    return [vocabulary.symbols[token] for token in vocabulary.encode(word)]


def test_a_word_has_the_finest_symbols_that_occur_twice() -> None:
    vocabulary = WordFeatures.learn(LINES, 1_000, 3)
    expected = {
        "the": ["form the", "ending a~the", "form the"],
        # Once: its form is not known; small letters are, and so is what begins a sentence.
        "The": ["rare Aa", "ending Aa", "form the"],
        "IBM": ["form IBM", "ending A~ibm", "form ibm"],
        "walking": ["rare a~ing", "ending a~ing", "beginning wal"],
        "walks": ["rare a~s", "ending a~s", "beginning wal"],
        "1990": ["rare .0~", "ending .0~000", "form 0000"],
        "talk": ["rare a", "ending a", "beginning "],
        "*": ["rare .", "ending .", "beginning "],
        "Sub-machine": ["rare Aa-", "ending Aa-", "beginning s"],
    }
    assert {word: features(vocabulary, word) for word in expected} == expected
    assert features(WordFeatures.learn(LINES, 1_000, 2), "walks") == ["rare a~s", "ending a~s"]


def test_a_smaller_vocabulary_keeps_what_is_most_frequent() -> None:
    lines = ["a a a a a b b b b c c c d d e"]
    sizes = {size: WordFeatures.learn(lines, size, 2) for size in (1_000, 45, 43, 41, SMALLEST)}
    forms = {
        size: {symbol[5:] for symbol in found.symbols if symbol.startswith("form ")}
        for size, found in sizes.items()
    }
    assert forms == {1_000: {*"abcd"}, 45: {*"abc"}, 43: {*"ab"}, 41: {"a"}, SMALLEST: set()}
    assert all(found.vocab_size <= size for size, found in sizes.items())
    with pytest.raises(UsageError, match=f"use vocab_size {SMALLEST} or more"):
        WordFeatures.learn(lines, SMALLEST - 1, 2)


@given(st.lists(st.text(st.characters(exclude_characters=" ", exclude_categories=["Cs"]), min_size=1)))
def test_any_words_have_so_many_ids_each_and_can_be_counted_again(words: list[str]) -> None:
    for ids_per_word in (2, 3, 4):
        vocabulary = WordFeatures.learn(LINES, 1_000, ids_per_word)
        ids = vocabulary.encode(" ".join(words))
        assert len(ids) == ids_per_word * len(words)
        assert ids[3::4] == ids[::4] or ids_per_word < 4
        symbols = [word_symbol(word, {*vocabulary.word_symbols}) for word in words]
        assert vocabulary.word_symbols_of([*ids, END]) == symbols
        assert all(UNKNOWN < token < vocabulary.vocab_size for token in ids)
        assert len(vocabulary.decode([*ids, END]).split(" ")) == max(1, len(words))
        assert vocabulary.encode_batch(words) == [vocabulary.encode(word) for word in words]


def test_known_words_come_back() -> None:
    vocabulary = WordFeatures.learn(["the dog <unk> form"] * 2 + ["mats rats"], 1_000, 3)
    assert vocabulary.decode(vocabulary.encode("the form <unk> dog cats")) == "the form <unk> dog a~s"


def test_half_a_surrogate_pair_is_refused() -> None:
    with pytest.raises(DataError, match="surrogate pair at character 3"):
        WordFeatures.learn(LINES, 1_000, 2).encode("a \ud800")


def test_it_is_read_as_it_was_saved(tmp_path: Path) -> None:
    vocabulary = WordFeatures.learn(LINES, 1_000, 3)
    vocabulary.save(tmp_path / "words.json")
    assert WordFeatures.load(tmp_path / "words.json") == vocabulary
    assert len({vocabulary, WordFeatures.load(tmp_path / "words.json")}) == 1
    assert WordFeatures.learn(LINES, 1_000, 2) != vocabulary


@pytest.mark.parametrize(
    "changes",
    [
        {"format": "allyouneed tree symbols"},
        {"format_version": 2},
        {"ids_per_word": 5},
        {"symbols": ["<pad>", "<s>", "</s>", "<sentinel>", "<unk>", "form the"]},
        {"symbols": [*WordFeatures.learn(LINES, 1_000, 2).symbols, "form the"]},
        {"symbols": [*WordFeatures.learn(LINES, 1_000, 2).symbols, 7]},
        {"symbols": "the"},
    ],
)
def test_a_vocabulary_of_other_content_is_refused(tmp_path: Path, changes: dict[str, object]) -> None:
    file = tmp_path / "words.json"
    WordFeatures.learn(LINES, 1_000, 3).save(file)
    file.write_bytes(json.dumps(json.loads(file.read_bytes()) | changes).encode())
    with pytest.raises(ModelError, match=r"words\.json: is not a vocabulary"):
        WordFeatures.load(file)


@pytest.mark.parametrize("content", [b"", b"[]", b"{}", b"\xff", b"[" * 100_000])
def test_a_damaged_vocabulary_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "words.json").write_bytes(content)
    with pytest.raises(ModelError, match=r"words\.json: is damaged"):
        WordFeatures.load(tmp_path / "words.json")
