"""A sample is the largest that its bound allows, depends on places alone, and bounds what learning meets."""

import tracemalloc
from collections.abc import Sequence

import pytest
import tokenizers
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import pre_tokenizers

from allyouneed.data.tokenizer import SMALLEST_VOCABULARY, Tokenizer
from allyouneed.data.vocabulary_sample import Sample, Texts, sampled_lines, separate

CORPUS = [(f"a{number % 50} b{number}", f"c{number % 7}") for number in range(2_000)]
HOSTILE = st.text(st.sampled_from([*"ab1.'é猫 \t\xa0\u2003\u3000\u2028\x1c\x85\u200b"]), max_size=60)


def distinct_bytes(texts: Sequence[Texts]) -> int:
    """The bytes of the distinct words, each with a space."""
    return sum(
        len(word.encode()) + 1 for word in {w for text in texts for side in text for w in side.split()}
    )


@pytest.mark.parametrize("max_bytes", [100, 1_000, 5_000])
def test_a_sample_has_as_many_bytes_of_distinct_words_as_it_may(max_bytes: int) -> None:
    sample = Sample.draw(CORPUS, max_bytes)
    chosen = list(sample.select(CORPUS))
    assert len(chosen) == sample.num_drawn < sample.num_texts == len(CORPUS)
    assert distinct_bytes(chosen) <= max_bytes
    next_text = list(Sample(sample.limit + 1, len(CORPUS)).select(CORPUS))
    assert len(next_text) == len(chosen) + 1
    assert distinct_bytes(next_text) > max_bytes


def test_a_corpus_within_the_bound_is_taken_as_it_is() -> None:
    told: list[Sample] = []
    everything = [side for text in CORPUS for side in text]
    exactly = distinct_bytes(CORPUS)
    assert list(sampled_lines(lambda: CORPUS, exactly, told.append)) == everything
    assert list(sampled_lines(lambda: CORPUS, 0, told.append)) == everything
    assert told == []
    assert 0 < len(list(sampled_lines(lambda: CORPUS, exactly - 1, told.append))) < len(everything)
    assert [sample.num_texts for sample in told] == [len(CORPUS)]


def test_whether_a_text_is_in_the_sample_depends_on_its_place_and_on_nothing_before_it() -> None:
    sample = Sample.draw(CORPUS, 5_000)
    places = [(str(number),) for number in range(len(CORPUS))]
    chosen = [int(place) for (place,) in sample.select(places)]
    assert list(sample.select(CORPUS)) == [CORPUS[place] for place in chosen]
    assert [sum(place // 500 == quarter for place in chosen) > 50 for quarter in range(4)] == [True] * 4


def test_repetitions_are_free() -> None:
    assert Sample.draw(CORPUS * 3, distinct_bytes(CORPUS)).is_everything


def test_memory_does_not_grow_with_the_words_that_are_left_out() -> None:
    """Promise: Preparation."""
    tracemalloc.start()
    Sample.draw(((f"word{number}",) for number in range(100_000)), 10_000)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 1_000_000


@pytest.fixture(scope="module")
def pre_tokenizer(tmp_path_factory: pytest.TempPathFactory) -> pre_tokenizers.PreTokenizer:
    """What splits texts into the words that learning counts, as strings of one character for each byte."""
    path = tmp_path_factory.mktemp("tokenizer") / "tokenizer.json"
    Tokenizer.train(["a"], "bpe", SMALLEST_VOCABULARY).save(path)
    found: pre_tokenizers.PreTokenizer = tokenizers.Tokenizer.from_file(str(path)).pre_tokenizer
    return found


@given(st.lists(HOSTILE, max_size=5))
def test_what_learning_counts_is_at_most_twice_what_the_sample_counts(
    pre_tokenizer: pre_tokenizers.PreTokenizer, lines: list[str]
) -> None:
    """Promise: Preparation."""
    words = {word for line in lines for word, _ in pre_tokenizer.pre_tokenize_str(f" {line}")}
    counted = {word for line in lines for word in separate(line)}
    assert sum(map(len, words)) <= 1 + 2 * sum(len(word.encode()) + 1 for word in counted)
