"""The parsing task: trained on trees, used as a `Parser`, scored by labelled F1."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from allyouneed.config.run import DataConfig, RunConfig
from allyouneed.data.tokenizer import Tokenizer
from allyouneed.errors import DataError, ModelError, UsageError
from allyouneed.evaluation import Score
from allyouneed.tasks.parsing.bracket_f1 import score_trees
from allyouneed.tasks.parsing.linearisation import TAGGED, WORD, is_word, symbols_per_word
from allyouneed.tasks.parsing.scores import parse_words
from allyouneed.tasks.parsing.tree_vocabulary import TreeVocabulary
from allyouneed.tasks.parsing.treebank import UNTAGGED, TreeFiles
from allyouneed.tasks.parsing.trees import tree_of
from allyouneed.tasks.parsing.word_features import WordFeatures
from allyouneed.tasks.requests import results
from allyouneed.tasks.task import Choice, Task
from allyouneed.tasks.training_text import TrainingText
from allyouneed.tasks.units import SOURCE_TOKENIZER, TARGET_TOKENIZER, Units

if TYPE_CHECKING:
    from allyouneed.model import EncoderDecoder
    from allyouneed.tasks.parsing.parser import Parser
    from allyouneed.training.validation import Validation


def _require_settings(config: DataConfig) -> None:
    if config.tokenizer == "sentencepiece":
        raise UsageError(
            "tokenizer sentencepiece: rewrites characters, so that words could be lost or divided; "
            "take another for trees",
            settings=["tokenizer"],
        )
    if config.tokenizer == "words" and config.tags == "endings":
        raise UsageError(
            "tokenizer words: does not spell what search has to know for tags endings; "
            "leave either out: with brackets joined the place of a word is known without endings",
            settings=["tokenizer", "tags", "brackets"],
        )
    if config.tags == "words" and (config.tokenizer, config.brackets) != ("words", "joined"):
        raise UsageError(
            "tags words: search has to know which symbols are a word's; take tokenizer words and brackets "
            "joined as well",
            settings=["tags", "tokenizer", "brackets"],
        )


def _ids_per_word(config: DataConfig) -> int | None:
    is_fixed = config.tokenizer == "words" and config.brackets == "joined"
    return symbols_per_word(config.tags) if is_fixed else None


def _learn_units(text: TrainingText) -> Units:
    config = text.config
    symbols = TreeVocabulary.learn(text.lines("target"), config.tags, config.brackets, config.max_tokens)
    if config.tags in TAGGED and (untagged := text.report.notes[UNTAGGED]):
        raise DataError(
            f"{untagged:,} silver trees have {WORD} for every part of speech, which would be learned; "
            "make them with a parser that predicts tags, or take other tags",
            settings=["tags"],
        )
    if config.tokenizer != "words":
        return Units(text.learn_tokenizer("source"), symbols)
    lines = text.sampled_lines("source")
    source = WordFeatures.learn(lines, config.vocab_size, symbols_per_word(config.tags))
    return Units(source, symbols.with_words(source.word_symbols) if config.tags == "words" else symbols)


def _load_units(directory: Path, config: DataConfig, source_vocab_size: int, target_vocab_size: int) -> Units:
    kind = WordFeatures if config.tokenizer == "words" else Tokenizer
    source = kind.load(directory / SOURCE_TOKENIZER, source_vocab_size)
    target = TreeVocabulary.load(directory / TARGET_TOKENIZER, target_vocab_size)
    words = source.word_symbols if isinstance(source, WordFeatures) else []
    if target.tags == "words" and [*words] != [symbol for symbol in target.symbols if is_word(symbol)]:
        raise ModelError(f"{directory / TARGET_TOKENIZER}: has other words than {SOURCE_TOKENIZER} beside it")
    return Units(source, target)


def _build(
    models: "EncoderDecoder | Sequence[EncoderDecoder]",
    config: RunConfig,
    units: Units,
    *,
    directory: Path | None = None,
    shortlist: Path | str | None = None,
    **options: Any,
) -> "Parser":
    if shortlist is not None:
        raise UsageError("shortlist: is for translators only; leave it out", settings=["shortlist"])
    from allyouneed.tasks.parsing.parser import Parser  # which loads PyTorch

    source, target = units
    assert isinstance(source, Tokenizer | WordFeatures)
    assert isinstance(target, TreeVocabulary)
    return Parser(models, config, source, target, **options)


def _validation(
    sources: Sequence[str], references: Sequence[str], units: Units, config: RunConfig
) -> "Validation":
    """F1 of greedy trees, which are fast; a sentence that is too long gets a tree without constituents."""
    from allyouneed.tasks.parsing.parser import NO_PARSE
    from allyouneed.training.validation import Validation

    gold = [tree_of(line) for line in references]

    def validate(model: "EncoderDecoder") -> Mapping[str, float]:
        parser = _build(model, config.greedy(), units)
        found = results(parse_words(parser, gold), NO_PARSE)
        return {"f1": score_trees(gold, [parse.tree for parse in found]).brackets.f1}

    return Validation(validate, PARSING.score)


def _evaluate(
    parser: "Parser", sources: Sequence[str], *references: Sequence[str], **options: Any
) -> list[Score]:
    raise ModelError("the model is a parser; score it with trees", settings=["trees"])


PARSING = Task(
    name="parsing",
    command="parse",
    default_preset="parsing_wsj",
    score="f1",
    score_label="Labelled F1",
    examples="trees",
    target_units="symbols",
    reader=TreeFiles,
    training_files=Choice([("trees",)]),
    validation_files=Choice([("valid_trees",)]),
    data_settings=frozenset({"tags", "brackets"}),
    sides_are_alike=False,
    require_settings=_require_settings,
    ids_per_word=_ids_per_word,
    learn_units=_learn_units,
    load_units=_load_units,
    build=_build,
    validation=_validation,
    evaluate=_evaluate,
)
