"""The parsing task: trained on trees, used as a `Parser`, scored by labelled F1."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Unpack

from allyouneed.config.run import DataConfig, DecodingPrecision, RunConfig
from allyouneed.data.tokenizer import Tokenizer
from allyouneed.errors import DataError, ModelError, UsageError
from allyouneed.evaluation.scores import Score
from allyouneed.tasks.parsing.bracket_f1 import BracketScores, score_trees
from allyouneed.tasks.parsing.linearisation import TAGGED, WORD, is_word, symbols_per_word
from allyouneed.tasks.parsing.tree_vocabulary import TreeVocabulary
from allyouneed.tasks.parsing.treebank import UNTAGGED
from allyouneed.tasks.parsing.trees import Tree, sentences_of, tree_of
from allyouneed.tasks.parsing.word_features import WordFeatures
from allyouneed.tasks.requests import Answer, Failure, ParseRequest, results
from allyouneed.tasks.task import SOURCE_TOKENIZER, TARGET_TOKENIZER, Choice, Task, TrainingText, Units

if TYPE_CHECKING:
    from allyouneed.model.encoder_decoder import EncoderDecoder
    from allyouneed.tasks.parsing.parser import Parse, ParseOptions, Parser
    from allyouneed.training.meters import Validation


def evaluate_parser(
    parser: "Parser", gold: Sequence[Tree], **options: "Unpack[ParseOptions]"
) -> tuple[BracketScores, list[Score]]:
    """Scores of a parser on sentences with gold trees, cleaned; `options` are those of `Parser.parse`.

    Returns:
        The result of `score_parses`.

    Raises:
        DataError: There are no trees.
    """
    from allyouneed.tasks.parsing.parser import NO_PARSE

    return score_parses(parser, gold, list(results(parse_words(parser, gold, **options), NO_PARSE)))


def parse_words(
    parser: "Parser", gold: Sequence[Tree], **options: "Unpack[ParseOptions]"
) -> "Iterator[Answer[Parse] | Failure]":
    """The answers of a parser to the words of each tree; `options` are those of `Parser.parse`."""
    return parser.answer(map(ParseRequest, count(1), sentences_of(gold)), **options)


def score_parses(
    parser: "Parser", gold: Sequence[Tree], found: "Sequence[Parse]"
) -> tuple[BracketScores, list[Score]]:
    """Scores of a parser's trees against gold trees, with tag accuracy if the parser predicts tags.

    A sentence that was too long to parse has no tree, and counts as one without constituents.

    Returns:
        The counts, and the scores, including the share of outputs that needed no repair.

    Raises:
        DataError: There are no trees, or the numbers of trees differ.
    """
    sums = score_trees(gold, [parse.tree for parse in found])
    share = sum(parse.tree is not None and not parse.repaired for parse in found) / len(gold)
    well_formed = Score("well_formed", 100 * share, "trees:before-repair|leaves:as-many-as-words")
    return sums, [*sums.scores(tagged=parser.vocabulary.tags in TAGGED), well_formed]


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
    precision: DecodingPrecision = "float32",
    threads: int = 1,
) -> "Parser":
    if shortlist is not None:
        raise UsageError("shortlist: is for translators only; leave it out", settings=["shortlist"])
    from allyouneed.tasks.parsing.parser import Parser

    source, target = units
    assert isinstance(source, Tokenizer | WordFeatures)
    assert isinstance(target, TreeVocabulary)
    return Parser(models, config, source, target, precision=precision, threads=threads)


def _validation(
    sources: Sequence[str], references: Sequence[str], units: Units, config: RunConfig
) -> "Validation":
    """F1 of greedy trees, which are fast; a sentence that is too long gets a tree without constituents."""
    from allyouneed.tasks.parsing.parser import NO_PARSE
    from allyouneed.training.meters import Validation

    gold = [tree_of(line) for line in references]

    def validate(model: "EncoderDecoder") -> Mapping[str, float]:
        parser = _build(model, config.greedy(), units)
        found = results(parse_words(parser, gold), NO_PARSE)
        return {"f1": score_trees(gold, [parse.tree for parse in found]).brackets.f1}

    return Validation(validate, PARSING.score)


PARSING = Task(
    name="parsing",
    command="parse",
    default_preset="parsing_wsj",
    score="f1",
    score_label="Labelled F1",
    examples="trees",
    target_units="symbols",
    reads_pairs=False,
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
    evaluate=None,
)
