"""URLs among paths: places that data and models may be read from; few commands write to them."""

import re
from pathlib import Path

from allyouneed.errors import UsageError

_URL = re.compile(r"(?P<scheme>[a-z][a-z0-9+.-]+):((?P<slashes>/+)(?P<rest>.*))?", re.IGNORECASE | re.DOTALL)


def url_of(path: Path | str) -> str | None:
    """The URL that is meant by a path, or None of a local path.

    A `Path` of `s3://bucket/data` has lost a slash, which is put back. One of `file:///data` has lost two.

    Raises:
        UsageError: The URL names no place, such as `s3://`, whose `Path` has lost both slashes.
    """
    found = _URL.fullmatch(str(path))
    if not found or Path(Path(path).parts[0]).exists():  # a folder may have such a name
        return None
    if not found["rest"]:
        raise UsageError(f"{found['scheme']}://: names no place; write {found['scheme']}://PLACE/FOLDER")
    slashes = found["slashes"] if len(found["slashes"]) > 1 else "///" if found["scheme"] == "file" else "//"
    return f"{found['scheme']}:{slashes}{found['rest']}"


def require_local(path: Path, remedy: str = "name a local path") -> None:
    """Refuse a URL as a place to write to.

    Raises:
        UsageError: The path is a URL.
    """
    if url := url_of(path):
        raise UsageError(f"{url}: is not local; {remedy}")
