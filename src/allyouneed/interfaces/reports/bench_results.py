"""What the commands of `bench` share: the file of results, and tables."""

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from allyouneed.errors import UsageError
from allyouneed.interfaces.console import notice
from allyouneed.interfaces.reports.tables import aligned

Peer = TypeVar("Peer", bound=str)


def results_so_far(path: Path) -> dict[str, Any]:
    """What a file of results holds, if it is there; its folder is made where that is missing.

    Raises:
        UsageError: It holds something else, or is no regular file.
        DiskError: It cannot be read, or not be written.
    """
    from allyouneed.storage.publish import disk_errors, require_file

    with disk_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
    require_file(path)
    if not path.exists():
        return {}
    try:
        with disk_errors(path):
            return dict(json.loads(path.read_bytes()))
    except (ValueError, TypeError, RecursionError):
        raise UsageError(f"--out {path}: holds no results of bench; name another file") from None


def keep(results: Mapping[str, Any], path: Path) -> None:
    """Write a file of results.

    Raises:
        DiskError: It cannot be written.
    """
    from allyouneed.storage.publish import write_text

    write_text(path, json.dumps(results, indent=1) + "\n")


def installed(peers: Sequence[Peer]) -> Iterator[Peer]:
    """The peers that can be measured here; a notice says what to install for the others."""
    from allyouneed.bench.contenders import missing_package

    for peer in peers:
        if requirement := missing_package(peer):
            notice(f"{peer} is left out, as it is not installed: pip install '{requirement}'")
        else:
            yield peer


def size_of(model: Mapping[str, Any]) -> str:
    """A model in a few words."""
    return (
        f"{model['num_layers']}+{model['num_layers']} layers, d_model {model['d_model']}, "
        f"d_ff {model['d_ff']}, {model['num_heads']} heads, V {model['target_vocab_size']:,}"
    )


def table(rows: Sequence[Mapping[str, str]]) -> Iterator[str]:
    """Rows of cells by their titles, which are those of the first row, in aligned columns."""
    return aligned([list(rows[0]), *([row[title] for title in rows[0]] for row in rows)], gap=4)
