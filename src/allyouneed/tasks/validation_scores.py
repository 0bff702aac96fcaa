"""How good a model is while it is trained: BLEU of its translations, F1 of its trees."""

from collections.abc import Callable, Mapping

from allyouneed.config.run import RunConfig
from allyouneed.data.tokenizer import Tokenizer
from allyouneed.evaluation import bleu_13a
from allyouneed.model import EncoderDecoder
from allyouneed.tasks.parsing.bracket_f1 import score_trees
from allyouneed.tasks.parsing.parser import Parser
from allyouneed.tasks.parsing.tree_vocabulary import TreeVocabulary
from allyouneed.tasks.parsing.trees import sentences_of, tree_of
from allyouneed.tasks.prepared_data import (
    SOURCE_TOKENIZER,
    TARGET_TOKENIZER,
    PreparedData,
    load_source_tokenizer,
)
from allyouneed.tasks.translation.translator import Translator

Scorer = Callable[[EncoderDecoder], Mapping[str, float]]
"""Model -> name of a score -> its value."""


def scorer(prepared: PreparedData, config: RunConfig) -> Scorer:
    """What scores a model by its outputs for the validation data, if any: greedily, which is fast."""
    if prepared.valid is None:
        return lambda model: {}
    return _SCORES[config.data.task](prepared, config)


def _f1_on_validation(prepared: PreparedData, config: RunConfig) -> Scorer:
    gold = [tree_of(line) for line in prepared.lines("valid", "target")]
    tokenizer = load_source_tokenizer(prepared.directory, prepared.config)
    vocabulary = TreeVocabulary.load(prepared.directory / TARGET_TOKENIZER)

    def validate(model: EncoderDecoder) -> Mapping[str, float]:
        parser = Parser(model, config, tokenizer, vocabulary)
        # A sentence that is too long to parse has no tree, and counts as one without constituents.
        found = parser.parse(sentences_of(gold), beam_size=1, failed=lambda error: None)
        return {"f1": score_trees(gold, [parse.tree for parse in found]).brackets.f1}

    return validate


def _bleu_on_validation(prepared: PreparedData, config: RunConfig) -> Scorer:
    sources, references = prepared.lines("valid", "source"), prepared.lines("valid", "target")
    tokenizers = (Tokenizer.load(prepared.directory / name) for name in (SOURCE_TOKENIZER, TARGET_TOKENIZER))
    source_tokenizer, target_tokenizer = tokenizers

    def validate(model: EncoderDecoder) -> Mapping[str, float]:
        translator = Translator(model, config, source_tokenizer, target_tokenizer)
        # A sentence that is too long to translate counts as translated by nothing.
        found = translator.translate(sources, beam_size=1, failed=lambda error: None)
        return {"bleu": bleu_13a([translation.text for translation in found], references).value}

    return validate


_SCORES = {"translation": _bleu_on_validation, "parsing": _f1_on_validation}
"""By the task."""
