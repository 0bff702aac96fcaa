"""Each convention of BLEU counts the tokens that it says it counts.

Which metrics a language has, and what is said about those that it has not.
"""

import sys

import pytest

from allyouneed.evaluation.bleu import bleu_13a
from allyouneed.evaluation.metrics import (
    BESIDE_BLEU,
    EXPLANATIONS,
    bleu_on_moses_tokens,
    bleu_on_plain_text,
    split_compounds,
    translation_metrics,
)
from allyouneed.evaluation.scores import Metric

METRICS: dict[str, Metric] = {
    metric.__name__: metric for metric in translation_metrics("de", []) if metric not in BESIDE_BLEU
}


def test_every_convention_is_explained() -> None:
    of_other_tokens = [f"bleu_{tokens}" for tokens in ("zh", "ja_mecab", "ko_mecab", "char")]
    assert [*METRICS, *of_other_tokens] == list(EXPLANATIONS)


def test_compounds_are_split_as_by_the_script() -> None:
    # perl -ple 's{(\\S)-(\\S)}{$1 ##AT##-##AT## $2}g'
    assert split_compounds("rich-text format") == "rich ##AT##-##AT## text format"
    assert split_compounds("a - b -c x-y-z") == "a - b -c x ##AT##-##AT## y-z"


def test_only_the_lower_cased_ones_forgive_case() -> None:
    hypotheses, references = ["EIN MANN LÄUFT SCHNELL"], ["ein Mann läuft schnell"]
    forgiving = {name for name, metric in METRICS.items() if metric(hypotheses, references).value > 99}
    assert forgiving == {name for name in METRICS if "lowercased" in name}


def test_where_words_are_parted_at_hyphens_their_parts_can_match() -> None:
    hypotheses, references = ["der alte Nord-Süd Weg ist lang"], ["der alte Nord-Ost Weg ist lang"]
    split, whole = (
        METRICS[f"bleu_moses{kind}"](hypotheses, references).value for kind in ("_compounds_split", "")
    )
    assert split > whole


def test_unicode_punctuation_is_a_token_by_mteval_v14_only() -> None:
    hypotheses, references = ["er sagt „ja“ zu ihr heute"], ["er sagt „nein“ zu ihr heute"]
    assert METRICS["bleu_intl"](hypotheses, references).value > bleu_13a(hypotheses, references).value


def test_the_signatures_are_all_different_and_say_how() -> None:
    text = ["ein Mann läuft schnell"]
    signatures = {name: metric(text, text).signature for name, metric in METRICS.items()}
    assert len(set(signatures.values())) == len(signatures)
    split = signatures["bleu_moses_compounds_split"]
    assert "tok:moses-de-punctuation-replaced-compounds-split" in split
    assert "tok:intl" in signatures["bleu_intl_lowercased"]
    assert "case:lc" in signatures["bleu_intl_lowercased"]


@pytest.mark.parametrize("name", METRICS)
def test_equal_text_scores_a_hundred(name: str) -> None:
    text = ["„Ein Nord-Süd-Weg“, sagt er – und läuft schnell."]
    assert METRICS[name](text, text).value == pytest.approx(100)


PLAIN, MOSES, OTHERS = (
    [metric.__name__ for metric in metrics]
    for metrics in (bleu_on_plain_text(), bleu_on_moses_tokens("de"), BESIDE_BLEU)
)
ZH = ["今天天气很好。"]


def metrics_of(language: str, references: list[str]) -> tuple[list[str], list[str]]:
    """Names of the metrics of a language, and what is said."""
    said: list[str] = []
    return [metric.__name__ for metric in translation_metrics(language, references, said.append)], said


@pytest.mark.parametrize("code", ["de", "pt-BR", "de-AT", "DE", "deu", "en_US"])
def test_a_language_that_moses_knows_has_all_metrics_however_it_is_written(code: str) -> None:
    assert metrics_of(code, ["ein Satz"]) == ([*PLAIN, *MOSES, *OTHERS], [])
    _, *others = translation_metrics(code, [])
    moses = next(metric for metric in others if metric.__name__ == "bleu_lowercased_moses")
    language = {"pt-BR": "pt", "en_US": "en"}.get(code, "de")
    assert f"tok:moses-{language}-normalised" in moses(["x"], ["x"]).signature


@pytest.mark.parametrize("code", ["tr", "ar", "he", "uk", "da", "nb", "bg", "vi", "iw-IL"])
def test_a_language_that_moses_does_not_know_has_the_others(code: str) -> None:
    names, (told,) = metrics_of(code, ["a b c"])
    assert names == [*PLAIN, *OTHERS]
    assert told.startswith("BLEU on Moses tokens is left out: Moses has no rules for the language '")


@pytest.mark.parametrize("code", ["germn", "german", "xx", "c++"])
def test_a_code_of_no_language_is_named(code: str) -> None:
    names, (told,) = metrics_of(code, ["a b c"])
    assert names == [*PLAIN, *OTHERS]
    assert told == (
        f"BLEU on Moses tokens is left out: give another target_language than '{code}', "
        "which is no code of ISO 639"
    )


def test_without_a_language_or_sacremoses_there_are_no_moses_tokens(monkeypatch: pytest.MonkeyPatch) -> None:
    assert metrics_of("", ["a b"]) == (
        [*PLAIN, *OTHERS],
        ["BLEU on Moses tokens is left out: give target_language"],
    )
    monkeypatch.setitem(sys.modules, "sacremoses", None)
    names, (told,) = metrics_of("de", ["a b"])
    assert names == [*PLAIN, *OTHERS]
    assert told.endswith("pip install 'allyouneed[moses]'")


@pytest.mark.parametrize(
    ("code", "bleu"), [("zh", "bleu_zh"), ("zh-TW", "bleu_zh"), ("yue", "bleu_zh"), ("km", "bleu_char")]
)
def test_a_language_without_spaces_has_no_bleu_on_words(code: str, bleu: str) -> None:
    names, (told,) = metrics_of(code, ZH)
    assert names == [bleu, *OTHERS]
    assert told.startswith("BLEU on words (13a, intl and Moses tokens) is left out: '")
    assert told.endswith("' is written without spaces")


def test_references_without_spaces_in_no_known_language_recommend_chrf_and_to_name_it() -> None:
    names, (told,) = metrics_of("", ZH)
    assert names == ["bleu_char", *OTHERS]
    assert told.endswith("the references have hardly any spaces; report chrF, or give target_language")
    assert "than 'cn', which is no code" in metrics_of("cn", ZH)[1][0]


def test_korean_words_or_characters_come_before_those_of_all_languages() -> None:
    names, _ = metrics_of("ko", ["안녕하세요 여러분"])
    assert names[0] in {"bleu_char", "bleu_ko_mecab"}
    assert names[1:] == [*PLAIN, *OTHERS]
