"""Tests of the one spelling of language codes."""

import pytest

from allyouneed.language_codes import (
    are_same,
    closest_code,
    codes_of_direction,
    is_language_code,
    primary_language,
    standard_code,
)


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


@pytest.mark.parametrize(
    ("name", "codes"),
    [
        ("en-de", ("en", "de")),
        ("en-pt-BR", ("en", "pt-BR")),
        ("zh-Hans-en", ("zh-Hans", "en")),
        ("en-pt_BR", ("en", "pt_BR")),
        ("en", None),
        ("en-", None),
        ("en-de-fr", None),
        ("en-d", None),
        ("en-\u00e4\u00f6", None),
    ],
)
def test_a_direction_is_two_codes(name: str, codes: tuple[str, str] | None) -> None:
    assert codes_of_direction(name) == codes


@pytest.mark.parametrize("code", ["de", "DE", "pt-BR", "deu", "iw", "yue", "tlh", "zh_Hans", "sr-Latn-RS"])
def test_codes_of_languages_are_told_from_words(code: str) -> None:
    assert is_language_code(code)
    assert not any(map(is_language_code, ["", "german", "germn", "xx", "cn", "jp", "d3", "c++"]))


@pytest.mark.parametrize(
    ("asked", "served", "expected"),
    [
        ("de-DE", ["en", "de"], "de"),
        ("DE", ["de"], "de"),
        ("deu", ["de"], "de"),
        ("ger_Latn", ["de"], "de"),
        ("de", ["deu"], "deu"),
        ("EN-US", ["en_gb", "en"], "en"),
        ("EN-US", ["en_gb"], "en_gb"),
        ("de-AT", ["de-ch", "de"], "de"),
        ("pt", ["en", "pt_br", "pt_pt"], "pt_br"),
        ("pb", ["pt", "pt-BR"], "pt-BR"),
        ("pt-BR", ["pt", "pb"], "pb"),
        ("zh_CN", ["zh-Hant", "zh-Hans"], "zh-Hans"),
        ("zh-TW", ["zh-Hans", "zh-Hant"], "zh-Hant"),
        ("zho_Hant", ["zh", "zt"], "zt"),
        ("zh-Hant-HK", ["zh", "zh_tw"], "zh_tw"),
        ("zh", ["zt", "zh_hans"], "zh_hans"),
        ("zh", ["zt"], "zt"),
        ("zh-XX", ["zh-Hans", "zh-Hant"], "zh-Hans"),
        ("NB", ["no"], "no"),
        ("nn", ["no"], None),
        ("tl", ["fil"], "fil"),
        ("srp", ["sh"], "sh"),
        ("iw", ["he"], "he"),
        ("fr", ["de", "en"], None),
        ("", ["de"], None),
    ],
)
def test_the_closest_variant_is_meant(asked: str, served: list[str], expected: str | None) -> None:
    assert closest_code(asked, served) == expected


@pytest.mark.parametrize(
    ("asked", "served"), [("zh-Hant", "zh"), ("zh_TW", "zh-Hans"), ("sr-Cyrl", "sr-Latn")]
)
def test_another_script_is_read_but_not_written(asked: str, served: str) -> None:
    assert closest_code(asked, [served]) is None
    assert closest_code(asked, [served], is_source=True) == served


def test_variants_in_the_same_script_are_the_same_language() -> None:
    assert are_same("pt", "pt-BR")
    assert are_same("zh", "zh_CN")
    assert not are_same("zh", "zh-Hant")
    assert not are_same("zt", "zh")
    assert not are_same("de", "en")


def test_codes_are_spelled_as_by_bcp_47() -> None:
    codes = ["zt", "zt_TW", "pb", "zh", "ZH_hans", "es_419", "deu", "sr_latn_rs", "toy"]
    expected = ["zh-Hant", "zh-Hant-TW", "pt-BR", "zh", "zh-Hans", "es-419", "de", "sr-Latn-RS", "toy"]
    assert [standard_code(code) for code in codes] == expected
