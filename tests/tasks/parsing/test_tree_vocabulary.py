"""A vocabulary of trees knows every symbol it may need, gives trees back, and is read as it was saved."""

import json
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any, get_args

import pytest

from allyouneed.errors import DataError, ModelError
from allyouneed.symbols import PADDING, UNKNOWN
from allyouneed.tasks.parsing.linearisation import ENDINGS, WORD, Brackets, Tags, ending, linearise
from allyouneed.tasks.parsing.tree_vocabulary import TreeVocabulary
from allyouneed.tasks.parsing.trees import Constituent, Tree, tree_of
from allyouneed.tasks.parsing.word_features import UNKNOWN_WORD_CLASSES

JOHN = tree_of("(S (NP (NNP John)) (VP (VBZ has) (NP (DT a) (NN dog))) (. .))")
UNTAGGED = replace(JOHN, tags=(WORD,) * len(JOHN.words))
BRACKETS = get_args(Brackets)
MODES = [*product(("normalised", "predicted", "endings"), BRACKETS), ("words", "joined")]
WORDS = ["form a", "form dog", *UNKNOWN_WORD_CLASSES]


@pytest.mark.parametrize(("tags", "brackets"), MODES)
def test_a_vocabulary_is_read_as_it_was_saved_and_gives_trees_back(
    tmp_path: Path, tags: Tags, brackets: Brackets
) -> None:
    vocabulary = TreeVocabulary.learn([str(JOHN)], tags, brackets)
    vocabulary = vocabulary.with_words(WORDS) if tags == "words" else vocabulary
    vocabulary.save(tmp_path / "trees.json")
    loaded = TreeVocabulary.load(tmp_path / "trees.json")
    assert loaded == vocabulary
    assert hash(loaded) == hash(vocabulary)
    ids = loaded.encode(str(JOHN))
    assert min(ids) > UNKNOWN
    assert max(ids) < loaded.vocab_size
    assert loaded.decode(ids, JOHN.words) == (JOHN if tags in ("predicted", "words") else UNTAGGED, True)
    assert not loaded.decode([PADDING, *ids], JOHN.words).well_formed
    assert loaded.encode_batch(["(S (NP (NN b)))", str(JOHN)])[1] == ids


def test_words_in_an_output_are_those_of_the_sentence_or_it_is_repaired() -> None:
    vocabulary = TreeVocabulary.learn([str(JOHN)], "words", "joined").with_words(WORDS)
    ids = vocabulary.encode(str(JOHN))
    written = [vocabulary.symbols[token] for token in ids[::4]]
    assert written == ["rare Aa", "rare a", "form a", "form dog", "rare ."]
    other = [vocabulary.symbols.index("form a") if token == ids[12] else token for token in ids]
    assert vocabulary.decode(other, JOHN.words) == (JOHN, False)
    assert vocabulary.decode(ids, ["Mary", "is", *JOHN.words[2:]]).well_formed
    for wrong in (
        ids[1:],
        [token for word in range(0, 20, 4) for token in (*ids[word + 1 : word + 4], ids[word])],
        [*ids[::4], *(token for place, token in enumerate(ids) if place % 4)],
    ):
        assert vocabulary.decode(wrong, JOHN.words) == (JOHN, False)


def test_every_word_has_one_of_the_endings_that_every_vocabulary_knows() -> None:
    words = [
        "Wolf",
        "R",
        "1989",
        "\N{SUPERSCRIPT TWO}",
        "%",
        "Stra\N{LATIN SMALL LETTER SHARP S}e",
        "\u0130",
        "(",
    ]
    assert [ending(word) for word in words] == ["f", "r", "0", "XX", "XX", "e", "XX", "XX"]
    vocabulary = TreeVocabulary.learn([str(JOHN)], "endings", "plain")
    tree = Tree(tuple(words), ("NN",) * 8, (Constituent("TOP", 0, 8), Constituent("S", 0, 8)))
    assert UNKNOWN not in vocabulary.encode(str(tree))
    assert {*ENDINGS} < {*vocabulary.symbols}


def test_a_tag_that_is_called_as_a_control_symbol_is_refused() -> None:
    for brackets in BRACKETS:
        with pytest.raises(DataError, match="<unk> is the tag of a word, but reserved"):
            TreeVocabulary.learn(["(S (<unk> b))"], "predicted", brackets)
    assert TreeVocabulary.learn(["(S (<unk> b))"], "normalised", "plain").encode("(S (<unk> b))")


def test_unary_cycles_that_a_model_writes_are_one_constituent() -> None:
    trees = ["(NP (NP (NN a)) (NN b))", "(S (NP (NN a)))"]
    cycles = {"labelled": "(NP (NP XX )NP )NP", "plain": "(NP (NP XX ) )", "joined": "(NP(NP )2"}
    for brackets in BRACKETS:
        vocabulary = TreeVocabulary.learn(trees, "normalised", brackets)
        # Both cover the first word, but not the same words.
        assert (
            str(vocabulary.decode(vocabulary.encode(trees[0]), "ab").tree) == "(TOP (NP (NP (XX a)) (XX b)))"
        )
        ids = [vocabulary.symbols.index(symbol) for symbol in cycles[brackets].split()]
        assert vocabulary.decode(ids, "a") == (tree_of("(TOP (NP (XX a)))"), True)


def test_a_label_that_was_not_learned_is_unknown() -> None:
    assert TreeVocabulary.learn([str(JOHN)], "normalised", "plain").encode("(FRAG (NN b))")[0] == UNKNOWN


@pytest.mark.parametrize(("tags", "brackets"), MODES)
def test_trees_that_are_dropped_for_their_length_leave_no_symbols(tags: Tags, brackets: Brackets) -> None:
    deep = "(S " + "(FRAG (NN a) " * 30 + "(NN b)" + ")" * 31
    num_symbols = len(linearise(tree_of(deep), tags, brackets))
    without = TreeVocabulary.learn([str(JOHN)], tags, brackets)
    assert TreeVocabulary.learn([str(JOHN), deep], tags, brackets, num_symbols - 1) == without
    learned = TreeVocabulary.learn([str(JOHN), deep], tags, brackets, num_symbols)
    assert learned == TreeVocabulary.learn([str(JOHN), deep], tags, brackets) != without


def test_the_vocabulary_of_a_tree_of_any_depth_is_read_as_it_was_saved(tmp_path: Path) -> None:
    depth = 100_001
    deep = "".join(f"(L{level} " for level in range(depth)) + "(NN a)" + ")" * depth
    vocabulary = TreeVocabulary.learn([deep], "normalised", "joined")
    assert f"){depth}" in vocabulary.symbols
    vocabulary.save(tmp_path / "trees.json")
    assert TreeVocabulary.load(tmp_path / "trees.json") == vocabulary


SAVED: dict[str, Any] = {
    "format": "allyouneed tree symbols",
    "format_version": 1,
    "tags": "normalised",
    "brackets": "plain",
    "symbols": ["<pad>", "<s>", "</s>", "<sentinel>", "<unk>", "(S", "XX", ")"],
}


@pytest.mark.parametrize(
    "changes",
    [
        {"format": "allyouneed sentence pairs"},
        {"format_version": 2},
        {"tags": "some"},
        {"brackets": "none"},
        {"symbols": ["(S", *SAVED["symbols"]]},
        {"symbols": [*SAVED["symbols"], "(S"]},
        {"symbols": [*SAVED["symbols"], 7]},
        {"symbols": "(S"},
        {"tags": "endings"},  # without all endings of words
        {"brackets": "joined"},  # its closing bracket has no number
        {"brackets": "joined", "symbols": [*SAVED["symbols"][:-1], ")0", ")2"]},  # no one end
        {"brackets": "joined", "symbols": [*SAVED["symbols"][:-1], ")00"]},
        {"brackets": "joined", "symbols": [*SAVED["symbols"][:-1], ")0", ""]},
        {"tags": "words", "brackets": "joined", "symbols": [*SAVED["symbols"]][:-1]},  # no rare words
    ],
)
def test_a_vocabulary_of_other_content_is_refused(tmp_path: Path, changes: dict[str, object]) -> None:
    file = tmp_path / "trees.json"
    file.write_bytes(json.dumps(SAVED).encode())
    assert TreeVocabulary.load(file).vocab_size == 8
    file.write_bytes(json.dumps(SAVED | changes).encode())
    with pytest.raises(ModelError, match=r"trees\.json: is not a vocabulary"):
        TreeVocabulary.load(file)


@pytest.mark.parametrize("content", [b"", b"[]", b"{}", b"\xff", b"[" * 100_000])
def test_a_damaged_vocabulary_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "trees.json").write_bytes(content)
    with pytest.raises(ModelError, match=r"trees\.json: is damaged"):
        TreeVocabulary.load(tmp_path / "trees.json")
    with pytest.raises(ModelError, match="no such file"):
        TreeVocabulary.load(tmp_path / "none.json")
