"""Upper bounds of the counts that the commands and the Python interface accept."""

from typing import Annotated, Final

from pydantic import Field

from allyouneed.errors import UsageError

MAX_OUTPUTS: Final = 10_000
"""Maximum outputs per input: memory and time grow with them."""
MAX_THREADS: Final = 1_024
"""Maximum threads, or batches computed at once: more than any machine has cores."""
MAX_COUNT: Final = 1_000_000_000
"""Maximum of any other count."""

Batch = Annotated[int, Field(ge=1, le=MAX_COUNT)]
"""Number of tokens or sentences in a batch."""
Workers = Annotated[int, Field(ge=1, le=MAX_THREADS)]
"""Number of batches computed at once."""

_GREATEST = {"n_best": MAX_OUTPUTS, "mbr": MAX_OUTPUTS, "workers": MAX_THREADS, "threads": MAX_THREADS}


def require_counts(**given: int | None) -> None:
    """Reject a count below 1 or above its bound.

    Args:
        **given: Counts by the names of their settings; None if not given.

    Raises:
        UsageError: A count is out of range.
    """
    for name, count in given.items():
        greatest = _GREATEST.get(name, MAX_COUNT)
        if count is not None and not 1 <= count <= greatest:
            raise UsageError(f"{name} {count}: give 1 to {greatest:,}", settings=[name])
