"""Copies published directories to and from other places, and keeps local copies of those that are used."""

import hashlib
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from allyouneed.errors import LockedError, ModelError, UsageError
from allyouneed.hardware.user_cache import user_cache
from allyouneed.storage.locations import Location, url_of
from allyouneed.storage.publish import (
    MANIFEST,
    disk_errors,
    publish_directory,
    read_manifest,
    require_free,
    sha256_of,
)
from allyouneed.storage.publish.manifest import MAX_MANIFEST_BYTES, parse_manifest

_UNFINISHED = "unfinished.json"
_NOT_FACTS = ("kind", "format_version", "files")
_WAIT_SECONDS = 0.5

Say = Callable[[str], None]
Advance = Callable[[int], None]


def copy_published(
    source: Path | str,
    target: Path | str,
    say: Say = lambda line: None,
    advance: Advance = lambda count: None,
) -> None:
    """Copy a published directory; one that was interrupted goes on where it ended.

    Args:
        source: A local directory or a URL.
        target: A local directory or a URL, but not a URL if `source` is one.
        say: Receives a line about what an interrupted copy has left.
        advance: Receives numbers of bytes that have been copied, or were there.

    Raises:
        UsageError: The target has something else, or neither place is local.
        ModelError: The source is damaged, or is not a published directory.
        DiskError: A place cannot be reached, read or written.
        LockedError: Another process is writing the target.
    """
    source_url, target_url = url_of(source), url_of(target)
    if source_url and target_url:
        raise UsageError(f"{target}: one of the two places must be local; copy to a local folder first")
    if target_url:
        _upload(Path(source), target_url, advance)
    else:
        location = Location(source_url or source)
        _download(location, _manifest_at(location), Path(target), say, advance)


def local_copy(path: Path | str) -> Path:
    """A local path as it is; of a URL, the path of a copy that is kept in the user's cache.

    Raises:
        ModelError: There is no published directory at the URL, or it is damaged.
        DiskError: It cannot be read, or the copy cannot be written.
    """
    if (url := url_of(path)) is None:
        return Path(path)
    if (cache := user_cache()) is None:
        raise UsageError(f"{url}: there is no cache directory; take `allyouneed copy` to a local folder")
    location = Location(url)
    manifest = _manifest_at(location)
    copy = cache / "copies" / hashlib.sha256(url.encode() + manifest).hexdigest()[:32]
    while not copy.exists():
        try:
            _download(location, manifest, copy)
        except LockedError:  # as the processes of `torchrun` begin together
            time.sleep(_WAIT_SECONDS)
        except UsageError:
            if not copy.exists():
                raise
    return copy


def _upload(directory: Path, url: str, advance: Advance) -> None:
    manifest = read_manifest(directory)
    seal = (directory / MANIFEST).read_bytes()
    location = Location(url)
    location.make()
    there = location.sizes()
    if MANIFEST in there and location.read(MANIFEST, MAX_MANIFEST_BYTES) != seal:
        raise UsageError(f"{url}: holds another directory already; name a new place, or remove it")
    for name, entry in manifest["files"].items():
        if there.get(name) != entry["size"] or location.sha256_of(name) != entry["sha256"]:
            location.put(directory / name, name)
        advance(entry["size"])
    location.write(MANIFEST, seal)


def _manifest_at(location: Location) -> bytes:
    try:
        return location.read(MANIFEST, MAX_MANIFEST_BYTES)
    except (FileNotFoundError, NotADirectoryError):
        raise ModelError(
            f"{location.name}: has no {MANIFEST}; name a folder that `allyouneed copy` has filled"
        ) from None


def _download(
    location: Location,
    seal: bytes,
    target: Path,
    say: Say = lambda line: None,
    advance: Advance = lambda count: None,
) -> None:
    manifest = parse_manifest(seal, f"{location.name}/{MANIFEST}", location.name)
    facts: dict[str, Any] = {name: fact for name, fact in manifest.items() if name not in _NOT_FACTS}
    require_free(target)
    with publish_directory(target, manifest["kind"], facts, unfinished=_UNFINISHED, say=say) as aside:
        (aside / _UNFINISHED).write_bytes(b"{}")
        with disk_errors(target):
            for path in [path for path in aside.rglob("*") if not path.is_dir()]:
                if path.relative_to(aside).as_posix() not in {_UNFINISHED, *manifest["files"]}:
                    path.unlink()
            for name, entry in manifest["files"].items():
                _fetch(location, name, entry, aside)
                advance(entry["size"])
    assert (target / MANIFEST).read_bytes() == seal, "a copy has the same manifest"


def _fetch(location: Location, name: str, entry: dict[str, Any], directory: Path) -> None:
    """Fetch a file, unless it is there from an interrupted copy."""
    path = directory / name
    if path.is_file() and path.stat().st_size == entry["size"] and sha256_of(path) == entry["sha256"]:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        location.fetch(name, path, entry["sha256"])
    except FileNotFoundError:
        raise ModelError(f"{location.name}/{name}: is missing; copy the directory there again") from None
