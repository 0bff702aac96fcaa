"""BPE-dropout: other sub-words of the same text, by place."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from allyouneed.data.schedule import mixed
from allyouneed.data.store import Sentences
from allyouneed.data.subword_dropout import SubwordDropout
from allyouneed.data.tokenizer import Tokenizer

TEXT = [
    "The lowest of the low lower lows, lowering the slowest flower.",
    "Der niedrigste von allen 1234 Werten: langsamste Blumen, l'eau!",
    "low   lower\tlowest \u3000wider newer 日本語 newest widest",
]


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return Tokenizer.train(TEXT * 20, "bpe", 340)


def split(
    dropout: SubwordDropout, tokenizer: Tokenizer, texts: list[str], places: list[int]
) -> list[list[int]]:
    found = dropout.applied(tokenizer.encode_corpus(texts), mixed(places))
    ends = found.lengths.cumsum()
    return [each.tolist() for each in np.split(found.ids, ends)[:-1]]


def test_without_dropout_the_sub_words_are_those_of_the_tokenizer(tokenizer: Tokenizer) -> None:
    texts = [*TEXT, *(" ".join(text.split()[:3]) for text in TEXT)]
    nothing = SubwordDropout(tokenizer, 0.0)
    assert split(nothing, tokenizer, texts, [*range(6)]) == tokenizer.encode_batch(texts)


anything = st.text(st.characters(exclude_categories=["Cs"]), min_size=1)
like_words = st.text(st.sampled_from("loweNst '’.,12\t\u3000é"), min_size=1, max_size=30)


@given(st.lists(anything | like_words, min_size=1, max_size=4))
def test_without_dropout_all_text_has_the_sub_words_of_the_tokenizer(
    tokenizer: Tokenizer, texts: list[str]
) -> None:
    nothing = SubwordDropout(tokenizer, 0.0)
    assert split(nothing, tokenizer, texts, [*range(len(texts))]) == tokenizer.encode_batch(texts)


@given(
    texts=st.lists(anything | like_words, min_size=1, max_size=4),
    probability=st.sampled_from([0.1, 0.5, 0.99]),
)
def test_the_text_stays_the_same(tokenizer: Tokenizer, texts: list[str], probability: float) -> None:
    dropout = SubwordDropout(tokenizer, probability)
    found = split(dropout, tokenizer, texts, [*range(len(texts))])
    assert [*map(tokenizer.decode, found)] == [*map(tokenizer.decode, tokenizer.encode_batch(texts))]


def test_a_place_decides_and_nothing_beside_it(tokenizer: Tokenizer) -> None:
    texts, places = TEXT * 5, [*range(15)]
    whole = split(SubwordDropout(tokenizer, 0.3), tokenizer, texts, places)
    alone = SubwordDropout(tokenizer, 0.3)
    for place in reversed(places):
        assert split(alone, tokenizer, [texts[place]], [place]) == [whole[place]]
    assert len({tuple(ids) for ids in whole[::3]}) == 5


def test_a_merge_is_left_out_as_often_as_the_probability_says(tokenizer: Tokenizer) -> None:
    letters = [letter for letter in "abcdefghijklmnopqrstuvwxyz" if len(tokenizer.encode(letter)) == 1]
    assert len(letters) > 5
    dropout = SubwordDropout(tokenizer, 0.3)
    found = split(dropout, tokenizer, letters * 500, [*range(500 * len(letters))])
    assert {*map(len, found)} == {1, 2}
    share = sum(len(ids) == 2 for ids in found) / len(found)
    assert abs(share - 0.3) < 4 * (0.3 * 0.7 / (64 * len(letters))) ** 0.5  # of 64 segmentations each


def test_if_every_merge_is_left_out_bytes_stay(tokenizer: Tokenizer) -> None:
    [found] = split(SubwordDropout(tokenizer, 0.999_999), tokenizer, ["lowest"], [1])
    assert len(found) == len(" lowest")


def test_empty_sentences_stay_empty(tokenizer: Tokenizer) -> None:
    empty = np.array([0, 3, 0, 0, 2, 0])
    ids = np.array([*tokenizer.encode_batch(["low low low"])[0], *tokenizer.encode_batch(["low low"])[0]])
    found = SubwordDropout(tokenizer, 0.0).applied(Sentences(ids, empty), mixed([*range(6)]))
    assert found.lengths.tolist() == empty.tolist()
    assert found.ids.tolist() == ids.tolist()
