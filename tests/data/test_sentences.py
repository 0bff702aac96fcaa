"""Texts are divided into sentences, and these into pieces that fit, with nothing of them lost."""

import pytest
import sentencex
from hypothesis import given, settings
from hypothesis import strategies as st

from allyouneed.data.sentences import encode_parts, lost_sentences, split_sentences
from allyouneed.data.tokenizer import SMALLEST_VOCABULARY, Tokenizer
from allyouneed.errors import DataError

BYTES = Tokenizer.train([], "byte", SMALLEST_VOCABULARY)
WORDS = Tokenizer.train(["the cat sat on the mat, l'eau l'eau"] * 3, "bpe", 275)
HOSTILE = st.text(
    st.sampled_from([*"aA1.!?。…'\"“”«»()[]- \n\t\r\xa0\u3000\u2028\x85\u200bé\u0301\U0001f600।؟"]),
    max_size=60,
)
LANGUAGES = st.sampled_from(["", "en", "de", "fr", "ja", "zh", "hi", "ar", "ru", "am", "no-such"])


def on_a_line(text: str) -> str:
    """A text as a tokeniser writes it again."""
    return text.replace("\n", " ").replace("\r", " ")


def unspaced(text: str) -> str:
    """What of a text is no white space, nor looks like it."""
    return "".join(c for c in text if not c.isspace() and c not in "\u200b\u200c\u200d\u2060\ufeff")


@pytest.mark.parametrize(
    ("language", "text", "sentences"),
    [
        ("en", " Mr. Smith left. He met Dr. Jones at 3.30 p.m. in D.C. ",
         ["Mr. Smith left.", "He met Dr. Jones at 3.30 p.m. in D.C."]),
        ("", "Did they? Yes!  They did.", ["Did they?", "Yes!", "They did."]),
        ("de", "Das kostet z.B. 5 Euro. Wirklich?", ["Das kostet z.B. 5 Euro.", "Wirklich?"]),
        ("ja", "今日は晴れ。明日は雨。", ["今日は晴れ。", "明日は雨。"]),
        ("hi", "यह वाक्य है। यह दूसरा है।", ["यह वाक्य है।", "यह दूसरा है।"]),
        ("en", "A title\n\nThen a text", ["A title", "Then a text"]),
        ("en", "A\u00a0. B\u2028. C", ["A\u00a0. B\u2028. C"]),
        ("en", " \u200b ", []),
    ],
)  # fmt: skip
def test_sentences_end_where_readers_of_the_language_end_them(
    language: str, text: str, sentences: list[str]
) -> None:
    assert split_sentences(text, language) == sentences


@given(st.one_of(HOSTILE, st.text(max_size=60)), LANGUAGES)
@settings(max_examples=200)
def test_nothing_but_white_space_is_lost_between_sentences(text: str, language: str) -> None:
    sentences = split_sentences(text, language)
    assert unspaced("".join(sentences)) == unspaced(text)
    assert all(sentence == sentence.strip() and unspaced(sentence) for sentence in sentences)


def test_long_texts_have_the_sentences_that_they_have_in_pieces() -> None:
    text = "Mr. Smith went out. He met Dr. Jones! Did they talk? "
    assert split_sentences(text * 1_000, "en") == split_sentences(text, "en") * 1_000


def test_a_sentence_without_end_is_cut_at_white_space_where_there_is_some() -> None:
    parts = split_sentences("word " * 10_000, "en")
    assert len(parts) > 1
    assert set(" ".join(parts).split(" ")) == {"word"}
    assert "".join(split_sentences("x" * 10_000, "en")) == "x" * 10_000


@pytest.mark.parametrize(
    "unit",
    ["x", ".", "a.", "A. ", '"', "(", " ", '"(a. ', "1. ", "?!", "Mr. ", "今日は。", "“a. ", "。」", "[1]"],
)
def test_the_most_hostile_line_is_segmented_in_short_blocks_and_about_once(
    unit: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The library's time grows with the square of what it is given at once."""
    blocks: list[int] = []
    segment = sentencex.segment

    def counted(language: str, text: str) -> list[str]:
        blocks.append(len(text))
        return list(segment(language, text))

    monkeypatch.setattr(sentencex, "segment", counted)
    split_sentences((unit * 50_000)[:50_000], "en")
    assert max(blocks) <= 4_096
    assert sum(blocks) <= 2 * 50_000


@pytest.mark.parametrize("tokenizer", [BYTES, WORDS], ids=["byte", "bpe"])
@pytest.mark.parametrize("max_tokens", [5, 7, 40])
@given(HOSTILE.map(str.strip).filter(bool))
@settings(max_examples=60)
def test_parts_fit_and_hold_all_of_the_text(tokenizer: Tokenizer, max_tokens: int, text: str) -> None:
    pieces = list(encode_parts(text, tokenizer, max_tokens))
    assert max(len(ids) for _, _, ids in pieces) <= max_tokens
    written = [text[begin : begin + length] for begin, length, _ in pieces]
    assert [on_a_line(piece) for piece in written] == [tokenizer.decode(ids) for _, _, ids in pieces]
    assert unspaced("".join(written)) == unspaced(text)


def test_parts_end_at_white_space_or_else_between_tokens() -> None:
    def cut(text: str, max_tokens: int) -> list[str]:
        return [BYTES.decode(ids) for _, _, ids in encode_parts(text, BYTES, max_tokens)]

    assert cut("ab cde  fghijklmnop q", 7) == ["ab cde", "fghijkl", "mnop q"]
    assert cut("ääää", 5) == ["ää", "ää"]


def test_a_character_that_cannot_fit_is_told() -> None:
    with pytest.raises(DataError, match="a character has more than the 3 tokens"):
        list(encode_parts("a\U0001f600", BYTES, 3))


@pytest.mark.parametrize(
    ("text", "translation", "lost"),
    [
        ("A dog runs. A cat sleeps.", "Ein Hund rennt.", "has 2 sentences, its translation 1;"),
        ("A dog runs! A cat sleeps? A", "Ein Hund rennt. Er.", "has 3 sentences, its translation 2;"),
        ("犬が走る。猫が寝る。", "Ein Hund rennt.", "has 2 sentences, its translation 1;"),
        ("A dog runs. A cat sleeps.", "Ein Hund rennt. Eine Katze schläft.", None),
        ("A dog runs. A cat sleeps.", "", None),
        ("Mr. Smith runs at 3.30 p.m. in D.C.", "Er rennt", None),
        ("one sentence", "Ein Satz", None),
    ],
)
def test_sentences_are_lost_where_a_translation_has_fewer(
    text: str, translation: str, lost: str | None
) -> None:
    told = lost_sentences(text, translation, "", "de")
    assert told is None if lost is None else told is not None and told.startswith(lost)


def test_texts_that_seem_to_be_one_sentence_are_not_segmented(monkeypatch: pytest.MonkeyPatch) -> None:
    segmented: list[str] = []

    def segment(language: str, text: str) -> list[str]:
        segmented.append(text)
        return [text]

    monkeypatch.setattr("sentencex.segment", segment)
    for text in ("A dog runs.", "It costs 3.50 today", "no end", "A dog. Runs."):
        lost_sentences(text, "Ein Hund.", "en", "de")
    assert segmented == ["A dog. Runs."]


def test_marks_without_end_are_searched_once() -> None:
    """With closers and white space without bounds, each of a million marks would be followed to the end."""
    assert lost_sentences("." * 1_000_000, "x", "en", "de") is None
