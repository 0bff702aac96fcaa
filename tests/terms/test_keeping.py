"""Translations keep spans and terms, whatever the model would rather write, and say what they lack."""

import copy
import json
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from tests.terms.ui_strings import ui_strings

from allyouneed.cli.request_lines import JsonLines, LineRequest
from allyouneed.config.run import DataConfig
from allyouneed.data.lines import Line
from allyouneed.data.spans import Spans
from allyouneed.errors import DataError, UsageError
from allyouneed.tasks.requests import Answer, Failure, RequiredTerm, TranslationRequest
from allyouneed.tasks.translation.outputs import KeptPart, Translation
from allyouneed.tasks.translation.translator import Translator
from allyouneed.terms.glossary import Glossary
from allyouneed.terms.keeping import Attempt, Attempts, KeepingTranslator, Kept, Outcome, next_step
from allyouneed.terms.translation_memory import TranslationMemory

SENTENCES = ["sun moon", "bird sees fish", "wolf bear", "the moon. the sun! a bird?"]


def glossary(*entries: str) -> Glossary:
    return Glossary.of_lines([Line(number, entry) for number, entry in enumerate(entries, start=1)], "terms")


def kept(translator: Translator, *entries: str, aligns: bool = True) -> KeepingTranslator:
    keeping = KeepingTranslator(translator, Kept(Spans(), glossary(*entries) if entries else None))
    keeping._aligns = aligns
    return keeping


@pytest.mark.parametrize("split_sentences", [False, True])
def test_every_span_is_there_exactly_once(translator: Translator, *, split_sentences: bool) -> None:
    strings = ui_strings()[:: 9 if split_sentences else 10]
    keeping = kept(translator)
    found = keeping.translate([text for text, _ in strings], split_sentences=split_sentences)
    for (text, spans), translation in zip(strings, found, strict=True):
        for span in spans:
            assert translation.text.count(span) == text.count(span), (text, translation.text)


@pytest.mark.parametrize("aligns", [True, False])
@pytest.mark.parametrize("split_sentences", [False, True])
def test_terms_are_there_as_often_as_in_the_text(
    translator: Translator, *, aligns: bool, split_sentences: bool
) -> None:
    entries = glossary("moon\tZebra|Zebras", "a bird\tein Vogel Strauß", "sun\tyak")
    keeping = kept(translator, "moon\tZebra|Zebras", "a bird\tein Vogel Strauß", "sun\tyak", aligns=aligns)
    texts = [*SENTENCES, "moon {x} moon", "Sun Sun sun 5 GB"]
    for text, found in zip(texts, keeping.translate(texts, split_sentences=split_sentences), strict=True):
        for term in entries.terms(text):
            wanted = [each for each in entries.terms(text) if each.forms == term.forms]
            assert term.count_in(found.text) >= len(wanted)
        assert found.alignment is None


def test_a_long_text_that_is_divided_has_its_spans_and_terms(translator: Translator) -> None:
    text = "moon sun bear. " * 60 + "wolf {x} fish."
    most = translator.config.data.max_tokens
    assert len(translator.encode(text)) > most
    [found] = kept(translator, "fish\tQualle").translate([text], max_extra_tokens=5)
    assert found.text.count("{x}") == 1
    assert re.search(r"\bQualle\b", found.text)


def test_a_text_without_spans_and_terms_is_translated_as_ever(translator: Translator) -> None:
    for options in ({}, {"split_sentences": True}, {"beam_size": 2}):
        keeping = kept(translator, "absent\tfehlt")
        assert keeping.translate(SENTENCES, **options) == translator.translate(SENTENCES, **options)


def test_a_text_of_spans_only_stays_as_it_is(translator: Translator) -> None:
    texts = ["{a}: {b}", "https://a.example 🎉", "5 GB"]
    assert [found.text for found in kept(translator).translate(texts)] == texts


def test_a_text_alone_and_in_company_has_the_same_translation(translator: Translator) -> None:
    keeping = kept(translator, "moon\tZebra", "fish\tQualle")
    texts = [*SENTENCES, "moon {x} fish", "see %s and %d near moon"]
    together = keeping.translate(texts)
    assert [keeping.translate([text])[0].text for text in texts] == [found.text for found in together]


def test_failures_are_passed_on_and_answers_stay_in_order(translator: Translator) -> None:
    failure = Failure(2, DataError("no line"))
    requests: list[TranslationRequest | Failure] = [
        TranslationRequest(1, "moon {x}"),
        failure,
        TranslationRequest(3, "moon \ud800 {x}"),
        TranslationRequest(4, "sun"),
    ]
    answers = list(kept(translator).answer(requests))
    assert [answer.id for answer in answers] == [1, 2, 3, 4]
    assert answers[1] is failure
    assert isinstance(answers[2], Failure)
    assert isinstance(answers[3], Answer)


def test_n_best_translations_have_every_span(translator: Translator) -> None:
    [answer] = kept(translator).answer([TranslationRequest(1, "moon {x} sun %d")], n_best=3, beam_size=4)
    assert isinstance(answer, Answer)
    assert len(answer.result) == 3
    assert all(found.text.count("{x}") == found.text.count("%d") == 1 for found in answer.result)


def test_a_text_of_the_memory_gets_its_translation_and_is_marked(translator: Translator) -> None:
    keeping = KeepingTranslator(translator, Kept(memory=TranslationMemory({"sun moon": "Sonne und Mond"})))
    known, other = keeping.translate(["sun moon", "moon sun"])
    assert (known.text, known.is_from_memory) == ("Sonne und Mond", True)
    assert other == translator.translate(["moon sun"])[0]
    asked = LineRequest(TranslationRequest(1, "sun moon"))
    [row] = JsonLines().write(asked, Answer(1, [known]))
    assert json.loads(row)["translations"][0]["is_from_memory"] is True
    assert "is_from_memory" not in JsonLines().write(asked, Answer(1, [other]))[0]


@pytest.mark.parametrize("options", [{"sampling": True}, {"mbr": 4}])
def test_options_that_leave_nothing_to_keep_with_are_refused(
    translator: Translator, options: dict[str, object]
) -> None:
    with pytest.raises(UsageError, match="leave out"):
        kept(translator).translate(["moon {x}"], **options)
    of_model = copy.copy(translator)
    of_model.config = translator.config.replace(search=options)
    with pytest.raises(UsageError, match="leave out"):
        kept(of_model).translate(["moon {x}"], sampling=None)


def test_alignments_are_of_the_text_with_its_spans(translator: Translator) -> None:
    text = "{first} sun moon {x} bear."
    [found] = kept(translator).translate([text], alignments=True)
    assert found.links is not None
    assert found.alignment is not None
    assert all(0 <= a < b <= len(text) and 0 <= c < d <= len(found.text) for a, b, c, d in found.links)
    assert any(text[a:b] == "{x}" for a, b, _, _ in found.links)
    assert max(source for source, _ in found.alignment) <= 4
    assert max(target for _, target in found.alignment) < len(found.text.split())


def test_a_term_has_its_place_behind_the_beginning_that_is_given(translator: Translator) -> None:
    def found(required: Sequence[RequiredTerm]) -> str:
        [answer] = translator.answer(
            [TranslationRequest(1, "sun moon bear", required=tuple(required))], beam_size=4
        )
        assert isinstance(answer, Answer)
        return answer.result[0].text

    for before in ("", "ein", "zwei drei"):
        assert found([RequiredTerm("moon", ("Zebra",), before)]).startswith(f"{before} Zebra".strip())
    text = found([RequiredTerm("moon", ("Zebra",), "ein"), RequiredTerm("sun", ("yak",))])
    assert text.startswith("ein Zebra")
    assert re.search(r"\byak\b", text)


def test_files_are_read_and_wrong_ones_are_named(translator: Translator, tmp_path: Path) -> None:
    (tmp_path / "terms.tsv").write_bytes(b"moon\tZebra\n")
    keeping = KeepingTranslator.of(translator, keep_patterns=["XY+"], glossary=tmp_path / "terms.tsv")
    assert {"Zebra", "XYY"} <= set(keeping.translate(["moon XYY bear"])[0].text.split())
    (tmp_path / "terms.tsv").write_bytes(b"moon\n")
    with pytest.raises(DataError, match=r"terms\.tsv:1"):
        KeepingTranslator.of(translator, glossary=tmp_path / "terms.tsv")


def test_spans_of_files_are_kept_beside_those_of_the_user(translator: Translator) -> None:
    keeping = KeepingTranslator.of(translator, keep_patterns=["XY+"]).with_spans()
    assert {"{name}", "XYY"} <= set(keeping.translate(["moon XYY bear {name}"])[0].text.split())


def test_no_stand_in_is_a_term_or_a_form_of_one(translator: Translator) -> None:
    keeping = KeepingTranslator(
        translator, Kept(Spans(), glossary("sun\tBoston Tee", "Anna\tHanna", "moon\tMond"))
    )
    [found] = keeping.translate(["{x} sees the sun {y} moon"])
    assert (found.text.count("{x}"), found.text.count("{y}")) == (1, 1)
    assert "Boston Tee" in found.text
    assert "Hanna" not in found.text


def test_a_request_for_another_language_than_the_glossary_s_is_a_failure(translator: Translator) -> None:
    own = translator.config.data.target_language
    keeping = KeepingTranslator(translator, Kept(glossary=glossary("sun\tyak")))
    other, same = keeping.answer(
        [TranslationRequest(1, "sun", to="fr"), TranslationRequest(2, "sun", to=own)]
    )
    assert isinstance(other, Failure)
    assert "glossary and memory are of another language" in other.error.messages[0]
    assert isinstance(same, Answer)


def test_the_searches_for_many_spans_are_few(translator: Translator) -> None:
    text = "moon " + " sun ".join(f"{{a{number}}}" for number in range(40)) + " bear"
    attempts = Kept(Spans()).attempts(text)
    found, num_attempts = [replace(translator.translate(["moon"])[0], alignment=[])], 1
    step = next_step(attempts, None)
    while isinstance(step, Attempt):
        step, num_attempts = next_step(attempts, found), num_attempts + 1
    assert num_attempts < 15
    assert all(step.translations[0].text.count(f"{{a{number}}}") == 1 for number in range(40))


def answered(attempts: Attempts, *texts: str) -> tuple[list[str], Outcome]:
    """The texts of attempts that are answered by these translations, and the outcome."""
    asked, step = list[str](), next_step(attempts, None)
    for text in texts:
        assert isinstance(step, Attempt)
        asked.append(step.text)
        step = next_step(attempts, [Translation(text, -1.0, alignment=[])])
    assert isinstance(step, Outcome)
    return asked, step


LEARNED = DataConfig(placeholders=True, annotate_terms=True)


def test_a_model_that_has_learned_both_gets_symbols_and_suggestions() -> None:
    asked, outcome = answered(
        Kept(Spans(), glossary("moon\tMond|Monde")).attempts("moon {x} sun", data=LEARNED), "Der Mond ◰ Sonne"
    )
    assert asked == ["moon ⟪ Mond ⟫ ◰ sun"]
    assert outcome.translations[0].text == "Der Mond {x} Sonne"
    assert [part.fate for part in outcome.translations[0].kept or ()] == ["kept", "kept"]
    assert not outcome.is_untouched


def test_what_a_model_has_learned_and_does_not_do_is_required_as_ever() -> None:
    attempts = Kept(glossary=glossary("moon\tMond")).attempts("the moon", aligns=False, data=LEARNED)
    asked, outcome = answered(attempts, "der Trabant", "der Mond")
    assert asked == ["the moon ⟪ Mond ⟫", "the moon"]
    assert [part.fate for part in outcome.translations[0].kept or ()] == ["repaired"]
    attempts = Kept(glossary=glossary("moon\tMond")).attempts("the moon", aligns=False, data=LEARNED)
    asked, _ = answered(attempts, "der ⟪ Mond ⟫", "der Mond")  # copied the signs, too
    assert asked == ["the moon ⟪ Mond ⟫", "the moon"]


def test_terms_that_are_only_suggested_may_be_missing() -> None:
    kept = Kept(glossary=glossary("moon\tMond"), only_suggests=True)
    _, outcome = answered(kept.attempts("the moon", data=LEARNED), "des Mondes")
    assert (outcome.translations[0].text, outcome.notices) == ("des Mondes", ())
    assert [part.fate for part in outcome.translations[0].kept or ()] == ["suggested"]


def test_a_text_with_signs_of_annotations_gets_none() -> None:
    attempts = Kept(glossary=glossary("moon\tMond")).attempts("⟪ moon ⟫", data=LEARNED)
    asked, outcome = answered(attempts, "⟪ Mond ⟫")
    assert (asked, outcome.is_untouched) == (["⟪ moon ⟫"], True)


def test_the_fates_of_spans_and_terms_are_told(translator: Translator) -> None:
    attempts = Kept(Spans(), glossary("moon\tMond")).attempts("{a}: moon {b} {c} sun", aligns=False)
    step = next_step(attempts, None)
    while isinstance(step, Attempt):
        word = re.findall(r"moon (\w+) (\w+)", step.text)[0][0 if step.is_repair else 1]
        step = next_step(attempts, [Translation(word, -1.0)])
    [found] = step.translations
    assert found.kept == [
        KeptPart("{a}", "span", "kept"),
        KeptPart("{b}", "span", "repaired"),
        KeptPart("{c}", "span", "inserted"),
        KeptPart("moon", "term", "lost"),
    ]
    assert (found.text.count("{b}"), found.text.count("{c}")) == (1, 1)


def test_the_next_best_translations_have_no_signs_of_annotations() -> None:
    attempts = Kept(glossary=glossary("moon\tMond")).attempts("the moon", data=LEARNED)
    step = next_step(attempts, None)
    assert isinstance(step, Attempt)
    texts = "der Mond", "der ⟪ Mond ⟫", "ein Trabant"
    step = next_step(attempts, [Translation(text, -1.0) for text in texts])
    assert isinstance(step, Outcome)
    fates = [(each.text, [part.fate for part in each.kept or ()]) for each in step.translations]
    assert fates == [("der Mond", ["kept"]), ("ein Trabant", ["lost"])]


@pytest.mark.parametrize(
    "text", ["press foo_<0/>_bar now", "a_😀_b moon", "Save_[X5X] sun", "The _<br/>_ moon", "_<0/>moon_"]
)
def test_a_span_beside_an_underscore_is_kept(translator: Translator, text: str) -> None:
    [found] = kept(translator).translate([text])
    [span] = Spans().find(text)
    assert found.text.count(text[span.begin : span.end]) == 1
    assert [part.text for part in found.kept or ()] == [text[span.begin : span.end]]
