"""The yardsticks beside which the demo is scored: a dictionary and a memory."""

import math
from collections import Counter
from itertools import pairwise

import pytest

from allyouneed.lab.demo.yardsticks import nearest_sentence, translate_word_by_word


def test_word_by_word_keeps_the_order_and_attaches_marks() -> None:
    dictionary = {"the": "der", "dog": "Hund", "sleeps": "schläft"}
    assert translate_word_by_word(["The dog sleeps."], dictionary) == ["Der Hund schläft."]


def test_word_by_word_copies_unknown_words_and_drops_empty_entries() -> None:
    assert translate_word_by_word(["does Anna Weber sleep, Peter?"], {"does": "", "sleep": "schlafen"}) == [
        "Anna Weber schlafen, Peter?"
    ]


def test_word_by_word_prefers_the_entry_with_the_same_capital() -> None:
    assert translate_word_by_word(["Rose a rose"], {"Rose": "Rosa", "rose": "erhob", "a": "ein"}) == [
        "Rosa ein erhob"
    ]


def test_empty_sentence_stays_empty() -> None:
    assert translate_word_by_word([""], {}) == [""]


def test_nearest_sentence_is_itself_when_it_was_seen() -> None:
    sources = ["the dog sleeps .", "the cat sleeps .", "a bird sings ."]
    assert nearest_sentence(sources, sources, ["A", "B", "C"]) == ["A", "B", "C"]


def test_rare_words_weigh_more_than_frequent_ones() -> None:
    sources = [
        "the dog is in the garden",
        "a zebra laughs",
        "the cat is in the house",
        "the cow is in the barn",
    ]
    assert nearest_sentence(["the zebra is here"], sources, ["garden", "zebra", "house", "barn"]) == ["zebra"]


def test_ties_and_strangers_get_the_first_target() -> None:
    assert nearest_sentence(["b", "unheard of"], ["a", "b", "b"], ["A", "B1", "B2"]) == ["B1", "A"]


def test_nearest_sentence_equals_a_brute_force_cosine() -> None:
    sources = [
        "the old dog saw the cat",
        "the cat saw the dog",
        "old cats sleep",
        "a dog and a cat",
        "see the old cat",
    ]
    queries = ["the old cat saw a dog", "cats see", "the dog and the cat sleep"]

    def bag(sentence: str) -> Counter[str]:
        tokens = sentence.split()
        return Counter([*tokens, *(f"{a} {b}" for a, b in pairwise(tokens))])

    def idf(feature: str) -> float:
        count = sum(feature in bag(source) for source in sources)
        return math.log(1 + len(sources) / count) if count else 0.0

    def cosine(query: str, source: str) -> float:
        left, right = bag(query), bag(source)
        product = sum(left[f] * right[f] * idf(f) ** 2 for f in left)
        return product / math.sqrt(sum((right[f] * idf(f)) ** 2 for f in right))

    expected = [max(sources, key=lambda source: cosine(query, source)) for query in queries]
    assert nearest_sentence(queries, sources, sources) == expected


@pytest.mark.parametrize(("sources", "targets"), [([], []), (["a"], []), (["a"], ["A", "B"])])
def test_memory_needs_as_many_targets_as_sources(sources: list[str], targets: list[str]) -> None:
    with pytest.raises(ValueError, match="training sources for"):
        nearest_sentence(["a"], sources, targets)
