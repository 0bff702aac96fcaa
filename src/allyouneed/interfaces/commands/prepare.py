"""`allyouneed prepare`: from sentence pairs or trees to data that `train` reads."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter
from cyclopts.validators import Number

from allyouneed.config import DataConfig
from allyouneed.errors import UsageError
from allyouneed.interfaces.console import notice
from allyouneed.presets import preset

if TYPE_CHECKING:
    from allyouneed.preparation import CorpusFiles, PreparedData, TreeFiles

_DEFAULTS = DataConfig()

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
    repeat_trees: Annotated[int, Parameter(validator=Number(gte=1))] = 1
    """How often each of `--trees` is there, which sets their share beside silver ones."""
    exchange: Annotated[int, Parameter(validator=Number(gte=0))] = 0
    """New trees made of `--trees`: a constituent in each is that of another tree with the same label."""

    def parts(self, task: str) -> tuple["CorpusFiles | TreeFiles", "CorpusFiles | TreeFiles"]:
        """What to train on, and what to validate on.

        Raises:
            UsageError: Something is given that the task has no use for.
        """
        from allyouneed.preparation import CorpusFiles, TreeFiles

        of_pairs = (
            self.source,
            self.target,
            self.pairs,
            self.valid_source,
            self.valid_target,
            self.valid_pairs,
        )
        if task == "parsing":
            if any(of_pairs):
                raise UsageError("--task parsing reads --trees and --valid-trees, no sentence pairs")
            train = TreeFiles(self.trees, self.silver_trees, self.repeat_trees, self.exchange)
            return train, TreeFiles(self.valid_trees)
        if self.trees or self.valid_trees or self.silver_trees:
            raise UsageError("--trees are for parsers; add --task parsing")
        return CorpusFiles(self.source, self.target, self.pairs), CorpusFiles(
            self.valid_source, self.valid_target, self.valid_pairs
        )


def prepare(
    data: Path,
    /,
    *,
    text: TextOptions = TextOptions(),
    task: Literal["translation", "parsing"] = _DEFAULTS.task,
    tokenizer: Literal["bpe", "wordpiece", "byte", "words"] = _DEFAULTS.tokenizer,
    vocab_size: int | None = None,
    separate_vocabularies: bool = False,
    max_tokens: int | None = None,
    max_length_ratio: float = _DEFAULTS.max_length_ratio,
    source_language: str = "",
    target_language: str = "",
    tags: Literal["normalised", "predicted", "endings"] = _DEFAULTS.tags,
    brackets: Literal["labelled", "plain", "joined"] = _DEFAULTS.brackets,
) -> None:
    """Clean sentence pairs or trees, learn sub-words, and store them as token ids.

    ```
    allyouneed prepare data --source train.en --target train.de --valid-source val.en --valid-target val.de
    allyouneed prepare data --pairs train.tsv.gz --vocab-size 8000 --target-language de
    allyouneed prepare data --task parsing --trees train.mrg --valid-trees dev.mrg --vocab-size 4000
    allyouneed prepare data --task parsing --trees train.mrg --repeat-trees 4 --silver-trees silver.mrg
    ```

    Files may be plain, `.gz` or `.zst`, several of each are read one after the other. What was dropped and
    why is printed, and kept in DATA/report.json.

    Args:
        data: The folder to make.
        text: What to read.
        task: What the data is for.
        tokenizer: Sub-word units: byte-pair encoding, word-pieces, or plain bytes; for parsing also words,
            as so many ids each as joined brackets have symbols a word.
        vocab_size: Entries of each vocabulary of text, 261 control symbols and bytes included; 37,000 if not
            given, for parsing 16,000.
        separate_vocabularies: Learn one vocabulary for each language in place of a joint one.
        max_tokens: Pairs with a longer side are dropped; 256 if not given, for parsing 1,024.
        max_length_ratio: Pairs whose sides differ by a larger factor in tokens are dropped, unless both
            are short.
        source_language: Code such as `en`: texts are split into sentences by its rules.
        target_language: Code such as `de`: with it `evaluate` gives BLEU on Moses tokens too.
        tags: Of trees: whether a word is one symbol, as in the paper, its part of speech, or its last letter.
        brackets: Of trees: whether a constituent ends with its label, as in the paper, or not; or whether all
            that open before a word, and all that end after it, are one symbol.
    """
    from allyouneed.preparation import prepare as prepare_data

    defaults = preset("parsing_wsj").data if task == "parsing" else _DEFAULTS
    config = DataConfig.checked(
        task=task,
        tokenizer=tokenizer,
        vocab_size=defaults.vocab_size if vocab_size is None else vocab_size,
        joint_vocabulary=defaults.joint_vocabulary and not separate_vocabularies,
        max_tokens=defaults.max_tokens if max_tokens is None else max_tokens,
        max_length_ratio=max_length_ratio,
        source_language=source_language,
        target_language=target_language,
        tags=tags,
        brackets=brackets,
    )
    _tell(prepare_data(data, *text.parts(task), config, say=notice))


def _tell(prepared: "PreparedData") -> None:
    if prepared.valid is None:
        notice(
            "no validation data: training will not know how good the model is; "
            "give --valid-source and --valid-target, or --valid-trees"
        )
    pairs, units = ("trees", "symbols") if prepared.config.task == "parsing" else ("pairs", "sub-words")
    print(
        f"{prepared.directory}: {prepared.train.num_pairs:,} {pairs} to train on, "
        f"{prepared.valid.num_pairs if prepared.valid else 0:,} to validate, "
        f"{prepared.source_vocab_size:,} source and {prepared.target_vocab_size:,} target {units}"
    )
