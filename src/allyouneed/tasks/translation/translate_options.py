"""Options of a call that translates, in addition to the settings of search."""

from collections.abc import Mapping
from typing import Any, Literal

from allyouneed.config.run import SearchConfig, SearchSettings
from allyouneed.config.settings import Batch, Config, Workers, require_counts
from allyouneed.errors import UsageError
from allyouneed.tasks.requests import combined_search


class TranslateConfig(Config):
    """How texts are divided, and how much is computed at a time."""

    batch_tokens: Batch | None = 8_192
    """Maximum tokens of a batch, including padding, times the beam size or number of samples; bounds memory.
    None: unlimited."""
    batch_size: Batch | None = None
    """Maximum sentences of a batch; by default unlimited."""
    workers: Workers | None = None
    """Number of batches computed at the same time; by default one per core."""
    split_sentences: bool = False
    """Whether to translate each sentence of a text separately. The n-th best translation of a text joins the
    n-th best of its sentences."""
    too_long: Literal["split", "error"] = "split"
    """What to do with a text that is too long for the model: split it, at the ends of sentences, else at
    white space, else between tokens, or report an error. Texts with more tokens than `data.max_tokens` are
    split, too, but only at the ends of sentences."""


class TranslateOptions(SearchSettings, total=False):
    """Settings of `TranslateConfig` and `SearchConfig` as keyword arguments."""

    batch_tokens: int | None
    batch_size: int | None
    workers: int | None
    split_sentences: bool
    too_long: Literal["split", "error"]


def configured(options: Mapping[str, Any], own: SearchConfig) -> tuple[TranslateConfig, SearchConfig]:
    """Combine the options of a call with the settings of the model.

    Args:
        options: `TranslateOptions`; by default, search settings are those of the model.
        own: Search settings of the model.

    Raises:
        UsageError: A setting is unknown, out of range, or has no effect beside the others.
    """
    beside = {name: value for name, value in options.items() if name in TranslateConfig.model_fields}
    given = {name: v for name, v in options.items() if name not in beside and v is not None}
    search = combined_search(given, own)
    return TranslateConfig.checked(**beside), search


def check_n_best(n_best: int, mbr: int | None) -> None:
    """Check the number of translations per text.

    Raises:
        UsageError: The number is out of range, or greater than the number of samples.
    """
    require_counts(n_best=n_best)
    if mbr is not None and n_best > mbr:
        raise UsageError(
            f"n_best {n_best}: mbr draws only {mbr} samples; raise mbr",
            settings=["n_best", "mbr"],
        )
