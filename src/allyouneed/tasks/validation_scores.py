"""How good a model is while it is trained: BLEU of its translations, F1 of its trees."""

from collections.abc import Callable, Mapping
from itertools import count

from allyouneed.config.run import RunConfig
from allyouneed.data.tokenizer import Tokenizer
from allyouneed.evaluation import bleu_13a
from allyouneed.model import EncoderDecoder
from allyouneed.tasks.parsing.bracket_f1 import score_trees
from allyouneed.tasks.parsing.parser import NO_PARSE, Parser
from allyouneed.tasks.parsing.tree_vocabulary import TreeVocabulary
from allyouneed.tasks.parsing.trees import sentences_of, tree_of
from allyouneed.tasks.prepared_data import (
    SOURCE_TOKENIZER,
    TARGET_TOKENIZER,
    PreparedData,
    load_source_tokenizer,
)
from allyouneed.tasks.requests import ParseRequest, TranslationRequest, results
from allyouneed.tasks.translation.outputs import Translation
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
        parser = Parser(model, _greedy(config), tokenizer, vocabulary)
        requests = map(ParseRequest, count(1), sentences_of(gold))
        # A sentence that is too long to parse has no tree, and counts as one without constituents.
        found = results(parser.answer(requests), NO_PARSE)
        return {"f1": score_trees(gold, [parse.tree for parse in found]).brackets.f1}

    return validate


def _bleu_on_validation(prepared: PreparedData, config: RunConfig) -> Scorer:
    sources, references = prepared.lines("valid", "source"), prepared.lines("valid", "target")
    tokenizers = (Tokenizer.load(prepared.directory / name) for name in (SOURCE_TOKENIZER, TARGET_TOKENIZER))
    source_tokenizer, target_tokenizer = tokenizers

    def validate(model: EncoderDecoder) -> Mapping[str, float]:
        translator = Translator(model, _greedy(config), source_tokenizer, target_tokenizer)
        requests = map(TranslationRequest, count(1), sources)
        # A sentence that cannot be translated counts as translated by nothing.
        found = results(translator.answer(requests), [Translation("", 0.0)])
        return {"bleu": bleu_13a([translations[0].text for translations in found], references).value}

    return validate


def _greedy(config: RunConfig) -> RunConfig:
    return config.replace(search={"beam_size": 1, "sampling": False, "mbr": None})


_SCORES = {"translation": _bleu_on_validation, "parsing": _f1_on_validation}
"""By the task."""
