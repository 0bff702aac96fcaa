"""Models that are told both languages: each side begins with the symbol of its own."""

from pathlib import Path
from typing import Any

import pytest

from allyouneed import UsageError, load_translator
from allyouneed.data.tokenizer import Tokenizer
from allyouneed.errors import DataError
from allyouneed.inference.scheduler import Scheduler
from allyouneed.inference.search_plan import Batching
from allyouneed.tasks.requests import Answer, Failure, TranslationRequest
from allyouneed.tasks.translation.text_encoder import TextEncoder
from allyouneed.tasks.translation.translator import Translator

TEXTS = ["the sun", "the moon sees a star", "a b c", "   "]


@pytest.fixture(scope="module")
def told(told_both_model: Path) -> Translator:
    return load_translator(told_both_model, source="de", to="fr")


def test_sources_begin_with_their_own_symbol(told: Translator) -> None:
    tokenizer = told._source_tokenizer
    assert told.encode("sun") == [tokenizer.languages[">>de<<"], *tokenizer.encode("sun")]
    assert told.encode(">>fr<< sun")[1:] == tokenizer.encode(">>fr<< sun"), "a symbol in a text is text"
    assert (told.config.data.source_language, told.config.data.target_language) == ("de", "fr")


def test_outputs_begin_with_the_symbol_to_write_which_is_given(told: Translator) -> None:
    for found, text in zip(told.translate(TEXTS), TEXTS, strict=True):
        assert ">>fr<<" not in found.text
        assert len(found.tokens) == len(found.token_log_probs)
        if text.strip():
            [scored] = told.score([text], [found.text])
            assert scored.log_prob == pytest.approx(sum(scored.token_log_probs))
            assert ">>fr<<" not in scored.tokens
            if scored.tokens == found.tokens:
                assert scored.token_log_probs == pytest.approx(found.token_log_probs, abs=1e-4)
                assert scored.score == pytest.approx(found.score, abs=1e-4)


def test_each_request_may_have_languages_of_its_own(told_both_model: Path) -> None:
    translator = load_translator(told_both_model)
    requests = [TranslationRequest(n, TEXTS[1], to=to, source=source) for n, (source, to) in enumerate(PAIRS)]
    found = [*translator.answer(requests)]
    expected = [translator.into(to, source).translate(TEXTS[1:2]) for source, to in PAIRS]
    assert [each.result for each in found if isinstance(each, Answer)] == expected
    assert translator.translate(TEXTS[:2], source="fr", to="de") == translator.into("de", "fr").translate(
        TEXTS[:2]
    )


PAIRS = ("de", "fr"), ("fr", "de"), ("fr", "fr")


def test_a_request_without_languages_fails_alone(told_both_model: Path) -> None:
    translator = load_translator(told_both_model)
    requests = [TranslationRequest(0, "sun"), TranslationRequest(1, "sun", to="fr", source="de")]
    first, second = translator.answer(requests)
    assert isinstance(first, Failure)
    assert first.error.label == "E-LANGUAGE"
    assert "such as de" in first.error.messages[0]
    assert isinstance(second, Answer)
    with pytest.raises(DataError, match="the languages are not given"):
        translator.encode("sun")
    assert translator.encode(" ") == []


@pytest.mark.parametrize(
    ("source", "target", "said"),
    [
        ("", "fr", "this model must be told the language of the texts, too"),
        ("en", "fr", "language 'en': the model writes de, fr; choose one of these"),
        ("de", "es", "language 'es': the model writes de, fr; choose one of these"),
    ],
)
def test_languages_that_lack_or_are_unknown(
    source: str, target: str, said: str, told_both_model: Path
) -> None:
    with pytest.raises(UsageError, match=said):
        load_translator(told_both_model).into(target, source)


def test_a_source_language_alone_is_refused(told_both_model: Path) -> None:
    with pytest.raises(UsageError, match="a source language is given, but not the one to write"):
        load_translator(told_both_model, source="de")


def test_a_shortlist_is_refused(told: Translator, told_both_model: Path) -> None:
    tokenizer = Tokenizer.load(told_both_model / "source_tokenizer.json")
    encoder = TextEncoder(tokenizer, tokenizer, told.config.data, None, takes_prefixes=False)
    with pytest.raises(UsageError, match="a shortlist cannot be used with this model"):
        encoder.into("fr", "de")


def test_a_growing_output_and_a_prefix_have_no_symbol(told: Translator) -> None:
    [whole] = told.translate(TEXTS[1:2])
    *_, last = told.follow(TEXTS[1])
    assert last == whole.text
    with told.engine.ready(), Scheduler(Batching()) as scheduler:
        future = told.submit(scheduler, TEXTS[1], prefix="xy", max_length=9)
        by_blocks = told.into("fr", "de")
        by_blocks.config = by_blocks.config.replace(search={"blockwise": True, "beam_size": 1})
        next_ones = by_blocks.continuations(scheduler, TEXTS[1], "xy", 3)
        scheduler.work_off()
        assert future.result().translations[0].text.startswith("xy")
        prefix = told._target_tokenizer.encode("xy")
        assert next_ones.result()
        assert all(ids[:-1] == prefix for ids in next_ones.result())


def test_parts_of_a_text_and_aligned_words_have_no_symbol(told: Translator) -> None:
    options: dict[str, Any] = {"split_sentences": True, "alignments": True}
    [found] = told.translate(["the sun. the moon."], **options)
    assert ">>fr<<" not in found.text
    words = len(found.text.split())
    assert all(0 <= source < 4 and 0 <= target < words for source, target in found.alignment or [])


def test_attention_is_shown_with_the_symbols(told: Translator) -> None:
    attention = told.attention("the sun", "xy")
    assert attention is not None
