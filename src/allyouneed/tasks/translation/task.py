"""The translation task: trained on sentence pairs, used as a `Translator`, scored by BLEU."""

import filecmp
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Unpack

from allyouneed.config.run import DataConfig, DecodingPrecision, RunConfig
from allyouneed.data.lines import is_blank
from allyouneed.data.tokenizer import Tokenizer, split_symbol
from allyouneed.errors import UsageError
from allyouneed.evaluation.bleu import WORDS, bleu_of, choose_tokens
from allyouneed.evaluation.metrics import chrf, translation_metrics
from allyouneed.evaluation.scores import Metric, Score, perplexity
from allyouneed.tasks.requests import TranslationRequest, results
from allyouneed.tasks.task import SOURCE_TOKENIZER, TARGET_TOKENIZER, Choice, Task, TrainingText, Units

if TYPE_CHECKING:
    from allyouneed.model.encoder_decoder import EncoderDecoder
    from allyouneed.tasks.requests import TranslateOptions
    from allyouneed.tasks.translation.translator import Translator
    from allyouneed.training.meters import Validation

_MOST_SEARCHED = 1_000
"""Number of sentences by which length penalties are compared, if there are twice as many or more."""


def evaluate(
    translator: "Translator",
    sources: Sequence[str],
    *references: Sequence[str],
    metrics: Sequence[Metric] | None = None,
    **options: "Unpack[TranslateOptions]",
) -> list[Score]:
    """Scores of a translator on sentences with reference translations; the last score is the perplexity.

    Args:
        translator: The translator to evaluate.
        sources: Source sentences.
        *references: One reference translation per source, or several lists of them, in which an empty line
            stands for none. The perplexity is that of the first, without its empty lines.
        metrics: Metrics that compare translations with references; by default BLEU on the tokens of the
            model's target language, and chrF.
        **options: Options of `Translator.translate`.

    Raises:
        DataError: A sentence is too long, or the numbers of references and sources differ.
    """
    if metrics is None:
        metrics = bleu_of(choose_tokens(translator.config.data.target_language, references[0])), chrf
    likelihood = translator.negative_log_likelihood(*_with_reference(sources, references))
    texts = [translation.text for translation in translator.translate(sources, **options)]
    return [*(metric(texts, *references) for metric in metrics), perplexity(*likelihood)]


def _with_reference(
    sources: Sequence[str], references: Sequence[Sequence[str]]
) -> tuple[Sequence[str], Sequence[str]]:
    """The sources that have a first reference, and these; all if there is a single list of references."""
    first = references[0]
    kept = [number for number, text in enumerate(first) if not is_blank(text)]
    if len(references) == 1 or not kept or len(first) != len(sources):
        return sources, first
    return [sources[number] for number in kept], [first[number] for number in kept]


def _require_settings(config: DataConfig) -> None:
    if config.tokenizer == "words":
        raise UsageError(
            "tokenizer words: is for parsing; a translation is written in bpe or wordpiece",
            settings=["tokenizer"],
        )


def _learn_units(text: TrainingText) -> Units:
    targets = dict.fromkeys(target for _, target in text.config.directions)
    told = targets if len(targets) > 1 else ()
    if text.config.joint_vocabulary:
        joint = text.learn_tokenizer("source", "target").with_languages(told)
        return Units(joint, joint)
    return Units(text.learn_tokenizer("source").with_languages(told), text.learn_tokenizer("target"))


def _load_units(directory: Path, config: DataConfig, source_vocab_size: int, target_vocab_size: int) -> Units:
    source_path, target_path = directory / SOURCE_TOKENIZER, directory / TARGET_TOKENIZER
    source = Tokenizer.load(source_path, source_vocab_size)
    with suppress(OSError):  # reading them tells the user more
        if source_vocab_size == target_vocab_size and filecmp.cmp(source_path, target_path, shallow=False):
            return Units(source, source)
    return Units(source, Tokenizer.load(target_path, target_vocab_size))


def _build(
    models: "Sequence[EncoderDecoder]",
    config: RunConfig,
    units: Units,
    *,
    directory: Path,
    shortlist: Path | str | None = None,
    precision: DecodingPrecision = "float32",
    threads: int = 1,
) -> "Translator":
    # These take a while to import, and `prepare` does not need them.
    from allyouneed.inference.vocabulary_shortlist import Shortlist
    from allyouneed.tasks.translation.translator import Translator

    sizes = config.model.source_vocab_size, config.model.target_vocab_size
    chosen = None if shortlist is None else Shortlist.load(Path(shortlist), directory, sizes)
    return Translator(
        models, config, *_tokenizers(units), shortlist=chosen, precision=precision, threads=threads
    )


def _tokenizers(units: Units) -> tuple[Tokenizer, Tokenizer]:
    source, target = units
    assert isinstance(source, Tokenizer)
    assert isinstance(target, Tokenizer)
    return source, target


def _validation(
    sources: Sequence[str], references: Sequence[str], units: Units, config: RunConfig
) -> "Validation":
    """BLEU of greedy translations, which are fast; a source that is too long gets an empty translation.

    Where sources begin with the symbols of several languages, it is the mean of their BLEU scores. Length
    penalties are compared on part of the sentences, if there are many.
    """
    from allyouneed.tasks.translation.outputs import Translation
    from allyouneed.tasks.translation.translator import Translator
    from allyouneed.training.meters import Validation

    symbols, usual = units.symbols, config.data.target_language
    places: dict[str, list[int]] = {}
    for place, source in enumerate(sources):
        places.setdefault(split_symbol(source, symbols)[0].strip("<> ") or usual, []).append(place)
    wanted = {language: [references[place] for place in of_it] for language, of_it in places.items()}
    tokens = {language: choose_tokens(language, lines) for language, lines in wanted.items()}

    def scores(model: "EncoderDecoder", config: RunConfig, every: int = 1) -> dict[str, float]:
        """Mean and single BLEU of a part of each language's sentences: the first of `every` so many."""
        translator = Translator(model, config, *_tokenizers(units))
        chosen = {language: of_it[::every] for language, of_it in places.items()}
        requests = (TranslationRequest(1, sources[place]) for of_it in chosen.values() for place in of_it)
        found = iter([each[0].text for each in results(translator.answer(requests), [Translation("", 0.0)])])
        bleu = {
            f"bleu_{language}": bleu_of(tokens[language])(
                [next(found) for _ in of_it], [references[place] for place in of_it]
            ).value
            for language, of_it in chosen.items()
        }
        return {"bleu": sum(bleu.values()) / len(bleu), **(bleu if len(bleu) > 1 else {})}

    def validate(model: "EncoderDecoder") -> Mapping[str, float]:
        return scores(model, config.greedy())

    def penalised(model: "EncoderDecoder", length_penalty: float) -> float:
        every = max(1, len(sources) // _MOST_SEARCHED)
        return scores(model, config.replace(search={"length_penalty": length_penalty}), every)["bleu"]

    others = {bleu_of(each).__name__: each.why_not_words for each in tokens.values() if each != WORDS}
    reason = "; ".join(filter(None, others.values()))
    return Validation(validate, TRANSLATION.score, "+".join(others), reason, penalised)


def _evaluate(
    translator: "Translator",
    sources: Sequence[str],
    *references: Sequence[str],
    say: Callable[[str], None],
    target_language: str | None = None,
    **search: "Unpack[TranslateOptions]",
) -> list[Score]:
    language = target_language or translator.config.data.target_language
    metrics = translation_metrics(language, references[0], say)
    if len(references) > 1:
        say("the perplexity is that of the first reference")
    return evaluate(translator, sources, *references, metrics=metrics, **search)


TRANSLATION = Task(
    name="translation",
    command="translate",
    default_preset="base",
    score="bleu",
    score_label="BLEU",
    examples="pairs",
    target_units="sub-words",
    reads_pairs=True,
    training_files=Choice([("source", "target"), ("pairs",)]),
    validation_files=Choice([("valid_source", "valid_target"), ("valid_pairs",)]),
    data_settings=frozenset({"bpe_dropout", "placeholders", "annotate_terms"}),
    sides_are_alike=True,
    require_settings=_require_settings,
    ids_per_word=lambda config: None,
    learn_units=_learn_units,
    load_units=_load_units,
    build=_build,
    validation=_validation,
    evaluate=_evaluate,
)
