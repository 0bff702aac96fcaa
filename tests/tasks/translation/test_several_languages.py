"""A model of several languages writes the one that is asked for, by a symbol in the text or beside it."""

from itertools import count
from pathlib import Path

import pytest
from tests.packages import require_packages

from allyouneed import evaluate
from allyouneed.config.run import DataConfig
from allyouneed.data.sentencepiece_tokenizer import SentencePieceTokenizer
from allyouneed.errors import DataError, UsageError
from allyouneed.evaluation.bleu import WORDS, bleu_of
from allyouneed.inference.scheduler import Scheduler
from allyouneed.inference.search_plan import Batching
from allyouneed.preparation.prepared_data import PreparedData
from allyouneed.runs.loading import load_translator
from allyouneed.storage.run_log import read_log
from allyouneed.tasks.requests import Answer, Failure, ScoreRequest, TranslateConfig, TranslationRequest
from allyouneed.tasks.translation.task import TRANSLATION
from allyouneed.tasks.translation.text_encoder import TextEncoder
from allyouneed.tasks.translation.translator import Translator

WORDS_IN = ["sun", "moon", "star", "tree", "river", "stone", "bird", "fish"]
TEXTS = ["sun moon", "bird sees fish", "10:30", "", "star. tree."]


@pytest.fixture(scope="module")
def translator(multilingual_model: Path) -> Translator:
    return load_translator(multilingual_model)


def texts_of(translator: Translator, texts: list[str], to: str | None = None, **options: int) -> list[str]:
    return [found.text for found in translator.translate(texts, to=to, **options)]  # type: ignore[arg-type]


def test_one_model_has_learned_to_write_both_languages(translator: Translator) -> None:
    assert translator.languages == ["de", "fr"]
    for to, expected in (
        ("de", [f"{word[::-1]}o" for word in WORDS_IN]),
        ("fr", [f"{word}a" for word in WORDS_IN]),
    ):
        found = texts_of(translator, WORDS_IN, to)
        assert sum(text == right for text, right in zip(found, expected, strict=True)) >= 6


@pytest.mark.parametrize("split_sentences", [False, True])
def test_a_language_beside_the_text_is_like_its_symbol_before_the_text(
    translator: Translator, split_sentences: bool
) -> None:
    for to, symbol in (("de", ">>de<<"), ("fra", ">>fr<<")):
        marked = [f"{symbol} {text}" if text else "" for text in TEXTS]
        expected = translator.translate(marked, split_sentences=split_sentences)
        assert translator.translate(TEXTS, to=to, split_sentences=split_sentences) == expected
        assert translator.into(to).translate(TEXTS, split_sentences=split_sentences) == expected
    requests = [
        TranslationRequest(n, text, to=to) for n, (text, to) in enumerate([("sun", "de"), ("sun", "fr")])
    ]
    found = [answer.result[0].text for answer in translator.answer(requests) if isinstance(answer, Answer)]
    assert found == [texts_of(translator, ["sun"], to)[0] for to in ("de", "fr")]


def test_scores_and_attention_are_those_of_the_language_too(translator: Translator) -> None:
    french, pair = translator.into("fr"), (["sun moon"], ["suna moona"])
    assert french.score(*pair) == translator.score([">>fr<< sun moon"], pair[1])
    assert french.score(*pair)[0].log_prob > translator.into("de").score(*pair)[0].log_prob
    assert french.encode("sun") == translator.encode(">>fr<< sun")
    assert french.attention("sun moon", "suna").source.pieces[0] == ">>fr<<"
    assert [*french.follow("sun moon")][-1] == texts_of(french, ["sun moon"])[0]
    requests = map(ScoreRequest, count(1), *pair)
    assert [answer.result for answer in french.answer_pairs(requests)] == french.score(*pair)  # type: ignore[union-attr]


def test_a_symbol_in_a_text_whose_language_is_told_is_text(translator: Translator) -> None:
    german, text = translator.into("de"), ">>fr<< sun moon"
    ids = german.encode(text)
    assert [token in translator._source_tokenizer.languages.values() for token in ids[:2]] == [True, False]
    assert translator._source_tokenizer.decode(ids) == f">>de<< {text}"
    assert texts_of(translator, [text], "de") != texts_of(translator, ["sun moon"], "fr")
    assert (
        translator.encode(f"sun {text}".replace("sun", ">>de<< sun", 1))[1:]
        == german.encode(f"sun {text}")[1:]
    )
    scheduler = Scheduler(Batching())
    future = german.submit(scheduler, f"{text}.\n>>fr<< 10:30", alignments=True, split_sentences=True)
    with german.engine.ready():
        scheduler.work_off()
    assert [segment.source for segment in future.result().segments] == [f"{text}.", ">>fr<< 10:30"]


def test_words_of_alignments_are_those_of_the_text(translator: Translator) -> None:
    [told] = translator.translate(["sun moon"], to="fr", alignments=True)
    [marked] = translator.translate([">>fr<< sun moon"], alignments=True)
    assert told.text == marked.text
    assert told.alignment
    assert {source for source, _ in told.alignment} <= {0, 1}
    # The symbol is a word of the other text, which links to it are lost with.
    assert told.alignment == [(source - 1, target) for source, target in marked.alignment or [] if source]


def test_what_language_is_to_be_written_has_to_be_said(translator: Translator, toy_model: Path) -> None:
    message = (
        r"^text 2: the language to write is not given: choose one of de, fr \(option `to`\), or begin the "
        "text with its symbol, such as >>de<<$"
    )
    with pytest.raises(DataError, match=message) as raised:
        translator.translate([">>fr<< sun", "sun"])
    assert raised.value.label == "E-LANGUAGE"
    with pytest.raises(DataError, match=r"^pair 1: source: the language to write is not given"):
        translator.score(["sun"], ["nuso"])
    with pytest.raises(UsageError, match=r"^language 'es': the model writes de, fr; choose one of these$"):
        translator.translate(["sun"], to="es")
    [failure] = translator.answer([TranslationRequest(1, "sun", to="es")])
    assert isinstance(failure, Failure)
    assert failure.error.label == "E-LANGUAGE"
    plain = load_translator(toy_model)
    assert plain.languages == []
    with pytest.raises(
        UsageError, match=r"'de': the model writes one language, which is not recorded; leave"
    ):
        plain.into("de")
    plain.config = plain.config.replace(data={"target_language": "de"})
    german = Translator(plain.engine.models, plain.config, *[plain._source_tokenizer] * 2)
    assert texts_of(german, ["sun"], "deu") == texts_of(german, ["sun"])
    with pytest.raises(UsageError, match=r"^language 'fr': the model writes de; leave this out$"):
        german.translate(["sun"], to="fr")


def test_a_foreign_model_of_several_languages_is_told_alike() -> None:
    require_packages("sentencepiece")
    plain = SentencePieceTokenizer.learn(["A dog runs. The cat sleeps."] * 20, 279)
    tokenizer = plain.with_languages(["fra", "zho_Hans"])
    encoder = TextEncoder(tokenizer, tokenizer, DataConfig(source_language="en"), None, takes_prefixes=True)
    with pytest.raises(DataError, match=r"choose one of fra, zho_Hans .* such as >>fra<<$"):
        encoder.divide("A dog runs.", TranslateConfig())
    for code, symbol in (("fr", ">>fra<<"), ("zh-CN", ">>zho_Hans<<")):
        told = encoder.into(code)
        assert told.source("A dog.") == encoder.source(f"{symbol} A dog.")
        assert told.source(">>fra<< A dog.")[1:] == plain.encode(">>fra<< A dog.")
        assert (told.data.source_language, told.data.target_language) == ("en", symbol[2:-2])


def test_validation_is_the_mean_over_the_languages(multilingual_model: Path, translator: Translator) -> None:
    data = PreparedData(multilingual_model.parent / "many")
    sources, references = (data.lines("valid", side) for side in ("source", "target"))
    validation = TRANSLATION.validation(sources, references, data.units, translator.config)
    found = validation.scores(translator.engine.models[0])
    texts, half = texts_of(translator, sources, beam_size=1), len(sources) // 2
    german, french = (
        bleu_of(WORDS)(texts[part], references[part]).value for part in (slice(half), slice(half, None))
    )
    assert found == {"bleu": (german + french) / 2, "bleu_de": german, "bleu_fr": french}
    assert (validation.convention, validation.reason) == ("", "")
    chinese = [source.replace(">>fr<<", ">>zh<<") for source in sources]
    units = data.units._replace(source=data.units.source.with_languages(["zh"]))  # type: ignore[attr-defined]
    assert TRANSLATION.validation(chinese, references, units, translator.config).convention == "bleu_zh"
    last = [event for event in read_log(multilingual_model / "log.jsonl") if event["event"] == "validate"][-1]
    assert last["bleu"] == pytest.approx((last["bleu_de"] + last["bleu_fr"]) / 2)
    of_french = [source.removeprefix(">>fr<< ") for source in sources[half:]]
    assert evaluate(translator.into("fr"), of_french, references[half:], beam_size=1)[0].value == french
