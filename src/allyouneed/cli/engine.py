"""`--engine`: the option of commands that compute on a Ray cluster, too."""

import contextlib
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

if TYPE_CHECKING:
    from allyouneed.hardware.cluster import Cluster

Engine = Annotated[
    Literal["local", "ray"],
    Parameter(
        help="`local`: this machine. `ray`: the cluster at `RAY_ADDRESS` or, without it, a new one on this "
        "machine with `--workers` processes (needs `allyouneed[ray]`). The result is the same."
    ),
]


def workers_of(
    engine: Engine, workers: int | None
) -> "contextlib.AbstractContextManager[int | Cluster | None]":
    """The number of processes of this machine, or a cluster.

    Raises:
        UsageError: There is no cluster, or Ray is not installed.
    """
    if engine == "local":
        return contextlib.nullcontext(workers)
    from allyouneed.hardware.cluster import Cluster

    return Cluster(workers)
