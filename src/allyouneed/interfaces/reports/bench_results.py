"""What the commands of `bench` share: the file of results, and tables."""

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from allyouneed.errors import UsageError


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


def size_of(model: Mapping[str, Any]) -> str:
    """A model in a few words."""
    return (
        f"{model['num_layers']}+{model['num_layers']} layers, d_model {model['d_model']}, "
        f"d_ff {model['d_ff']}, {model['num_heads']} heads, V {model['target_vocab_size']:,}"
    )


def table(rows: Sequence[Mapping[str, str]]) -> Iterator[str]:
    """Rows of cells by their titles, aligned: the first two columns to the left, the others to the right."""
    titles = list(rows[0])
    widths = [max(len(title), *(len(row[title]) for row in rows)) + 2 for title in titles]
    for row in (dict(zip(titles, titles, strict=True)), *rows):
        first, second, *others = (row[title] for title in titles)
        yield f"{first:<{widths[0]}}{second:<{widths[1]}}" + "".join(
            f"{cell:>{width}}" for cell, width in zip(others, widths[2:], strict=True)
        )
