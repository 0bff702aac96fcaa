"""Table 4 (6.3): constituency parsing from gold trees, with silver trees of raw text, and from fewer trees.

A row trains a parser, averages its last checkpoints, and parses the words of the test trees, or of the
validation trees if none are given.
"""

import math
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

from allyouneed.config.presets import parsing_semi, parsing_tiny, parsing_wsj
from allyouneed.config.run import RunConfig
from allyouneed.data.corpus import require_rereadable
from allyouneed.data.lines import is_blank, read_lines, write_lines
from allyouneed.data.tokenizer import SMALLEST_VOCABULARY
from allyouneed.errors import DataError, UsageError
from allyouneed.lab.paper.experiment import (
    FAILED,
    HYPOTHESES,
    REFERENCES,
    RESULT,
    Experiment,
    Figure,
    Row,
    RowError,
    WeightsMissingError,
    Work,
    kept_file,
)
from allyouneed.lab.paper.identity import read_json
from allyouneed.lab.paper.scales import SCALES, Scale
from allyouneed.lab.paper.training_rows import PARAMETERS, VALID, average_in, cost_of, require_validation
from allyouneed.lab.statistics.figure_tests import bracket_counts, keep_counts
from allyouneed.model.sizes import count_parameters
from allyouneed.preparation.prepared_data import PreparedData
from allyouneed.preparation.preparing import prepare
from allyouneed.runs.loading import load_parser
from allyouneed.storage.publish import publish_directory
from allyouneed.tasks.parsing.linearisation import Tags, symbols_per_word
from allyouneed.tasks.parsing.parser import NO_PARSE, Parser
from allyouneed.tasks.parsing.task import PARSING, evaluate_parser, parse_words, score_parses
from allyouneed.tasks.parsing.treebank import AUGMENTED, TreeFiles, clean_trees
from allyouneed.tasks.parsing.trees import Tree, read_trees, tree_of
from allyouneed.tasks.requests import ParseRequest, results

EXCHANGES = 5
"""Number of trees made per gold tree in the row `exchange`."""
SENTENCES, SENTENCES_IN_PAPER = 10, 425
"""Sentences of raw text to parse per gold tree; the paper has 17 million for 40,000 trees."""

UNCONSTRAINED = "bracket_f1_unconstrained"
"""Bracket F1 of a search among all outputs, the figure that the paper's stands beside."""
PARSER_FIGURES = {
    "bracket_f1": Figure(
        "bracket F1",
        "EVALB's F1 of labelled constituents; search is restricted to trees over the words",
        judged=True,
    ),
    UNCONSTRAINED: Figure(
        "F1 unconstrained",
        "bracket F1 with any output allowed, and repaired, as in the paper",
        judged=True,
    ),
    "exact_match": Figure("exact match", "percentage of sentences whose tree is entirely right", judged=True),
    "tag_accuracy": Figure(
        "tag accuracy", "percentage of words with the right part-of-speech tag", judged=True
    ),
    "well_formed": Figure("well formed", "percentage of outputs that are trees without repair"),
    "well_formed_unconstrained": Figure(
        "well formed unconstrained",
        "percentage of outputs that are trees without repair, with any output allowed",
    ),
    f"bracket_f1{VALID}": Figure("bracket F1, validation"),
    "trees": Figure("trees", "number of training trees"),
    **PARAMETERS,
}
"""Figures of a parser."""

_NOTES = [
    "The paper's Table 4, on section 23 of the Wall Street Journal. WSJ only, discriminative: Vinyals & "
    "Kaiser et al. (2014) 88.3, Petrov et al. (2006) 90.4, Zhu et al. (2013) 90.4, Dyer et al. (2016) 91.7, "
    "Transformer (4 layers) 91.3. Semi-supervised: Zhu et al. (2013) 91.3, Huang & Harper (2009) 91.3, "
    "McClosky et al. (2006) 92.1, Vinyals & Kaiser et al. (2014) 92.1, Transformer (4 layers) 92.7. "
    "Multi-task: Luong et al. (2015) 93.0. Generative: Dyer et al. (2016) 93.3.",
    "The silver trees of `semi_supervised` come from the parser of `supervised` with the same seed, which "
    "parses sentences drawn evenly from the raw text greedily; the half with the higher confidence is kept, "
    "and gold trees are repeated to the same number. The paper's silver trees come from other parsers, like "
    "those of `other_parser`.",
    "The paper does not restrict its search to trees, so its figures stand beside those of an unconstrained "
    "one.",
    "`words` writes each word itself before its brackets, in batches of as many sentences. It needs data as "
    "the preset `parsing_tiny` makes it.",
    f"`exchange` adds {EXCHANGES} trees for each gold tree, made by exchanging constituents.",
    "`half`, `quarter` and `eighth` are trained on every second, fourth and eighth tree, with a vocabulary "
    "that is smaller in proportion, for 0.71, 0.5 and 0.35 times the updates, the root of their share: fewer "
    "trees are learned sooner, and are overfitted sooner.",
]


def require_trees(data: PreparedData) -> None:
    """Reject data other than a plain treebank; the rows add trees themselves.

    Raises:
        UsageError: The data is for translation, has no validation trees, or holds repeated or added trees.
    """
    require_validation(data, PARSING)
    if AUGMENTED & {*data.report("train")["notes"]}:
        raise UsageError(
            f"{data.directory}: holds repeated, exchanged or silver trees; the rows add these themselves: "
            "prepare it with trees and valid_trees alone",
            settings=["trees", "valid_trees"],
        )


def parser_figures(
    work: Work, config: RunConfig, data: Path, scored_on: Path | None = None
) -> Mapping[str, Any]:
    """Train and average a parser on `data`; score it on the test trees, else on validation trees.

    The latter are those of `scored_on`, by default of the work's data. The row keeps run, model and trees.
    """
    valid = [tree_of(line) for line in PreparedData(scored_on or work.data).lines("valid", "target")]
    parser = load_parser(average_in(work, config, data), device=work.device)
    test = (placed for file in work.inputs.test.values() for placed in clean_trees(read_trees(file)))
    gold = [tree for tree, _ in test] or valid
    on_valid = {}
    if work.inputs.test:
        _, scores = evaluate_parser(parser, valid)
        on_valid = {f"bracket_f1{VALID}": next(s.value for s in scores if s.name == "bracket_f1")}
    constrained, unconstrained = (
        _scores(work, parser, gold, is_constrained) for is_constrained in (True, False)
    )
    return {
        **constrained,
        UNCONSTRAINED: unconstrained["bracket_f1"],
        "well_formed_unconstrained": unconstrained["well_formed"],
        **on_valid,
        "trees": PreparedData(data).train.num_pairs,
        "parameters_millions": sum(count_parameters(parser.config.model).values()) / 1e6,
        **cost_of(work.directory / "run"),
    }


def _scores(work: Work, parser: Parser, gold: Sequence[Tree], is_constrained: bool) -> dict[str, float]:
    """Scores of a parser, whose trees are kept beside the gold ones, with the counts of each sentence."""
    parses = list(results(parse_words(parser, gold, constrained=is_constrained), NO_PARSE))
    suffix = "" if is_constrained else UNCONSTRAINED.removeprefix("bracket_f1")
    for name, trees in ((HYPOTHESES, map(str, parses)), (REFERENCES, map(str, gold))):
        write_lines(work.directory / kept_file(name, suffix), trees)
    counts = bracket_counts(gold, [parse.tree for parse in parses])
    keep_counts(work.directory, {f"bracket_f1{suffix}": counts})
    return {score.name: score.value for score in score_parses(parser, gold, parses)[1]}


def _supervised(work: Work) -> Mapping[str, Any]:
    return parser_figures(work, work.scale(parsing_wsj()), work.data)


def _fewer_trees(work: Work, *, every: int) -> Mapping[str, Any]:
    """Train on every `every`-th tree, for fewer updates with the same warm-up and so the same peak rate."""
    given = PreparedData(work.data).config.vocab_size
    vocab_size = SMALLEST_VOCABULARY + (given - SMALLEST_VOCABULARY) // every
    config = work.scale(parsing_wsj())
    intervals = config.training.model_dump(include={"num_steps", "checkpoint_every_steps"})
    shorter = {name: max(1, round(steps / math.sqrt(every))) for name, steps in intervals.items() if steps}
    data = _prepared(work, vocab_size=vocab_size, every=every)
    return parser_figures(work, config.replace(training=shorter), data)


def _exchange(work: Work) -> Mapping[str, Any]:
    exchanges = EXCHANGES * PreparedData(work.data).train.num_pairs
    return parser_figures(
        work, work.scale(parsing_wsj()), _prepared(work, trees=partial(TreeFiles, exchanges=exchanges))
    )


def _words(work: Work) -> Mapping[str, Any]:
    config = work.scale(parsing_wsj())
    sizes = config.training.model_dump(include={"batch_tokens", "micro_batch_tokens"})
    more, fewer = symbols_per_word("words"), symbols_per_word("predicted")
    longer = {name: size * more // fewer for name, size in sizes.items() if size}
    return parser_figures(work, config.replace(training=longer), _prepared(work, tags="words"))


def _semi_supervised(work: Work) -> Mapping[str, Any]:
    return _with_silver(work, _silver_trees(work))


def _other_parser(work: Work) -> Mapping[str, Any]:
    assert work.inputs.silver is not None
    return _with_silver(work, work.inputs.silver)


def _with_silver(work: Work, silver: Path) -> Mapping[str, Any]:
    """Train on gold and silver trees, the gold ones repeated to the same number."""
    given, num_silver = PreparedData(work.data), sum(1 for _ in clean_trees(read_trees(silver)))
    data = _prepared(
        work,
        vocab_size=given.config.vocab_size * (2 if work.scale.name == "paper" else 1),
        trees=partial(
            TreeFiles, silver=silver, repetitions=max(1, round(num_silver / given.train.num_pairs))
        ),
    )
    return {**parser_figures(work, work.scale(parsing_semi()), data), "silver_trees": num_silver}


def _prepared(
    work: Work,
    *,
    every: int = 1,
    vocab_size: int | None = None,
    tags: Tags | None = None,
    trees: Callable[[Path], TreeFiles] = TreeFiles,
) -> Path:
    """Prepare, once, every `every`-th tree of the given data; `trees` adds others to them."""
    data = work.directory / "data"
    if not data.exists():
        given = PreparedData(work.data)
        train, valid = work.directory / "train.mrg", work.directory / "valid.mrg"
        write_lines(train, given.lines("train", "target")[::every])
        write_lines(valid, given.lines("valid", "target"))
        config = given.config.replace(
            vocab_size=vocab_size or given.config.vocab_size, tags=tags or given.config.tags
        )
        prepare(data, trees(train), TreeFiles(valid), config, work.say)
    return data


def _silver_trees(work: Work) -> Path:
    """Trees of raw text by the supervised parser of the same seed: the more confident half."""
    folder = work.directory / "silver"
    if folder.exists():
        return folder / "silver.mrg"
    model = work.beside("supervised") / "model"
    if FAILED in read_json(model.with_name(RESULT)):
        raise RowError(f"{model}: the row supervised has no parser; see there why")
    if not model.exists():
        raise WeightsMissingError(
            f"{model}: is not there, and makes the silver trees; kept rows have no weights: delete "
            f"{model.parent} and compute it without from, or choose other rows",
            settings=["rows", "from"],
        )
    per_tree = SENTENCES_IN_PAPER if work.scale.name == "paper" else SENTENCES
    number = per_tree * PreparedData(work.data).train.num_pairs
    work.say(f"parsing {number:,} sentences of raw text, or as many as there are")
    parser, confidences = load_parser(model, device=work.device), list[float]()

    def trees() -> Iterator[str]:
        requests = map(ParseRequest, count(1), _spread(work.inputs.text, number))
        for parse in results(parser.answer(requests, beam_size=1), NO_PARSE):
            if parse.tree:
                confidences.append(parse.confidence)
                yield str(parse)

    with publish_directory(folder, "silver") as aside:
        write_lines(aside / "parsed.mrg", trees())
        if not confidences:
            raise DataError(
                f"{work.inputs.text[0]}: has no sentence that can be parsed; give text, a sentence a line"
            )
        middle = statistics.median(confidences)
        parsed = zip(read_lines(aside / "parsed.mrg"), confidences, strict=True)
        write_lines(aside / "silver.mrg", (tree for tree, sure in parsed if sure >= middle))
    return folder / "silver.mrg"


def _spread(files: Sequence[Path], number: int) -> Iterator[str]:
    """`number` lines spread evenly over all files, or all lines if there are fewer."""
    require_rereadable(files)

    def lines() -> Iterator[str]:
        return (line for file in files for line in read_lines(file) if not is_blank(line))

    total = sum(1 for _ in lines())
    return (line for place, line in enumerate(lines()) if place * number % total < number)


def _rows(scale: Scale) -> Sequence[Row]:
    gold, silver = {UNCONSTRAINED: 91.3}, {UNCONSTRAINED: 92.7}
    parts = ["supervised"]
    written = {"tokenizer": "words", "tags": "predicted", "brackets": "joined"}
    return [
        Row("supervised", "gold trees only", _supervised, gold),
        Row("semi_supervised", "and silver trees", _semi_supervised, silver, made_of=parts, needs_text=True),
        Row("other_parser", "and silver trees of another parser", _other_parser, silver, needs_silver=True),
        Row("exchange", "and exchanged constituents", _exchange, every_seed=False),
        *(
            Row(name, f"1/{every} of the gold trees", partial(_fewer_trees, every=every), every_seed=False)
            for name, every in (("half", 2), ("quarter", 4), ("eighth", 8))
        ),
        Row("words", "and words in the output", _words, data_settings=written),
    ]


def _scales() -> dict[str, Scale]:
    """The scales of the other experiments, except that tiny is the preset `parsing_tiny`."""

    def changes(group: str) -> dict[str, Any]:
        paper = getattr(parsing_wsj(), group).model_dump()
        tiny = getattr(parsing_tiny(), group).model_dump()
        return {k: v for k, v in tiny.items() if v != paper[k] and not k.endswith("vocab_size")}

    model, training, search = map(changes, ("model", "training", "search"))
    return {
        "tiny": Scale("tiny", 1, 1, training, "an hour a row on two cores, with 3,400 trees", model, search),
        "paper": replace(SCALES["paper"], sized_for="eight P100, with the Wall Street Journal"),
    }


TABLE4 = Experiment(
    "table4",
    "Table 4: English constituency parsing",
    _rows,
    PARSER_FIGURES | {"silver_trees": Figure("silver trees", "number of training trees made by a parser")},
    require_trees,
    notes=_NOTES,
    scales=_scales(),
    test_settings=("test_trees",),
    revision=2,
)
