"""The options of a call that translates, beside the settings of search."""

from collections.abc import Mapping
from typing import Any, Literal

from allyouneed.config.bounds import Batch, Workers, require_counts
from allyouneed.config.run import SearchConfig, SearchSettings
from allyouneed.config.settings import Config
from allyouneed.errors import UsageError

_IDLE = {True: ("beam_size",), False: ("temperature", "top_k", "top_p", "seed")}
"""Whether outputs are drawn -> settings that then have no effect."""


class TranslateConfig(Config):
    """How texts are divided, and how much is computed at once."""

    batch_tokens: Batch | None = 8_192
    """Tokens of a batch, padding included, times the beam size or the number of samples: a bound on memory;
    None sets no bound."""
    batch_size: Batch | None = None
    """The most sentences of a batch; any number if None."""
    workers: Workers | None = None
    """Batches computed at once; one for each core if None."""
    split_sentences: bool = False
    """Translate each sentence of a text by itself, and join the translations. The n-th best of the whole has
    the n-th best of each."""
    too_long: Literal["split", "error"] = "split"
    """Whether a text of more tokens than the model can read is split (at the ends of sentences, or where need
    be at white space, or between tokens), or is an error."""


class TranslateOptions(SearchSettings, total=False):
    """The settings of `TranslateConfig` and of `SearchConfig` as keyword arguments."""

    batch_tokens: int | None
    batch_size: int | None
    workers: int | None
    split_sentences: bool
    too_long: Literal["split", "error"]


def configured(options: Mapping[str, Any], own: SearchConfig) -> tuple[TranslateConfig, SearchConfig]:
    """The configuration of a call.

    Args:
        options: `TranslateOptions`; settings of search that are None or missing are the model's own.
        own: Settings of search of the model.

    Raises:
        UsageError: A setting is unknown, out of range, or without effect beside the others.
    """
    beside = {name: value for name, value in options.items() if name in TranslateConfig.model_fields}
    given = {name: v for name, v in options.items() if name not in beside and v is not None}
    search = SearchConfig.checked(**own.model_dump() | given)
    if search.mbr is not None:
        search = search.replace(sampling=True)
    if idle := [name for name in _IDLE[search.sampling] if name in given]:
        reason = (
            "this is for search only; leave out sampling or mbr"
            if search.sampling
            else "this is for samples only; add sampling, or mbr N"
        )
        raise UsageError(f"{', '.join(idle)}: {reason}", settings=[*idle, "sampling", "mbr"])
    return TranslateConfig.checked(**beside), search


def check_n_best(n_best: int, mbr: int | None) -> None:
    """Refuse a number of translations that cannot be given.

    Raises:
        UsageError: It is out of range, or more than the samples that are drawn.
    """
    require_counts(n_best=n_best)
    if mbr is not None and n_best > mbr:
        raise UsageError(
            f"n_best {n_best}: of mbr {mbr} samples there are no more; raise the latter",
            settings=["n_best", "mbr"],
        )
