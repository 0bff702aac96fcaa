"""`allyouneed prepare`: from sentence pairs to data that `train` reads."""

from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from allyouneed.interfaces.console import notice

Files = Annotated[list[Path] | None, Parameter(consume_multiple=True)]


def prepare(
    data: Path,
    /,
    *,
    source: Files = None,
    target: Files = None,
    pairs: Files = None,
    valid_source: Files = None,
    valid_target: Files = None,
    valid_pairs: Files = None,
    tokenizer: Literal["bpe", "wordpiece", "byte"] = "bpe",
    vocab_size: int = 37_000,
    separate_vocabularies: bool = False,
    max_tokens: int = 256,
    max_length_ratio: float = 4.0,
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
        source: Text in the source language, one sentence a line.
        target: Its translation, line by line.
        pairs: In place of both: lines of source TAB target.
        valid_source: Held-out text, by which training is judged while it runs.
        valid_target: Its translation.
        valid_pairs: In place of both.
        tokenizer: Sub-word units: byte-pair encoding, word-pieces, or plain bytes.
        vocab_size: Entries of each vocabulary, 261 control symbols and bytes included.
        separate_vocabularies: Learn one vocabulary for each language in place of a joint one.
        max_tokens: Pairs with a longer side are dropped.
        max_length_ratio: Pairs whose sides differ by a larger factor in tokens are dropped, unless both
            are short.
        source_language: Code such as `en`, for the record.
        target_language: Code such as `de`: with it `evaluate` gives BLEU on Moses tokens too.
    """
    from allyouneed.config import DataConfig
    from allyouneed.preparation import CorpusFiles
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
    prepared = prepare_data(
        data,
        CorpusFiles(source or (), target or (), pairs or ()),
        CorpusFiles(valid_source or (), valid_target or (), valid_pairs or ()),
        config,
        say=notice,
    )
    if prepared.valid is None:
        notice(
            "no validation text: training will not know how good the model is; "
            "give --valid-source and --valid-target"
        )
    print(
        f"{data}: {prepared.train.num_pairs:,} pairs to train on, "
        f"{prepared.valid.num_pairs if prepared.valid else 0:,} to validate, "
        f"{prepared.source_vocab_size:,} source and {prepared.target_vocab_size:,} target sub-words"
    )
