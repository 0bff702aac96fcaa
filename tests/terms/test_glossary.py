"""A glossary finds its terms in a text, and says which line of its file is wrong."""

from pathlib import Path

import pytest

from allyouneed.errors import DataError
from allyouneed.terms.glossary import Glossary


def glossary(folder: Path, content: str) -> Glossary:
    (folder / "terms.tsv").write_bytes(content.encode())
    return Glossary.read(folder / "terms.tsv")


def found(terms: Glossary, text: str) -> list[tuple[str, tuple[str, ...]]]:
    return [(text[term.begin : term.end], term.forms) for term in terms.terms(text)]


def test_the_longest_terms_are_found_as_whole_words(tmp_path: Path) -> None:
    terms = glossary(tmp_path, "ice\tEis\nice cream\tSpeiseeis|Eiscreme\tnote\n\nice cream van\tEiswagen\r\n")
    assert found(terms, "an ice cream, ice and iced tea") == [
        ("ice cream", ("Speiseeis", "Eiscreme")),
        ("ice", ("Eis",)),
    ]


def test_small_letters_fit_any_case_and_carry_the_first_letter_over(tmp_path: Path) -> None:
    terms = glossary(tmp_path, "dog\thund\nApple\tApple\nUS\tUSA\n")
    assert found(terms, "a dog") == [("dog", ("hund", "Hund"))]
    assert found(terms, "the Dog, the DOG") == [("Dog", ("Hund",)), ("DOG", ("Hund",))]
    assert found(terms, "Dog food") == [("Dog", ("hund", "Hund"))]
    assert found(terms, "apple, us") == []
    assert found(terms, "Apple, US") == [("Apple", ("Apple",)), ("US", ("USA",))]


def test_occurrences_are_counted_as_whole_words(tmp_path: Path) -> None:
    [term] = glossary(tmp_path, "dog\tHund|C++\n").terms("a dog")
    assert term.count_in("Hund, Hundehütte und Hund. C++!") == 3
    [term] = glossary(tmp_path, "contract\tVertrag|Vertrag mit Dritten\n").terms("a contract")
    assert term.count_in("ein Vertrag mit Dritten") == 1


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("dog\tHund\ncat\n", "terms.tsv:2: has 1 columns; write SOURCE TAB TARGET"),
        ("a\tb\tc\td\n", "terms.tsv:1: has 4 columns"),
        ("dog\tHund|\n", "terms.tsv:1: a term or a form is empty"),
        ("\tHund\n", "terms.tsv:1: a term or a form is empty"),
        ("dog\tHund\ndog\tKatze\n", "terms.tsv:2: 'dog' has another translation in line 1"),
        ("\n", "terms.tsv: has no terms"),
        ("a\t" + "b" * 2_000, "terms.tsv:1: a term has more than 1,024 characters"),
    ],
)
def test_a_wrong_line_is_named(tmp_path: Path, content: str, message: str) -> None:
    with pytest.raises(DataError) as raised:
        glossary(tmp_path, content)
    assert message in raised.value.messages[0]


def test_lines_that_are_not_utf_8_are_named(tmp_path: Path) -> None:
    (tmp_path / "terms.tsv").write_bytes(b"a\tb\nc\t\xff\n")
    with pytest.raises(DataError, match=r"terms\.tsv:2:3"):
        Glossary.read(tmp_path / "terms.tsv")


def test_terms_of_very_many_words_are_refused_and_other_long_texts_take_no_longer(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="more than 64 words; shorten it"):
        glossary(tmp_path, f"b{'.' * 100}\tx\n")
    terms = glossary(tmp_path, f"b{'.' * 60}\tx\n")
    assert found(terms, "." * 200_000) == []
