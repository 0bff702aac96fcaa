"""Texts are divided into sentences, and into parts that fit, with nothing of them lost."""

from itertools import chain

import pytest
import sentencex
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.packages import require_packages

from allyouneed.data.lines import is_blank
from allyouneed.data.sentencepiece_tokenizer import SentencePieceTokenizer
from allyouneed.data.sentences import (
    Divided,
    Divider,
    TextPart,
    encode_parts,
    lost_sentences,
    split_sentences,
)
from allyouneed.data.tokenizer import SMALLEST_VOCABULARY, Tokenizer
from allyouneed.errors import DataError
from allyouneed.symbols import CONTROL_SYMBOLS

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


def of(*parts: str, before: str = " ") -> list[TextPart]:
    return [TextPart(BYTES.encode(text), before if number else "") for number, text in enumerate(parts)]


def test_a_text_is_whole_if_it_fits_and_in_sentences_if_these_are_wanted() -> None:
    text = "One cat. Two."
    assert Divider(BYTES, 40).divide(text) == Divided(of(text))
    expected = of("One cat.", "Two.")
    assert Divider(BYTES, 40, sentences=True).divide(text) == Divided(expected)
    told = "13 tokens, more than the maximum of 9; translated in 2 parts"
    assert Divider(BYTES, 9).divide(text) == Divided(expected, notices=(told,))
    for blank in ("", " ", "\u3000\u200b"):
        assert Divider(BYTES, 9, sentences=True).divide(blank) == Divided([TextPart([])], blank)
        assert Divider(BYTES, 9).divide(blank) == Divided([TextPart([])])


def test_a_text_longer_than_preferred_is_cut_at_the_ends_of_sentences_only() -> None:
    text = "One cat. Two."
    divided = Divider(BYTES, 40, preferred_tokens=12).divide(text)
    told = "13 tokens, more than data.max_tokens = 12; translated in 2 parts"
    assert divided == Divided(of("One cat.", "Two."), notices=(told,))
    for whole in ("One cat and two.", " one cat, and two"):
        assert Divider(BYTES, 40, preferred_tokens=12).divide(whole) == Divided(of(whole))
    assert Divider(BYTES, 40, preferred_tokens=13).divide(text) == Divided(of(text))
    assert Divider(BYTES, 40, preferred_tokens=12, cut=False).divide(text) == Divided(of(text))
    assert len(Divider(BYTES, 5, preferred_tokens=12).divide(text).parts) == 3


@given(HOSTILE, st.booleans(), st.sampled_from([7, 40]))
@settings(max_examples=100)
def test_a_text_is_its_parts_and_the_white_space_around_them(text: str, sentences: bool, most: int) -> None:
    divided = Divider(BYTES, most, sentences=sentences).divide(text)
    parts = [part.kept or BYTES.decode(part.ids) for part in divided.parts]
    before = [part.before for part in divided.parts]
    whole = on_a_line("".join(chain(*zip(before, parts, strict=True), [divided.after])))
    assert whole == on_a_line(text) if sentences else unspaced(whole) == unspaced(text)
    assert is_blank("".join([*before, divided.after]))


@pytest.mark.parametrize(
    "text", ["|", "---", "...", "•", "€", "10:30", "1️⃣ #️⃣", "( )", "* * *", "1.234,5", "½", "3.º", "🌷", "—?!"]
)
def test_a_text_without_letters_stays_as_it_is(text: str) -> None:
    for around in (text, f" {text}\t"):
        assert Divider(BYTES, 40).divide(around) == Divided([TextPart([], kept=around)])
        divided = Divider(BYTES, 40, sentences=True).divide(around)
        assert "".join(part.before + part.kept for part in divided.parts) + divided.after == around


@pytest.mark.parametrize("text", ["a", "5 km", "§ a", "三", "1ª A", "ー", "क", "№ x"])
def test_a_text_with_a_letter_is_translated(text: str) -> None:
    assert Divider(BYTES, 40).divide(text) == Divided(of(text))


def test_sentences_without_letters_stay_as_they_are_among_others_however_long() -> None:
    text = "One cat.  10:30. Two. " + "-" * 50
    parts = of("One cat.")
    parts += [TextPart([], "  ", "10:30."), TextPart(BYTES.encode("Two."), " "), TextPart([], " ", "-" * 50)]
    assert Divider(BYTES, 9, sentences=True).divide(text).parts == parts
    assert Divider(BYTES, 9).divide(text).parts == parts


def test_a_single_space_is_what_the_language_puts_between_sentences_and_other_white_space_is_kept() -> None:
    divided = Divider(BYTES, 40, sentences=True).divide(" One.  Two. Three.\tFour. ... Five.\n")
    assert divided.separators("") == [" ", "  ", "", "\t", " ", " ", "\n"]
    assert Divider(BYTES, 40, "zh", sentences=True).divide("你好。再见。").separators(" ") == ["", " ", ""]
    divided = Divider(BYTES, 60, "ja", sentences=True).divide("はい。（１２３）！いいえ。")
    assert (len(divided.parts), divided.separators(" ")) == (3, ["", " ", " ", ""])


def test_what_is_too_long_is_an_error_where_it_is_not_to_be_cut() -> None:
    with pytest.raises(DataError, match="has 13 tokens, more than the maximum of 9"):
        Divider(BYTES, 9, cut=False).divide("One cat. Two.")
    assert len(Divider(BYTES, 9, sentences=True, cut=False).divide("One cat. Two.").parts) == 2
    with pytest.raises(DataError, match="has 10 tokens, more than the maximum of 9"):
        Divider(BYTES, 9, sentences=True, cut=False).divide("One. Two cats.!")


@pytest.mark.parametrize("sentences", [True, False])
def test_half_a_surrogate_pair_is_told_with_its_place(sentences: bool) -> None:
    with pytest.raises(DataError, match="half a surrogate pair at character 5; remove it"):
        Divider(BYTES, 9, sentences=sentences).divide("One.\ud800")


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


def test_every_part_begins_with_the_symbol_of_the_language() -> None:
    require_packages("sentencepiece")
    plain = SentencePieceTokenizer.learn(["A dog runs. The cat sleeps."] * 20, 279)
    names = [*plain.names[len(CONTROL_SYMBOLS) :], ">>fra<<"]
    tokenizer = SentencePieceTokenizer.from_model(plain.model, names)
    french = tokenizer.vocab_size - 1
    text = "A dog runs. The cat sleeps."
    for divider in (
        Divider(tokenizer, 90, sentences=True),
        Divider(tokenizer, len(plain.encode(text))),  # the symbol is one too many
        Divider(tokenizer, 90, preferred_tokens=len(plain.encode(text))),
    ):
        divided = divider.divide(f">>fra<< {text}")
        sentences = ["A dog runs.", "The cat sleeps."]
        assert [part.ids for part in divided.parts] == [[french, *plain.encode(each)] for each in sentences]
    assert Divider(tokenizer, 90).divide(">>fra<< ").parts == [TextPart([])]
    assert Divider(tokenizer, 90).divide(">>fra<< ...").parts == [TextPart([], kept=">>fra<< ...")]
    in_sentences = Divider(tokenizer, 90, sentences=True).divide(">>fra<<  A dog.  10:30. The cat.")
    assert [(part.before, part.kept) for part in in_sentences.parts] == [
        ("", ""),
        ("  ", ">>fra<<  10:30."),
        (" ", ""),
    ]
