"""The paper's own form of parsing (6.3) on trees of the demo's grammar: from how many trees does it work?"""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from allyouneed.config.presets import parsing_wsj
from allyouneed.data.lines import write_lines
from allyouneed.lab.demo.grammar import generate_demo_corpus
from allyouneed.lab.paper.experiment import CURVE, Experiment, Row, Work
from allyouneed.lab.paper.scales import Scale
from allyouneed.lab.paper.table4 import PARSER_FIGURES, parser_figures
from allyouneed.lab.paper.training_rows import curve_of
from allyouneed.preparation.preparing import prepare
from allyouneed.tasks.parsing.treebank import TreeFiles

NUM_TREES = (425, 850, 1_701, 3_401, 6_802, 13_604, 27_208, 54_416)
"""Numbers of training trees."""
IN_SAMPLE = 3_401
"""Number of training trees of the Penn Treebank sample, with which others are compared."""
NUM_VALID = 500
VOCAB_SIZE = 1_000
"""Sub-words of the source: so few that a word has 1.14 on average."""

_NOTES = [
    "The paper's form: normalisation after the sum, sub-words in the source, labelled brackets without parts "
    "of speech in the output, beam 21, length penalty 0.3. All rows have as many updates, so those with "
    f"fewer trees see each more often; they learn {VOCAB_SIZE:,} sub-words, 1.14 per word, from their own "
    "trees.",
    "The trees are those of the demo's English sentences, of 7 to 16 words besides punctuation; all rows are "
    f"scored on the same {NUM_VALID} others of the same grammar. `bracket_f1` is of a search among trees "
    "over the words of the sentence, `bracket_f1_unconstrained` of one among all outputs, as in the paper.",
]


def _compute(work: Work, *, num_trees: int) -> Mapping[str, Any]:
    data, config = work.directory / "data", parsing_wsj()
    if not data.exists():
        # The validation trees come first, so that they are the same for all numbers of trees.
        pairs = generate_demo_corpus(NUM_VALID + num_trees, num_valid=0, num_test=0).train
        trees = [pair.source_tree for pair in pairs]
        train, valid = work.directory / "train.mrg", work.directory / "valid.mrg"
        write_lines(train, trees[NUM_VALID:])
        write_lines(valid, trees[:NUM_VALID])
        settings = config.data.replace(vocab_size=VOCAB_SIZE)
        prepare(data, TreeFiles(train), TreeFiles(valid), settings, work.say)
    figures = parser_figures(work, work.scale(config), data, data)
    return {**figures, CURVE: curve_of(work.directory / "run")}


def _rows(scale: Scale) -> Sequence[Row]:
    names = {n: f"trees_{n}" for n in NUM_TREES}
    return [
        Row(
            names[n],
            f"{n:,} trees",
            partial(_compute, num_trees=n),
            baselines=[] if n == IN_SAMPLE else [names[IN_SAMPLE]],
        )
        for n in NUM_TREES
    ]


def _scale(name: str, num_steps: int, sized_for: str) -> Scale:
    training = {
        "batch_tokens": 2_048,
        "micro_batch_tokens": 1_024,
        "num_steps": num_steps,
        "warmup_steps": num_steps * 2 // 5,
        "learning_rate_factor": 1.0,
        "checkpoint_every_steps": num_steps // 20,
        "validate_every_steps": num_steps // 20,
    }
    # Deviation: less dropout than the preset has, with which so small a model finds no words this soon.
    model = {"dropout": 0.1, "attention_dropout": 0.0}
    return Scale(name, 8, 1, training, sized_for, model, fewer_heads=2)


TABLE4_GRAMMAR = Experiment(
    "table4-grammar",
    "Table 4 in the paper's own form, on generated trees",
    _rows,
    PARSER_FIGURES,
    notes=_NOTES,
    revision=2,
    scales={
        scale.name: scale
        for scale in (
            _scale("quick", 600, "three minutes a row on one core"),
            _scale("tiny", 2_000, "ten minutes a row on one core"),
        )
    },
)
