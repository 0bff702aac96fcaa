"""Reversal: the words of a sentence, last first; judged by the share of sentences that are right."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from allyouneed.config.run import DataConfig, RunConfig
from allyouneed.data.tokenizer import Tokenizer
from allyouneed.evaluation.scores import Score
from allyouneed.inference.engine_choice import build_engine
from allyouneed.inference.generate import generate
from allyouneed.inference.stored_model import Model
from allyouneed.model.encoder_decoder import EncoderDecoder
from allyouneed.tasks.task import SOURCE_TOKENIZER, Choice, Task, TrainingText, Units
from allyouneed.training.meters import Validation


class Reverser:
    """A model that reverses sentences, with its sub-words."""

    def __init__(self, model: Model, config: RunConfig, tokenizer: Tokenizer) -> None:
        self.config, self._engine, self._tokenizer = config, build_engine(model), tokenizer

    def reverse(self, sentences: Sequence[str]) -> list[str]:
        """Each sentence with its words in reverse."""
        sources = [self._tokenizer.encode(sentence) for sentence in sentences]
        found = generate(self._engine, sources, self.config.search)
        return [self._tokenizer.decode(hypotheses[0].ids) for hypotheses in found]


def learn_units(text: TrainingText) -> Units:
    tokenizer = text.learn_tokenizer("source", "target")
    return Units(tokenizer, tokenizer)


def load_units(directory: Path, config: DataConfig, source_vocab_size: int, target_vocab_size: int) -> Units:
    tokenizer = Tokenizer.load(directory / SOURCE_TOKENIZER, source_vocab_size)
    return Units(tokenizer, tokenizer)


def build(models: Sequence[Model], config: RunConfig, units: Units, **options: Any) -> Reverser:
    (model,) = models
    assert isinstance(units.source, Tokenizer)
    return Reverser(model, config, units.source)


def share_right(found: Sequence[str], references: Sequence[str]) -> float:
    return 100 * sum(map(str.__eq__, found, references)) / len(references)


def validation(
    sources: Sequence[str], references: Sequence[str], units: Units, config: RunConfig
) -> Validation:
    def validate(model: EncoderDecoder) -> Mapping[str, float]:
        reverser = build([model], config, units)
        return {"right": share_right(reverser.reverse(sources), references)}

    return Validation(validate, "right")


def evaluate(
    reverser: Reverser, sources: Sequence[str], references: Sequence[str], **options: Any
) -> list[Score]:
    return [Score("right", share_right(reverser.reverse(sources), references), "sentences:equal")]


REVERSAL = Task(
    name="reversal",
    command="evaluate",
    default_preset="multi30k_tiny",
    score="right",
    score_label="Sentences that are right (%)",
    examples="pairs",
    target_units="sub-words",
    reads_pairs=True,
    training_files=Choice([("pairs",)]),
    validation_files=Choice([("valid_pairs",)]),
    data_settings=frozenset(),
    sides_are_alike=True,
    require_settings=lambda config: None,
    ids_per_word=lambda config: None,
    learn_units=learn_units,
    load_units=load_units,
    build=build,
    validation=validation,
    evaluate=evaluate,
)
