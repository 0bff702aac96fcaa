"""Result files and tables of the commands of `bench`."""

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from allyouneed.errors import UsageError, notice
from allyouneed.explorer.text_tables import aligned

Peer = TypeVar("Peer", bound=str)


def results_so_far(path: Path) -> dict[str, Any]:
    """Contents of a result file; empty if there is none. Creates missing folders.

    Raises:
        UsageError: The file is not a result file, or not a regular file.
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
        raise UsageError(f"--out {path}: is not a result file of bench; name another file") from None


def keep(results: Mapping[str, Any], path: Path) -> None:
    """Write a result file."""
    from allyouneed.storage.publish import write_text

    write_text(path, json.dumps(results, indent=1) + "\n")


def installed(peers: Sequence[Peer]) -> Iterator[Peer]:
    """The installed peers; a notice says what to install for each of the others."""
    from allyouneed.lab.bench.contenders import missing_package

    for peer in peers:
        if requirement := missing_package(peer):
            notice(f"{peer} is left out because it is not installed: pip install '{requirement}'")
        else:
            yield peer


def size_of(model: Mapping[str, Any]) -> str:
    """Sizes of a model, in one line."""
    return (
        f"{model['num_layers']}+{model['num_layers']} layers, d_model {model['d_model']}, "
        f"d_ff {model['d_ff']}, {model['num_heads']} heads, V {model['target_vocab_size']:,}"
    )


def table(rows: Sequence[Mapping[str, str]]) -> Iterator[str]:
    """Rows, each a mapping from column title to cell, in aligned columns; the first row sets the titles."""
    return aligned([list(rows[0]), *([row[title] for title in rows[0]] for row in rows)], gap=4)
