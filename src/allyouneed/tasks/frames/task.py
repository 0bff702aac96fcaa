"""The frames task: trained on files of frames and their texts; a `Transcriber`, scored by error rates."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from allyouneed.config.model import ModelConfig
from allyouneed.config.run import DataConfig, DecodingPrecision, RunConfig
from allyouneed.data.frame_format import FrameFormat
from allyouneed.data.tokenizer import Tokenizer
from allyouneed.data.vectors import Vectors
from allyouneed.errors import UsageError
from allyouneed.evaluation.error_rates import (
    character_error_rate,
    require_jiwer,
    require_references,
    share_exact,
    word_error_rate,
)
from allyouneed.evaluation.scores import Score, perplexity
from allyouneed.tasks.requests import require_one_each
from allyouneed.tasks.task import SOURCE_TOKENIZER, TARGET_TOKENIZER, Choice, Task, TrainingText, Units

if TYPE_CHECKING:
    from allyouneed.model.encoder_decoder import EncoderDecoder
    from allyouneed.tasks.frames.transcriber import TranscribeOptions, Transcriber
    from allyouneed.tasks.requests import Frames
    from allyouneed.training.meters import Validation

LONG_FRAMES = 1_000
"""Number of frames above which self-attention is restricted, unless it is set otherwise (paper 4)."""
NEIGHBOURHOOD = 128
"""Number of keys of each position then: those of 512 frames, which are 5 seconds of speech."""


def _require_settings(config: DataConfig) -> None:
    if config.tokenizer == "words":
        raise UsageError("tokenizer words: is for parsing; take another for frames", settings=["tokenizer"])


def _learn_units(text: TrainingText) -> Units:
    return Units(FrameFormat.learn([*text.lines("source")]), text.learn_tokenizer("target"))


def _load_units(directory: Path, config: DataConfig, source_vocab_size: int, target_vocab_size: int) -> Units:
    frames = FrameFormat.load(directory / SOURCE_TOKENIZER, source_vocab_size)
    return Units(frames, Tokenizer.load(directory / TARGET_TOKENIZER, target_vocab_size))


def _model_settings(longest: int, given: ModelConfig) -> Mapping[str, Any]:
    restricted = {"neighbourhood": NEIGHBOURHOOD, "neighbourhood_in": "encoder"}
    is_left_open = longest > LONG_FRAMES and given.neighbourhood is None
    return {"front": "convolutions", **(restricted if is_left_open else {})}


def _build(
    models: "EncoderDecoder | Sequence[EncoderDecoder]",
    config: RunConfig,
    units: Units,
    *,
    directory: Path | None = None,
    shortlist: Path | str | None = None,
    precision: DecodingPrecision = "float32",
    threads: int = 1,
) -> "Transcriber":
    if shortlist is not None:
        raise UsageError("shortlist: is for translators only; leave it out", settings=["shortlist"])
    from allyouneed.tasks.frames.transcriber import Transcriber

    source, target = units
    assert isinstance(source, FrameFormat)
    assert isinstance(target, Tokenizer)
    return Transcriber(models, config, source, target, precision=precision, threads=threads)


def _validation(
    sources: Sequence[Vectors], references: Sequence[str], units: Units, config: RunConfig
) -> "Validation":
    """The error rates of greedy transcriptions, which are fast; the best has most characters right."""
    from allyouneed.training.meters import Validation

    require_jiwer()

    def validate(model: "EncoderDecoder") -> Mapping[str, float]:
        found = [each.text for each in _build(model, config.greedy(), units).transcribe(sources)]
        rates = [metric(found, references) for metric in (character_error_rate, word_error_rate, share_exact)]
        return {FRAMES.score: 100 - rates[0].value, **{rate.name: rate.value for rate in rates}}

    return Validation(validate, FRAMES.score)


def evaluate(
    transcriber: "Transcriber",
    sources: "Sequence[Frames]",
    *references: Sequence[str],
    say: Callable[[str], None] = lambda line: None,
    target_language: str | None = None,
    **options: "Unpack[TranscribeOptions]",
) -> list[Score]:
    """Word and character error rates of a transcriber, the share of lines that are right, and the perplexity.

    Args:
        transcriber: The transcriber to evaluate.
        sources: Files or arrays of frames.
        *references: One list of texts.
        say: Without effect, as are languages: there is one convention.
        target_language: See `say`.
        **options: Options of `Transcriber.transcribe`.

    Raises:
        DataError: A source is not usable, a reference is empty, or their numbers differ.
        UsageError: jiwer is not installed, or there are several references.
    """
    require_jiwer()
    require_references("wer", references)
    require_one_each("sources", sources, "references", references[0])
    texts = [each.text for each in transcriber.transcribe(sources, **options)]
    scored = transcriber.score(sources, references[0])
    likelihood = -sum(each.log_prob for each in scored), sum(len(each.tokens) for each in scored)
    rates = [metric(texts, *references) for metric in (word_error_rate, character_error_rate)]
    return [*rates, share_exact(texts, *references), perplexity(*likelihood)]


FRAMES = Task(
    name="frames",
    command="transcribe",
    default_preset="frames_tiny",
    score="accuracy",
    score_label="Characters that are right (%)",
    examples="pairs",
    target_units="sub-words",
    reads_pairs=True,
    training_files=Choice([("source", "target"), ("pairs",)]),
    validation_files=Choice([("valid_source", "valid_target"), ("valid_pairs",)]),
    data_settings=frozenset(),
    sides_are_alike=False,
    require_settings=_require_settings,
    ids_per_word=lambda config: None,
    learn_units=_learn_units,
    load_units=_load_units,
    build=_build,
    validation=_validation,
    evaluate=evaluate,
    model_settings=_model_settings,
    pairs_at_once=64,
)
