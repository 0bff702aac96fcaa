"""English names of languages."""

import pytest

from allyouneed.data.language_names import language_code, language_name


@pytest.mark.parametrize(
    ("code", "name"),
    [
        ("de", "German"),
        ("DE", "German"),
        ("nb", "Norwegian Bokmål"),
        ("hsb", "Upper Sorbian"),
        ("fy", "Western Frisian"),
        ("pt-BR", "Portuguese (Brazil)"),
        ("zh_Hans", "Chinese (Simplified)"),
        ("zh-Hant-HK", "Chinese (Traditional, Hong Kong)"),
        ("en-IN", "English (IN)"),
        ("deu", "German"),
        ("pb", "Portuguese (Brazil)"),
        ("zh_TW", "Chinese (Traditional)"),
    ],
)
def test_a_language_has_its_english_name(code: str, name: str) -> None:
    assert language_name(code) == name


@pytest.mark.parametrize("code", ["toy", "Toy", "", "x-y", "tree"])
def test_an_unknown_code_is_its_own_name(code: str) -> None:
    assert language_name(code) == code


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("German", "de"),
        ("norwegian bokmål", "nb"),
        ("Simplified Chinese", "zh-hans"),
        ("de", "de"),
        ("pt_BR", "pt_BR"),
        ("deu", "deu"),
        ("the", None),
        ("", None),
    ],
)
def test_a_name_or_a_code_is_of_a_language_or_of_none(name: str, code: str | None) -> None:
    assert language_code(name) == code
