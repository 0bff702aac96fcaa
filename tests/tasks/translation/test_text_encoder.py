"""Texts are divided into parts that fit, with nothing of them lost."""

from itertools import chain

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.data.test_sentences import BYTES, HOSTILE, on_a_line, unspaced
from tests.packages import require_packages

from allyouneed.config.run import DataConfig
from allyouneed.data.lines import is_blank
from allyouneed.data.sentencepiece_tokenizer import SentencePieceTokenizer
from allyouneed.data.sentences import Divided, TextPart
from allyouneed.data.tokenizer import Tokenizer
from allyouneed.errors import DataError
from allyouneed.symbols import CONTROL_SYMBOLS
from allyouneed.tasks.requests import TranslateConfig
from allyouneed.tasks.translation.text_encoder import TextEncoder


class Divider:
    """A `TextEncoder` of texts in a language that divides them in one way."""

    def __init__(
        self,
        tokenizer: Tokenizer,
        max_tokens: int,
        language: str = "",
        *,
        preferred_tokens: int | None = None,
        sentences: bool = False,
        cut: bool = True,
    ) -> None:
        data = DataConfig(max_tokens=preferred_tokens or max_tokens, source_language=language)
        self.encoder = TextEncoder(tokenizer, tokenizer, data, max_tokens + 1, takes_prefixes=True)
        self.config = TranslateConfig(split_sentences=sentences, too_long="split" if cut else "error")

    def divide(self, text: str) -> Divided:
        """The parts without their texts."""
        divided = self.encoder.divide(text, self.config)
        return divided._replace(parts=[part._replace(text="") for part in divided.parts])


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


@pytest.mark.parametrize("sentences", [True, False])
def test_parts_have_their_texts_and_what_is_between_them(sentences: bool) -> None:
    text = "One cat, two cats.  10:30. Two\u00a0dogs. " + "-" * 50 + " a b"
    divider = Divider(BYTES, 9, sentences=sentences)
    divided = divider.encoder.divide(text, divider.config)
    assert "".join(part.before + part.text for part in divided.parts) + divided.after == text
    assert all(BYTES.encode(part.text) == part.ids for part in divided.parts if part.ids)


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
