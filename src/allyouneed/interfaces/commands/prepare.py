"""`allyouneed prepare`: from sentence pairs to data that `train` reads."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from allyouneed.config import DataConfig
from allyouneed.interfaces.console import notice

if TYPE_CHECKING:
    from allyouneed.preparation import CorpusFiles, PreparedData

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

    def parts(self) -> tuple["CorpusFiles", "CorpusFiles"]:
        """What to train on, and what to validate on."""
        from allyouneed.preparation import CorpusFiles

        train = CorpusFiles(self.source, self.target, self.pairs)
        return train, CorpusFiles(self.valid_source, self.valid_target, self.valid_pairs)


def prepare(
    data: Path,
    /,
    *,
    text: TextOptions = TextOptions(),
    tokenizer: Literal["bpe", "wordpiece", "byte"] = _DEFAULTS.tokenizer,
    vocab_size: int = _DEFAULTS.vocab_size,
    separate_vocabularies: bool = False,
    max_tokens: int = _DEFAULTS.max_tokens,
    max_length_ratio: float = _DEFAULTS.max_length_ratio,
    source_language: str = "",
    target_language: str = "",
) -> None:
    """Clean sentence pairs, learn sub-words, and store the pairs as token ids.

    ```
    allyouneed prepare data --source train.en --target train.de --valid-source val.en --valid-target val.de
    allyouneed prepare data --pairs train.tsv.gz --vocab-size 8000 --target-language de
    ```

    Files may be plain, `.gz` or `.zst`, several of each are read one after the other. What was dropped and
    why is printed, and kept in DATA/report.json.

    Args:
        data: The folder to make.
        text: What to read.
        tokenizer: Sub-word units: byte-pair encoding, word-pieces, or plain bytes.
        vocab_size: Entries of each vocabulary, 261 control symbols and bytes included.
        separate_vocabularies: Learn one vocabulary for each language in place of a joint one.
        max_tokens: Pairs with a longer side are dropped.
        max_length_ratio: Pairs whose sides differ by a larger factor in tokens are dropped, unless both
            are short.
        source_language: Code such as `en`: texts are split into sentences by its rules.
        target_language: Code such as `de`: with it `evaluate` gives BLEU on Moses tokens too.
    """
    from allyouneed.preparation import prepare as prepare_data

    config = DataConfig.checked(
        tokenizer=tokenizer,
        vocab_size=vocab_size,
        joint_vocabulary=not separate_vocabularies,
        max_tokens=max_tokens,
        max_length_ratio=max_length_ratio,
        source_language=source_language,
        target_language=target_language,
    )
    _tell(prepare_data(data, *text.parts(), config, say=notice))


def _tell(prepared: "PreparedData") -> None:
    if prepared.valid is None:
        notice(
            "no validation text: training will not know how good the model is; "
            "give --valid-source and --valid-target"
        )
    print(
        f"{prepared.directory}: {prepared.train.num_pairs:,} pairs to train on, "
        f"{prepared.valid.num_pairs if prepared.valid else 0:,} to validate, "
        f"{prepared.source_vocab_size:,} source and {prepared.target_vocab_size:,} target sub-words"
    )
