"""Lines are translated as documents, which are split back, or repaired where the count is wrong."""

from collections.abc import Iterable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from allyouneed.errors import DataError
from allyouneed.tasks.requests import Answer, Failure, TranslationRequest
from allyouneed.tasks.translation.line_documents import SEPARATOR, DocumentTranslator, joined, parted
from allyouneed.tasks.translation.outputs import Translation

Asked = TranslationRequest | Failure


class Upper:
    """Translates into upper case; forgets the separator before `forgotten`, cuts `cut`, refuses `long`."""

    config: Any = SimpleNamespace(data=SimpleNamespace(max_tokens=12))
    separator_tokens = 1

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.tokenizers = (SimpleNamespace(encode=self.encode, languages={">>de<<": 5, ">>fr<<": 6}), None)

    def encode(self, text: str) -> list[int]:
        if "long" in text:
            raise DataError("too long")
        return [1] * sum(self.separator_tokens if word == SEPARATOR else 1 for word in text.split())

    def answer(self, requests: Iterable[Asked], **options: Any) -> Iterator[Any]:
        for request in requests:
            if isinstance(request, Failure) or "long" in request.text:
                yield Failure(request.id, DataError("too long"))
                continue
            self.asked.append(request.text)
            text = request.text.replace(f"{SEPARATOR} forgotten", "forgotten").upper()
            notices = ("a notice",) if "notice" in text.lower() else ()
            yield Answer(request.id, [Translation(text, -1.0, is_cut="cut" in text.lower())], notices)


def translated(*lines: str, most_lines: int = 3) -> tuple[list[str | None], list[str], DocumentTranslator]:
    """The translation of each line, None for a failure; what was asked; and the translator."""
    upper: Any = Upper()
    documents = DocumentTranslator(upper, most_lines)
    answers = [*documents.answer(map(TranslationRequest, range(len(lines)), lines))]
    assert [answer.id for answer in answers] == [*range(len(lines))]
    found = [None if isinstance(answer, Failure) else answer.result[0].text for answer in answers]
    return found, upper.asked, documents


@given(st.lists(st.text(alphabet="ab c", min_size=1).map(str.strip), min_size=1))
def test_a_document_has_the_lines_that_it_was_joined_of(lines: list[str]) -> None:
    assert parted(joined(lines)) == lines


def test_a_document_has_up_to_so_many_lines_and_ends_before_a_blank_line() -> None:
    found, asked, documents = translated("a", "b", "c", "d", "", "e", "f")
    assert found == ["A", "B", "C", "D", "", "E", "F"]
    assert asked == ["a ¶ b ¶ c", "d", "", "e ¶ f"]
    assert (documents.num_documents, documents.num_repaired) == (2, 0)


def test_a_document_is_in_one_language_whose_symbol_it_has_once() -> None:
    lines = ">>fr<< a", ">>fr<< b", ">>de<< c", "d", ">>xx<< e"
    assert translated(*lines)[1] == [">>fr<< a ¶ b", ">>de<< c", "d ¶ >>xx<< e"]


def test_a_document_has_no_more_tokens_than_the_pairs_that_were_trained_on() -> None:
    lines = (
        "a b c d e",
        "f g h i j",
        "k",
        "l m n o p q r s t u v w x",
        "y",
    )  # with separators: 6, 6, 2, 14, 2
    assert translated(*lines)[1] == ["a b c d e ¶ f g h i j", "k", lines[3], "y"]


def test_the_separator_counts_as_all_of_its_tokens(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Upper, "separator_tokens", 2)
    assert translated("a b c d e", "f g h i j", "k")[1] == ["a b c d e", "f g h i j ¶ k"]


def test_the_notices_of_a_document_are_with_its_first_line() -> None:
    upper: Any = Upper()
    asked = [TranslationRequest(number, text) for number, text in enumerate(["a", "notice", "", "b"])]
    answers = [*DocumentTranslator(upper, 3).answer(asked)]
    assert [getattr(each, "notices", None) for each in answers] == [("a notice",), (), (), ()]


@pytest.mark.parametrize("bad", ["forgotten", "cut"])
def test_a_document_that_comes_back_otherwise_is_translated_line_by_line(bad: str) -> None:
    found, asked, documents = translated("a", bad, "c", "d", "e")
    assert found == ["A", bad.upper(), "C", "D", "E"]
    assert asked == [f"a ¶ {bad} ¶ c", "a", bad, "c", "d ¶ e"]
    assert (documents.num_documents, documents.num_repaired) == (2, 1)


@pytest.mark.parametrize(("alone", "becomes"), [("x ¶ y", "X ¶ Y"), ("long", None)])
def test_a_line_that_cannot_be_joined_to_others_is_asked_for_alone(alone: str, becomes: str | None) -> None:
    found, asked, documents = translated("a", "b", alone, "c")
    assert found == ["A", "B", becomes, "C"]
    assert asked == ["a ¶ b", *([alone] if becomes else []), "c"]
    assert documents.num_repaired == 0
