"""A text has the ids that its tokeniser gives it, whatever its words and its white space."""

import random
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.data.test_tokenizer import HOSTILE, corpus

from allyouneed.data import word_cache
from allyouneed.data.store import Sentences
from allyouneed.data.tokenizer import Tokenizer

TEXTS = st.lists(
    st.lists(st.sampled_from([*HOSTILE, "a", "dog", "\n", "it's", "-", "x" * 60]) | st.text(max_size=3))
)


@pytest.fixture(scope="module", params=["bpe", "wordpiece"])
def tokenizer(request: pytest.FixtureRequest) -> Tokenizer:
    return Tokenizer.train(corpus(), request.param, 400)


def split(sentences: Sentences) -> list[list[int]]:
    ids = iter(sentences.ids.tolist())
    return [[next(ids) for _ in range(length)] for length in sentences.lengths]


@given(texts=TEXTS, separator=st.sampled_from(["", " "]))
def test_it_gives_what_the_tokeniser_gives(
    tokenizer: Tokenizer, texts: list[list[str]], separator: str
) -> None:
    lines = [separator.join(parts) for parts in texts]
    assert split(tokenizer.encode_corpus(lines)) == tokenizer.encode_batch(lines)


@given(texts=TEXTS)
def test_bytes_of_lines_give_what_their_texts_give(tokenizer: Tokenizer, texts: list[list[str]]) -> None:
    lines = [" ".join(parts).replace("\n", "") for parts in texts] or [""]
    content = "".join(f"{line}\n" for line in lines).encode()
    assert split(tokenizer.encode_lines(content)) == tokenizer.encode_batch(lines)


def test_any_character_between_or_beside_words_is_heeded(tokenizer: Tokenizer) -> None:
    characters = [character for character in map(chr, range(sys.maxunicode + 1)) if character.isspace()]
    draw = random.Random(1)
    characters += [chr(draw.randrange(0xD800)) for _ in range(50)]
    texts = [
        text
        for c in [*characters, "\u180e", "\u200b", "\u2060", "\ufeff", "\x85"]
        for text in (f"a{c}b", f"a {c}b", f"a{c} b", f"{c}a", f"a{c}", f"{c} a", f"a {c}", c, f"a {c} b")
    ]
    expected = tokenizer.encode_batch(texts)
    assert split(tokenizer.encode_corpus(texts)) == expected
    assert [split(tokenizer.encode_corpus([text]))[0] for text in texts] == expected


def test_it_forgets_and_serves_several_threads(tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(word_cache, "_MOST_WORDS", 30)
    lines = list(corpus())
    expected = tokenizer.encode_batch(lines)

    def encode(start: int) -> bool:
        found = tokenizer.encode_corpus(lines[start : start + 7])
        return split(found) == expected[start : start + 7]

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(encode, range(len(lines))))


def test_each_word_is_split_once() -> None:
    asked: list[str] = []

    def encode(texts: Sequence[str]) -> Sentences:
        asked.extend(texts)
        return Sentences.of([[len(text)] for text in texts])

    cache = word_cache.WordCache(encode)
    assert split(cache.encode(["a bb a", "bb"])) == [[1, 2, 1], [2]]
    assert split(cache.encode(["ccc bb", "", "a  bb"])) == [[3, 2], [0], [5]]
    assert sorted(asked) == ["", "a", "a  bb", "bb", "ccc"]
    assert cache.encode([]).ids.tolist() == cache.encode([]).lengths.tolist() == []
