"""Which metrics a language has, and what is said about those that it has not."""

import sys

import pytest

from allyouneed.evaluation.metrics import translation_metrics

PLAIN = ["bleu_13a", "bleu_13a_lowercased", "bleu_intl", "bleu_intl_lowercased"]
MOSES = ["bleu_moses", "bleu_lowercased_moses", "bleu_moses_compounds_split"]
ZH = ["今天天气很好。"]


def metrics_of(language: str, references: list[str]) -> tuple[list[str], list[str]]:
    """Names of the metrics of a language, and what is said."""
    said: list[str] = []
    return [metric.__name__ for metric in translation_metrics(language, references, said.append)], said


@pytest.mark.parametrize("code", ["de", "pt-BR", "de-AT", "DE", "deu", "en_US"])
def test_a_language_that_moses_knows_has_all_metrics_however_it_is_written(code: str) -> None:
    assert metrics_of(code, ["ein Satz"]) == ([*PLAIN, *MOSES, "chrf"], [])
    _, *others = translation_metrics(code, [])
    moses = next(metric for metric in others if metric.__name__ == "bleu_lowercased_moses")
    language = {"pt-BR": "pt", "en_US": "en"}.get(code, "de")
    assert f"tok:moses-{language}-normalised" in moses(["x"], ["x"]).signature


@pytest.mark.parametrize("code", ["tr", "ar", "he", "uk", "da", "nb", "bg", "vi", "iw-IL"])
def test_a_language_that_moses_does_not_know_has_the_others(code: str) -> None:
    names, (told,) = metrics_of(code, ["a b c"])
    assert names == [*PLAIN, "chrf"]
    assert told.startswith("BLEU on Moses tokens is left out: Moses has no rules for the language '")


@pytest.mark.parametrize("code", ["germn", "german", "xx", "c++"])
def test_a_code_of_no_language_is_named(code: str) -> None:
    names, (told,) = metrics_of(code, ["a b c"])
    assert names == [*PLAIN, "chrf"]
    assert told == (
        f"BLEU on Moses tokens is left out: give another target_language than '{code}', "
        "which is no code of ISO 639"
    )


def test_without_a_language_or_sacremoses_there_are_no_moses_tokens(monkeypatch: pytest.MonkeyPatch) -> None:
    assert metrics_of("", ["a b"]) == (
        [*PLAIN, "chrf"],
        ["BLEU on Moses tokens is left out: give target_language"],
    )
    monkeypatch.setitem(sys.modules, "sacremoses", None)
    names, (told,) = metrics_of("de", ["a b"])
    assert names == [*PLAIN, "chrf"]
    assert told.endswith("pip install 'allyouneed[moses]'")


@pytest.mark.parametrize(
    ("code", "bleu"), [("zh", "bleu_zh"), ("zh-TW", "bleu_zh"), ("yue", "bleu_zh"), ("km", "bleu_char")]
)
def test_a_language_without_spaces_has_no_bleu_on_words(code: str, bleu: str) -> None:
    names, (told,) = metrics_of(code, ZH)
    assert names == [bleu, "chrf"]
    assert told.startswith("BLEU on words (13a, intl and Moses tokens) is left out: '")
    assert told.endswith("' is written without spaces")


def test_references_without_spaces_in_no_known_language_recommend_chrf_and_to_name_it() -> None:
    names, (told,) = metrics_of("", ZH)
    assert names == ["bleu_char", "chrf"]
    assert told.endswith("the references have hardly any spaces; report chrF, or give target_language")
    assert "than 'cn', which is no code" in metrics_of("cn", ZH)[1][0]


def test_korean_words_or_characters_come_before_those_of_all_languages() -> None:
    names, _ = metrics_of("ko", ["안녕하세요 여러분"])
    assert names[0] in {"bleu_char", "bleu_ko_mecab"}
    assert names[1:] == [*PLAIN, "chrf"]
