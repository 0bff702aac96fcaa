"""Each convention of BLEU counts the tokens that it says it counts."""

import pytest

from allyouneed.evaluation import Metric, bleu_13a, translation_metrics
from allyouneed.evaluation.conventions import EXPLANATIONS, split_compounds

METRICS: dict[str, Metric] = {metric.__name__: metric for metric in translation_metrics("de", [])[:-1]}


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
