"""`allyouneed prepare`: from sentence pairs or trees to data that `train` reads."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from allyouneed.config.presets import preset as named_preset
from allyouneed.config.run import DataConfig
from allyouneed.errors import UsageError
from allyouneed.interfaces.console import notice
from allyouneed.interfaces.number_options import AtLeastOne, Whole, between

if TYPE_CHECKING:
    from allyouneed.data.corpus import Reader
    from allyouneed.tasks.prepared_data import PreparedData
    from allyouneed.tasks.task import Task

Files = Annotated[tuple[Path, ...], Parameter(consume_multiple=True, show_default=False)]


@Parameter(name="*")
@dataclass(frozen=True)
class TextOptions:
    """The text to train on, and held-out text."""

    source: Files = ()
    """Text in the source language, one sentence a line."""
    target: Files = ()
    """Its translation, line by line."""
    pairs: Files = ()
    """In place of both: lines of source TAB target."""
    valid_source: Files = ()
    """Held-out text, by which training is judged while it runs."""
    valid_target: Files = ()
    """Its translation."""
    valid_pairs: Files = ()
    """In place of both."""
    trees: Files = ()
    """With `--task parsing`: trees in Penn brackets."""
    valid_trees: Files = ()
    """Held-out trees."""
    silver_trees: Files = ()
    """Trees that a parser has made of raw text, mixed in (`allyouneed parse --min-confidence`)."""
    repeat_trees: AtLeastOne = 1
    """How often each of `--trees` is there, which sets their share beside silver ones."""
    exchange: Annotated[int, between(0, 1_000_000_000)] = 0
    """New trees made of `--trees`: a constituent in each is that of another tree with the same label."""

    def readers(self, task: "Task") -> tuple["Reader", "Reader"]:
        """What reads the training files, and what reads the validation files.

        Raises:
            UsageError: Files are given that the task does not read.
        """
        from allyouneed.data.corpus_files import CorpusFiles
        from allyouneed.tasks.parsing.treebank import TreeFiles

        train_pairs = CorpusFiles(self.source, self.target, self.pairs)
        valid_pairs = CorpusFiles(self.valid_source, self.valid_target, self.valid_pairs)
        train_trees = TreeFiles(self.trees, self.silver_trees, self.repeat_trees, self.exchange)
        valid_trees = TreeFiles(self.valid_trees)
        of_pairs, of_trees = (train_pairs, valid_pairs), (train_trees, valid_trees)
        chosen, other = (of_trees, of_pairs) if issubclass(task.reader, TreeFiles) else (of_pairs, of_trees)
        if other == (type(other[0])(), type(other[1])()):
            return chosen
        if other is of_trees:
            raise UsageError(
                "--trees and what is made of them are for parsers; add --task parsing, or leave them out"
            )
        raise UsageError(f"--task {task.name} reads --trees and --valid-trees, no sentence pairs")


@Parameter(name="*")
@dataclass(frozen=True)
class DataOptions:
    """How the data is prepared; the preset says what is not given."""

    tokenizer: Literal["bpe", "wordpiece", "byte", "words"] | None = None
    """Sub-word units: byte-pair encoding, word-pieces, or plain bytes; for parsing also words, as so many ids
    each as joined brackets have symbols a word."""
    vocab_size: Whole | None = None
    """Entries of each vocabulary of text, control symbols and bytes included, up to 1,000,000: 37,000 as in
    the paper, for parsing 16,000, if no preset says otherwise. Of words there may be fewer."""
    separate_vocabularies: bool = False
    """Learn one vocabulary for each language in place of a joint one."""
    vocab_sample_bytes: Whole | None = None
    """Bytes of distinct words to learn each vocabulary from, 4,194,304 if no preset says otherwise; a corpus
    with more is sampled. Each takes about 150 bytes of memory. 0 learns from all of the text. Words end at
    white space: of languages without spaces, such as Chinese and Japanese, whole sentences count."""
    max_tokens: Whole | None = None
    """Pairs with a longer side are dropped: 256, for parsing 1,024, if no preset says otherwise."""
    max_length_ratio: float | None = None
    """Pairs whose sides differ by a larger factor in tokens, 4 if no preset says otherwise, are dropped,
    unless both are short."""
    source_language: str | None = None
    """Code such as `en`: texts are split into sentences by its rules."""
    target_language: str | None = None
    """Code such as `de`: with it `evaluate` gives BLEU on Moses tokens too."""
    tags: Literal["normalised", "predicted", "endings"] | None = None
    """What a word of a tree becomes: one symbol, as in the paper, its part of speech, or its last letter."""
    brackets: Literal["labelled", "plain", "joined"] | None = None
    """How a constituent of a tree ends: with its label, as in the paper, or without; or all that open before
    a word are one symbol, and so are all that end after it."""

    def config(self, defaults: DataConfig) -> DataConfig:
        """The settings of a preset, changed by what is given.

        Raises:
            UsageError: Something is given that the task has no use for, or out of range.
        """
        from allyouneed.tasks.catalogue import TASKS

        given = {name: value for name, value in asdict(self).items() if value is not None}
        for task in TASKS.values():
            if task.name != defaults.task and task.data_settings & given.keys():
                options = " and ".join(f"--{name}" for name in sorted(task.data_settings, reverse=True))
                raise UsageError(f"{options} are for {task.name}; add --task {task.name}, or leave them out")
        separate = given.pop("separate_vocabularies")
        joint = defaults.joint_vocabulary and not separate
        return DataConfig.checked(**defaults.model_dump() | given | {"joint_vocabulary": joint})


def prepare(
    data: Path,
    /,
    *,
    text: TextOptions = TextOptions(),
    task: str | None = None,
    preset: str | None = None,
    options: DataOptions = DataOptions(),
) -> None:
    """Clean sentence pairs or trees, learn sub-words, and store them as token ids.

    ```
    allyouneed prepare data --source train.en --target train.de --valid-source val.en --valid-target val.de
    allyouneed prepare data --pairs train.tsv.gz --vocab-size 8000 --target-language de
    allyouneed prepare data --preset parsing_tiny --trees train.mrg --valid-trees dev.mrg
    allyouneed prepare data --task parsing --trees train.mrg --repeat-trees 4 --silver-trees silver.mrg
    ```

    Files may be plain, `.gz` or `.zst`, several of each are read one after the other. What was dropped and
    why is printed, and kept in DATA/report.json.

    Args:
        data: The folder to make.
        text: What to read.
        task: What the data is for: `translation` or `parsing`; by default what the preset is for.
        preset: The preset whose settings of data are taken; `base` if not given, for parsing `parsing_wsj`.
        options: What is to be otherwise.
    """
    from allyouneed.tasks.catalogue import TASKS, task_named
    from allyouneed.tasks.preparing import prepare as prepare_data

    wanted = task_named(task or next(iter(TASKS)))
    defaults = named_preset(preset or wanted.default_preset).data
    if not preset:
        defaults = defaults.replace(task=wanted.name)
    elif task not in (None, defaults.task):
        raise UsageError(f"--preset {preset}: is for {defaults.task}, not for {task}; take another preset")
    config = options.config(defaults)
    _tell(prepare_data(data, *text.readers(task_named(config.task)), config, say=notice))


def _tell(prepared: "PreparedData") -> None:
    if prepared.valid is None:
        notice(
            "no validation data: training will not know how good the model is; "
            f"give {prepared.task.validation_options}"
        )
    task = prepared.task
    print(
        f"{prepared.directory}: {prepared.train.num_pairs:,} {task.examples} to train on, "
        f"{prepared.valid.num_pairs if prepared.valid else 0:,} to validate, "
        f"{prepared.source_vocab_size:,} source and {prepared.target_vocab_size:,} target {task.target_units}"
    )
