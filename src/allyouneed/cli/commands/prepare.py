"""`allyouneed prepare`: turns sentence pairs or trees into data for `train`."""

from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from allyouneed.cli.corpus_options import CorpusOptions, refuse
from allyouneed.cli.progress import watch
from allyouneed.cli.shared_options import Engine, Share, Whole, between, workers_of
from allyouneed.config.presets import preset as named_preset
from allyouneed.config.run import DataConfig
from allyouneed.errors import UsageError, notice

if TYPE_CHECKING:
    from allyouneed.data.public_corpora import PublicCorpus
    from allyouneed.preparation.prepared_data import PreparedData

_OF_PAIRS = "separate_vocabularies", "max_length_ratio", "source_language", "target_language"
"""Options that are not for trees."""
_OF_LEARNING = "vocab_size", "separate_vocabularies", "vocab_sample_bytes"
"""Options that are not for plain bytes, which are not learned."""


@Parameter(name="*")
@dataclass(frozen=True)
class DataOptions:
    """Data settings; the preset supplies those that are not given."""

    tokenizer: Literal["bpe", "wordpiece", "byte", "sentencepiece", "words"] | None = None
    """Units of text: byte-pair encoding (the default), word-pieces, plain bytes, or SentencePiece's unigrams
    (needs `allyouneed[sentencepiece]`); for parsing also words, each with as many ids as joined brackets have
    symbols per word."""
    vocab_size: Whole | None = None
    """Entries of each vocabulary of text, including control symbols and bytes, up to 1,000,000: by default as
    in the preset, or without one from 504 to 32,000 by the number of pairs, or 16,000 for parsing. The
    paper's, in preset `base`, has 37,000. A vocabulary of words may have fewer."""
    separate_vocabularies: bool = False
    """Learn one vocabulary per language instead of a joint one."""
    vocab_sample_bytes: Whole | None = None
    """Bytes of distinct words to learn each vocabulary from, by default as in the preset or 4,194,304; larger
    corpora are sampled. Each byte takes about 150 bytes of memory. 0 uses the whole text. Words end at white
    space; in languages without spaces, such as Chinese and Japanese, whole sentences count as words."""
    max_tokens: Whole | None = None
    """Maximum tokens per side, by default as in the preset, 256, or 1,024 for parsing; others are dropped."""
    max_length_ratio: float | None = None
    """Maximum ratio of the token counts of both sides, by default as in the preset or 4; other pairs are
    dropped, unless both sides are short."""
    bpe_dropout: Share | None = None
    """Probability, such as 0.1, that a merge of `bpe` is left out in training text, so that a word is
    segmented in several ways; best with several copies of each pair, as of `--weights 8`."""
    placeholders: bool = False
    """Put symbols in place of words in a fifth of the training pairs, so that the model learns to keep the
    spans of `translate --keep` in their places."""
    annotate_terms: bool = False
    """Write translations after words in a fifth of the training sources, so that the model learns to use the
    terms of `translate --glossary` by itself."""
    source_language: str | None = None
    """Language code such as `en`; its rules split texts into sentences. A TMX needs it."""
    target_language: str | None = None
    """Language code such as `de` or `zh`; BLEU, in validation, too, counts its tokens. A TMX needs it."""
    tags: Literal["normalised", "predicted", "endings", "words"] | None = None
    """Symbol of a word in a tree: the same for all (as in the paper), its part of speech, its last letter, or
    its part of speech and, before its brackets, the word itself."""
    brackets: Literal["labelled", "plain", "joined"] | None = None
    """Closing brackets of a tree: with labels, as in the paper, or without; or joined: one symbol for all
    constituents that open before a word, and one for all that end after it."""

    def config(self, defaults: DataConfig) -> DataConfig:
        """The settings of a preset, overridden by the given ones."""
        from allyouneed.tasks.catalogue import TASKS, task_named

        given = {name: value for name, value in asdict(self).items() if not (value is None or value is False)}
        for task in TASKS.values():
            if task.name != defaults.task and task.data_settings & given.keys():
                names = sorted(task.data_settings, reverse=True)
                *others, last = (f"--{name.replace('_', '-')}" for name in names)
                options = " and ".join([", ".join(others), last] if others else [last])
                are, them = ("are", "them") if len(names) > 1 else ("is", "it")
                raise UsageError(
                    f"{options} {are} for {task.name}; add --task {task.name}, or leave {them} out"
                )
        if not task_named(defaults.task).reads_pairs:
            refuse((name for name in _OF_PAIRS if name in given), "for sentence pairs only")
        if (self.tokenizer or defaults.tokenizer) == "byte":
            refuse((name for name in _OF_LEARNING if name in given), "of no effect with --tokenizer byte")
        separate = given.pop("separate_vocabularies", False)
        joint = defaults.joint_vocabulary and not separate
        return DataConfig.checked(**defaults.model_dump() | given | {"joint_vocabulary": joint})


def prepare(
    data: Path,
    /,
    *,
    text: CorpusOptions = CorpusOptions(),
    task: str | None = None,
    preset: str | None = None,
    tokenizer_from: Path | None = None,
    workers: Annotated[int, between(0, 1_024)] | None = None,
    engine: Engine = "local",
    options: DataOptions = DataOptions(),
) -> None:
    """Clean sentence pairs or trees, learn sub-words, and store them as token ids.

    ```
    allyouneed prepare data --source train.en --target train.de --valid-source val.en --valid-target val.de
    allyouneed prepare data --pairs train.tsv.gz --vocab-size 8000 --target-language de
    allyouneed prepare data --source news.en talks.en --target news.de talks.de --weights 1 4
    allyouneed prepare data --pairs crawl.tsv.gz --columns 3 4 --score-column 5 --min-score 0.5
    allyouneed prepare data --pairs memory.tmx --source-language en --target-language de
    allyouneed prepare data --pairs en-de=one.tsv en-fr=other.tsv --both-directions
    allyouneed prepare data --corpus wmt14-en-de --from wmt14
    allyouneed prepare more --source more.en --target more.de --tokenizer-from models/first
    allyouneed prepare data --preset parsing_tiny --trees train.mrg --valid-trees dev.mrg
    allyouneed prepare data --task parsing --trees train.mrg --repeat-trees 4 --silver-trees silver.mrg
    ```

    Files may be plain or compressed by gzip, bzip2, xz, zstd or zip, whatever their names; several files of a
    kind are read one after another. Counts of dropped pairs, with reasons, are printed and stored in
    DATA/report.json. A large preparation that is killed or interrupted goes on with the same command.

    Args:
        data: The folder to make.
        text: Files to read.
        task: Task of the data: `translation`, `parsing` or `frames`; by default the preset's.
        preset: Preset to take data settings from; by default `base`, or `parsing_wsj` for parsing.
        tokenizer_from: Model whose sub-words and data settings are taken, for data to continue it with
            (`train --init-from`): a run, a checkpoint or a model folder.
        workers: Number of processes that encode a large corpus, by default one for each core, up to
            16; 0 for none. The result does not depend on it.
        options: Settings that override the preset's.
    """
    from allyouneed.preparation.preparing import prepare as prepare_data
    from allyouneed.storage.publish import require_free
    from allyouneed.tasks.catalogue import task_named

    require_free(data)  # before lines are counted
    public = text.public_corpus()
    config = options.config(_defaults(public, task, preset, tokenizer_from))
    task_of_data = task_named(config.task)
    readers, shown = text.readers(task_of_data, config), partial(watch, task_of_data.examples)
    if readers[0].directions:
        refuse((name for name in _OF_PAIRS[2:] if getattr(options, name)), "the names of --pairs say it")
    say = partial(notice, settings=["vocab_sample_bytes"])
    start = partial(prepare_data, data, *readers, config, say=say, watch=shown)
    with workers_of(engine, workers) as encoders:
        prepared = start(tokenizer_from=tokenizer_from, num_workers=encoders)
    _report(prepared)
    if public:
        print(f"the paper: {public.paper_pairs} pairs")


def _defaults(
    public: "PublicCorpus | None", task: str | None, preset: str | None, model: Path | None
) -> DataConfig:
    """The data settings that options override: those of a model, of a preset, or of a task's own."""
    from allyouneed.tasks.catalogue import TASKS, task_named

    first = next(iter(TASKS))
    if model:
        if preset is not None:
            raise UsageError(
                f"--preset {preset}: the settings are those of --tokenizer-from {model}; leave one out"
            )
        from allyouneed.runs.initial_model import InitialModel

        settings = InitialModel.read(model).config.data
        if task not in (None, settings.task):
            raise UsageError(f"--task {task}: {model} is for {settings.task}; leave --task out")
    else:
        if public and task in (None, first):
            preset = preset or public.preset
        wanted = task_named(task or first)
        settings = named_preset(preset or wanted.default_preset).data
        if not preset:
            settings = settings.replace(task=wanted.name)
            if wanted.reads_pairs:
                settings = settings.replace(vocab_size=0)
        elif task not in (None, settings.task):
            raise UsageError(
                f"--preset {preset}: is for {settings.task}, not for {task}; take another preset"
            )
    if not public:
        return settings
    return settings.replace(source_language=public.source_language, target_language=public.target_language)


def _report(prepared: "PreparedData") -> None:
    task, files = prepared.task, prepared.task.validation_files
    if prepared.valid is None:
        notice(f"no validation data: training will not know how good the model is; give {files}", files.names)
    print(
        f"{prepared.directory}: {prepared.train.num_pairs:,} {task.examples} to train on, "
        f"{prepared.valid.num_pairs if prepared.valid else 0:,} to validate, "
        f"{prepared.source_vocab_size:,} source and {prepared.target_vocab_size:,} target {task.target_units}"
    )
