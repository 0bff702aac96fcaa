"""Words are what a reader sees, and every piece of a text is of exactly one."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from allyouneed.data.tokenizer import SMALLEST_VOCABULARY, Tokenizer
from allyouneed.data.words import group_pieces, in_print, split_at_spaces, split_words

BYTES = Tokenizer.train([], "byte", SMALLEST_VOCABULARY)
PIECES = Tokenizer.train(["the cat sat on the mat, l'eau l'eau the cats'"] * 3, "bpe", 279)
HOSTILE = st.text(
    st.sampled_from([*"aA1.,'’- \t\xa0\u2028\u200b\u200déñ\u0301\u0928\u093f犬\U0001f600\U0001f1e9ا"])
)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("A dog runs.", ["A", "dog", "runs", "."]),
        ("It's 24-hour, isn't it?!", ["It's", "24", "-", "hour", ",", "isn't", "it", "?!"]),
        ("rock 'n' roll", ["rock", "'", "n", "'", "roll"]),
        ("cafe\u0301  नि", ["cafe\u0301", "नि"]),
        ("我喜歡狗。", ["我", "喜", "歡", "狗", "。"]),
        ("犬がいる abc犬x", ["犬", "が", "い", "る", "abc", "犬", "x"]),
        ("カタカナー", ["カ", "タ", "カ", "ナ", "ー"]),
        ("ที่นี่ 12", ["ที่", "นี่", "12"]),
        ("한국어 안녕", ["한국어", "안녕"]),
        (" \u3000", []),
        ("", []),
    ],
)
def test_words_are_letters_or_signs_in_a_row(text: str, words: list[str]) -> None:
    assert [text[begin:end] for begin, end in split_words(text)] == words


@pytest.mark.parametrize("tokenizer", [BYTES, PIECES], ids=["bytes", "pieces"])
@given(text=HOSTILE | st.text())
def test_pieces_are_grouped_as_the_text_is_split(tokenizer: Tokenizer, text: str) -> None:
    ids = tokenizer.encode(text)
    spans = tokenizer.spans(ids)
    groups = group_pieces(split_words(tokenizer.decode(ids)), spans)
    assert [piece for begin, end in groups for piece in range(begin, end)] == list(range(len(ids)))
    assert all(end > begin for begin, end in groups)
    texts = [text[spans[begin][0] : spans[end - 1][1]].strip() for begin, end in groups]
    expected = [text[begin:end] for begin, end in split_words(text)]
    if tokenizer is BYTES and not any(map(str.isspace, text)):
        assert texts == expected or not text
    assert "".join("".join(texts).split()) == "".join(text.split())


def test_spaces_are_of_the_word_behind_them_and_at_the_end_of_the_last() -> None:
    text = "a  b. "
    spans = [(place, place + 1) for place in range(len(text))]
    assert group_pieces(split_words(text), spans) == [(0, 1), (1, 4), (4, 6)]


def test_pieces_of_a_script_without_spaces_are_words() -> None:
    text, spans = "我喜歡狗", [(0, 1), (1, 3), (3, 4)]
    assert group_pieces(split_words(text), spans) == [(0, 1), (1, 2), (2, 3)]


def test_a_text_that_is_split_already_is_split_at_spaces_only() -> None:
    text = "U.S. do n't  ."
    assert [text[begin:end] for begin, end in split_at_spaces(text)] == ["U.S.", "do", "n't", "."]


def test_words_that_share_a_piece_are_one() -> None:
    assert group_pieces(split_words("a dog."), [(0, 2), (2, 4), (4, 6)]) == [(0, 1), (1, 3)]


def test_a_text_of_spaces_is_one_group() -> None:
    assert group_pieces(split_words("  "), [(0, 1), (1, 2)]) == [(0, 2)]
    assert group_pieces([], []) == []


def test_what_cannot_be_seen_is_named() -> None:
    assert in_print("a\u202eb\0\u2028") == "a<U+202E>b<U+0000><U+2028>"
    assert in_print("👨\u200d👩 </script>") == "👨\u200d👩 </script>"
