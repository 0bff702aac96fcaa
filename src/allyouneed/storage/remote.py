"""Copies published directories to and from other places, and keeps local copies of those that are used."""

import hashlib
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from allyouneed.config.environment import user_cache
from allyouneed.errors import LockedError, ModelError, UsageError
from allyouneed.storage.locations import Location
from allyouneed.storage.publish import (
    MANIFEST,
    discard,
    disk_errors,
    publish_directory,
    read_manifest,
    require_free,
    require_space,
)
from allyouneed.storage.publish.directory import LeftoverError
from allyouneed.storage.publish.disk import url_of
from allyouneed.storage.publish.manifest import (
    MAX_MANIFEST_BYTES,
    is_intact,
    parse_manifest,
    require_directory,
)

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
    skip: Advance = lambda count: None,
) -> None:
    """Copy a published directory; one that was interrupted goes on where it ended.

    Args:
        source: A local directory or a URL.
        target: A local directory or a URL, but not a URL if `source` is one.
        say: Receives a line about what an interrupted copy has left.
        advance: Receives numbers of bytes that have been copied.
        skip: Receives numbers of bytes that were there.

    Raises:
        UsageError: The target has something else, or neither place is local.
        ModelError: The source is damaged, or is not a published directory.
        DiskError: A place cannot be reached, read or written.
        LockedError: Another process is writing the target.
    """
    source_url, target_url = url_of(source), url_of(target)
    if source_url and target_url:
        raise UsageError(f"{target_url}: one of the two places must be local; copy to a local folder first")
    if target_url:
        _upload(Path(source), target_url, advance, skip)
    else:
        if source_url is None:
            require_directory(Path(source))
        location = Location(source_url or source)
        _download(location, _manifest_at(location), Path(target), say, advance, skip)


def local_copy(path: Path | str) -> Path:
    """A local path as it is; of a URL, the path of a copy that is kept in the user's cache.

    Raises:
        UsageError: The URL cannot be read by what is installed.
        ModelError: There is no published directory at the URL, or it is damaged.
        DiskError: It cannot be read, or the copy cannot be written.
        LockedError: A process of another host has left an unfinished copy in this cache.
    """
    if (url := url_of(path)) is None:
        return Path(path)
    location = Location(url)
    if (cache := user_cache()) is None:
        raise UsageError(
            f"{location.name}: there is no cache directory; `allyouneed copy` it to a local folder"
        )
    seal = _manifest_at(location)
    copy = cache / "copies" / hashlib.sha256(url.encode() + seal).hexdigest()[:32]
    while True:
        try:
            read_manifest(copy, later=lambda name, size: True)  # contents are checked by what reads them
            return copy
        except ModelError:  # it is not complete
            pass
        try:
            if copy.exists():
                discard(copy)
            _download(location, seal, copy)
        except LeftoverError:
            raise
        except LockedError:  # as the processes of `torchrun` begin together
            time.sleep(_WAIT_SECONDS)
        except UsageError:
            if not copy.exists():
                raise


def _upload(directory: Path, url: str, advance: Advance, skip: Advance) -> None:
    manifest = read_manifest(directory)
    seal = (directory / MANIFEST).read_bytes()
    location = Location(url)
    location.make()
    there = location.sizes()
    is_complete = MANIFEST in there and location.read(MANIFEST, MAX_MANIFEST_BYTES) == seal
    if there and not is_complete and (MANIFEST in there or _UNFINISHED not in there):
        raise UsageError(f"{location.name}: holds something else already; name a new place, or remove that")
    if not is_complete:
        location.write(_UNFINISHED, b"{}")
    for name, entry in manifest["files"].items():
        if there.get(name) != entry["size"] or location.sha256_of(name, entry["size"]) != entry["sha256"]:
            location.put(directory / name, name)
            advance(entry["size"])
        else:
            skip(entry["size"])
    if not is_complete:
        location.write(MANIFEST, seal)
        location.remove(_UNFINISHED)


def _manifest_at(location: Location) -> bytes:
    try:
        return location.read(MANIFEST, MAX_MANIFEST_BYTES)
    except FileNotFoundError:
        raise ModelError(
            f"{location.name}: has no {MANIFEST}; name a folder that `allyouneed copy` has filled"
        ) from None


def _download(
    location: Location,
    seal: bytes,
    target: Path,
    say: Say = lambda line: None,
    advance: Advance = lambda count: None,
    skip: Advance = lambda count: None,
) -> None:
    manifest = parse_manifest(seal, f"{location.name}/{MANIFEST}", location.name)
    entries = manifest["files"]
    facts: dict[str, Any] = {name: fact for name, fact in manifest.items() if name not in _NOT_FACTS}
    require_free(target)
    with publish_directory(target, manifest["kind"], facts, unfinished=_UNFINISHED, say=say) as aside:
        (aside / _UNFINISHED).write_bytes(b"{}")
        with disk_errors(target):
            for path in [path for path in aside.rglob("*") if not path.is_dir()]:
                if path.relative_to(aside).as_posix() not in {_UNFINISHED, *entries}:
                    path.unlink()
            missing = {name for name in entries if not is_intact(aside, manifest, name)}
            require_space(target, sum(entries[name]["size"] for name in missing))
            for name, entry in entries.items():
                if name not in missing:
                    skip(entry["size"])
                    continue
                path = aside / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.unlink(missing_ok=True)  # it may be a link
                try:
                    location.fetch(name, path, entry["size"], entry["sha256"])
                except FileNotFoundError:
                    raise ModelError(
                        f"{location.name}/{name}: is missing; copy the directory there again"
                    ) from None
                advance(entry["size"])
