"""URLs among paths: where data and models may be read from, and nothing is written to but by `copy`."""

import re
from pathlib import Path

from allyouneed.errors import UsageError

_URL = re.compile(r"(?P<scheme>[a-z][a-z0-9+.-]+):(?P<slashes>/+)(?P<rest>.*)", re.IGNORECASE | re.DOTALL)


def url_of(path: Path | str) -> str | None:
    """The URL that is meant by a path, or None of a local path.

    A `Path` of `s3://bucket/data` has lost a slash, which is put back. One of `file:///data` has lost two.
    """
    found = _URL.fullmatch(str(path))
    if not found or Path(path).exists():
        return None
    slashes = found["slashes"] if len(found["slashes"]) > 1 else "///" if found["scheme"] == "file" else "//"
    return f"{found['scheme']}:{slashes}{found['rest']}"


def require_local(path: Path) -> None:
    """Refuse a URL as a place to write to.

    Raises:
        UsageError: It is one.
    """
    if url := url_of(path):
        raise UsageError(f"{url}: is not local; write to a local folder, then `allyouneed copy` it there")
