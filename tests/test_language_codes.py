"""Tests of the one spelling of language codes."""

import pytest

from allyouneed.language_codes import is_language_code, primary_language


@pytest.mark.parametrize(
    ("language", "codes"),
    [
        ("de", ["de", "DE", "de-DE", "de_AT", "deu", "ger", "GER", "deu_Latn", "de-CH-1996", " de "]),
        ("zh", ["zh", "zh-Hans", "zh_CN", "zh-Hant-TW", "zho", "chi", "cmn", "cmn-Hans", "zho_Hans", "zt"]),
        ("pt", ["pt-BR", "pt_PT", "por", "pb"]),
        ("he", ["iw", "heb", "he-IL"]),
        ("fa", ["fa", "fas", "per", "pes", "prs", "fa_AF"]),
        ("nb", ["nb", "nob", "nb-NO"]),
        ("yue", ["yue", "yue-HK", "YUE"]),
        ("", [""]),
        ("tlh", ["tlh"]),
    ],
)
def test_a_code_with_a_region_a_script_capitals_or_three_letters_means_its_language(
    language: str, codes: list[str]
) -> None:
    assert {primary_language(code) for code in codes} == {language}


@pytest.mark.parametrize("code", ["de", "DE", "pt-BR", "deu", "iw", "yue", "tlh", "zh_Hans", "sr-Latn-RS"])
def test_codes_of_languages_are_told_from_words(code: str) -> None:
    assert is_language_code(code)
    assert not any(map(is_language_code, ["", "german", "germn", "xx", "cn", "jp", "d3", "c++"]))
