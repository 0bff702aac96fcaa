"""Sentences end where readers end them: not at ordinals, titles and initials, but at "Inc." before "She"."""

from pathlib import Path

import pytest

from allyouneed.data import sentence_ends
from allyouneed.data.lines import read_lines
from allyouneed.data.sentence_ends import Words, correct_ends, words_of
from allyouneed.data.sentences import sentence_spans, split_sentences

MARKED = Path(__file__).parent / "sentences"
LANGUAGES = sorted(path.stem for path in MARKED.glob("*.txt"))


def split_text(marked: str) -> tuple[str, list[str]]:
    """A text and its sentences from a line in which "|" marks their ends."""
    marked = marked.replace(" | ", "| ")
    return marked.replace("|", ""), [sentence.strip() for sentence in marked.split("|")]


@pytest.mark.parametrize("language", LANGUAGES)
def test_at_most_one_text_in_twenty_is_split_wrongly(language: str) -> None:
    texts = [split_text(line) for line in read_lines(MARKED / f"{language}.txt")]
    wrong = [text for text, sentences in texts if split_sentences(text, language) != sentences]
    assert len(wrong) <= len(texts) // 20, wrong


def test_few_of_the_texts_that_were_written_after_the_rules_are_split_wrongly() -> None:
    lines = [line.split("\t") for line in read_lines(MARKED / "written_last.tsv")]
    texts = [(language, *split_text(marked)) for language, marked in lines]
    wrong = [text for language, text, sentences in texts if split_sentences(text, language) != sentences]
    assert len(wrong) <= len(lines) // 10, wrong


def test_marked_texts_are_many_and_more_than_half_have_several_sentences() -> None:
    assert len(LANGUAGES) >= 12
    texts = [split_text(line) for each in LANGUAGES for line in read_lines(MARKED / f"{each}.txt")]
    assert len(texts) > 1_500
    assert sum(len(sentences) > 1 for _, sentences in texts) > len(texts) / 2


@pytest.mark.parametrize(
    ("language", "marked"),
    [
        ("de", "Der 2. Weltkrieg endete 1945."),
        ("de", "Im 19. Jahrhundert war der 1. FC Köln neu. | Er verlor 1945. | Dann kam der 3. Oktober."),
        ("fr", "M. Dupont habite à Paris. | C'est tout."),
        ("nb", "Den 3. mai kom hun. | Så gikk hun."),
        ("tr", "Ev 3. katta. | Asansör yok."),
        ("sv", "Det är t.ex. bra. | Men inte nu."),
        ("sl", "Dne 3. maja je prišla."),  # no words are listed for Slovene
        ("en", "He works for Acme Inc. | She left. | J. R. Smith of Acme Inc. Chairman died."),
        ("en", "Plan B. | It is cheaper. | J. De Vries agrees."),
        ("en", "DR. SMITH LEFT. | HE WAS ILL."),
        ("en", "He trusts me. | Tom left."),  # "me" is Maine, too
        ("en", "He left (see fig. 3). | “It is over,” she said. | “He left. He will not return.”"),
        ("en", "hi there. | how are you? | fine."),
        ("en", "1. Open the lid. | 2. Add water. | 3. Wait."),
        ("en", "He had 2. | Then he had 3."),
        ("en", "He left.| She came."),
        ("nl", "'s Avonds is het stil. | 's Nachts ook."),
        ("cs", "Jan Kos, Ph.D., přednáší. | Karel IV. žil dávno."),
        ("pl", "W 1939 r. Niemcy napadły na Polskę. | Wojna trwała do 1945 r. | Potem był pokój."),
        ("fr", "L'O.N.U. et J.-J. Rousseau, né av. J.-C. | Non."),
        ("zh", "“请进！”她喊道。|“好。”"),
        ("ja", "「来る？」と聞いた。|「うん。」"),
    ],
)  # fmt: skip
def test_words_around_a_full_stop_tell_whether_a_sentence_ends(language: str, marked: str) -> None:
    text, sentences = split_text(marked)
    assert split_sentences(text, language) == sentences


@pytest.mark.parametrize(
    ("codes", "text"),
    [
        (("de", "de-DE", "de_AT", "DE", "deu", "ger"), "Am 3. Oktober kam Müller, z. B. aus Bonn."),
        (("pt", "pt-BR", "pb", "por"), "O Exmo. Sr. Silva mora na Av. Paulista."),
        (("nb", "nn", "no", "nb-NO", "nob"), "Adv. Eva Holm svarer kgl. Majestet."),
    ],
)  # fmt: skip
def test_any_code_of_a_language_brings_its_rules(codes: tuple[str, ...], text: str) -> None:
    assert {code: split_sentences(text, code) for code in codes} == {code: [text] for code in codes}


def test_spans_are_those_of_the_sentences_without_white_space() -> None:
    text = "  Mr. Smith left.\u3000 \n\n He met Dr. Jones!\t"
    assert [text[begin:end] for begin, end in sentence_spans(text, "en")] == [
        "Mr. Smith left.",
        "He met Dr. Jones!",
    ]
    assert sentence_spans(" \u200b ", "en") == []


def test_an_empty_line_ends_a_sentence_also_after_an_abbreviation() -> None:
    assert split_sentences("See Dr.\n\nSmith", "en") == ["See Dr.", "Smith"]
    assert split_sentences("See Dr.\nSmith", "en") == ["See Dr.\nSmith"]


def test_a_quotation_mark_opens_what_follows() -> None:
    text = 'A said. " B'
    assert correct_ends(text, 0, len(text), {9, len(text)}, "en") == [8, len(text)]
    assert correct_ends(' "', 0, 2, {2}, "en") == [2]


@pytest.mark.parametrize("unit", ["A. ", "1. ", "Mr. ", "z. B. ", '"The art. The ', "… ", "a.\n", "1", "."])
def test_looks_at_a_bounded_part_of_a_hostile_text_at_each_mark(
    unit: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked: list[int] = []
    judged = sentence_ends._abbreviation

    def counted(last: str, before: str, word: str, starts: bool, words: Words) -> bool | None:
        looked.append(len(last) + len(before))
        return judged(last, before, word, starts, words)

    monkeypatch.setattr(sentence_ends, "_abbreviation", counted)
    text = (unit * 30_000)[:30_000]
    sentence_spans(text, "de")
    assert max(looked, default=0) <= 40
    assert len(looked) <= 2 * text.count(".")


def test_listed_words_keep_to_the_case_that_they_are_looked_up_in() -> None:
    for language in LANGUAGES:
        words = words_of(language)
        assert not words.opening & words.whole
        assert all(word == word.lower() for word in words.starters | words.determiners)
