"""The search settings of a call, which stand beside those of the model."""

from collections.abc import Mapping
from typing import Any

from allyouneed.config.run import SearchConfig
from allyouneed.errors import UsageError

_IDLE = {True: ("beam_size",), False: ("temperature", "top_k", "top_p", "seed")}
"""Whether outputs are sampled -> settings that then have no effect."""


def combined_search(given: Mapping[str, Any], own: SearchConfig) -> SearchConfig:
    """Combine the search settings of a call with those of the model.

    Args:
        given: Settings of `SearchConfig`, without None.
        own: Settings of the model.

    Raises:
        UsageError: A setting is unknown, out of range, or has no effect beside the others.
    """
    search = SearchConfig.checked(**{**own.model_dump(), **given})
    if given.get("sampling") is False and "mbr" not in given:  # of a model that samples by itself
        search = search.replace(mbr=None)
    if search.mbr is not None:
        search = search.replace(sampling=True)
    if idle := [name for name in _IDLE[search.sampling] if name in given]:
        reason = (
            "this is for search only; leave out sampling or mbr"
            if search.sampling
            else "this is for samples only; add sampling, or mbr N"
        )
        raise UsageError(f"{', '.join(idle)}: {reason}", settings=[*idle, "sampling", "mbr"])
    return search
