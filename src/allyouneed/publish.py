"""Directories that are complete or absent: written aside, listed in a manifest of sha256, synced, renamed.

A published directory holds `MANIFEST.json`: its kind, the version of its format and of the tool, the size
and sha256 of every other file, and the sha256 of the manifest itself. Readers check all of it before they
use any of it.
"""

import contextlib
import ctypes
import errno
import hashlib
import json
import os
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import Any

from allyouneed.errors import DiskError, ModelError, UsageError
from allyouneed.version import __version__

MANIFEST = "MANIFEST.json"
FORMAT_VERSION = 1
_MAX_MANIFEST_BYTES = 1 << 24
_MAX_NAME_BYTES = 255
_SEAL = "manifest_sha256"
_HERE, _RENAME_EXCHANGE = -100, 2
"""AT_FDCWD and a flag of Linux's renameat2."""
_NO_SPACE = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}


@contextlib.contextmanager
def publish_directory(
    target: Path, kind: str, facts: Mapping[str, Any] | None = None, *, replace: bool = False
) -> Iterator[Path]:
    """Yield a directory to write into, and make it appear as `target` only when the block has succeeded.

    Args:
        target: Where the directory will be; it must not exist, or be empty.
        kind: What the directory is ("model", "state", "data"), checked when it is read.
        facts: More keys for the manifest; what the block adds to this mapping is recorded too.
        replace: Let it take the place of a `target` that is there, which stays whole until then.

    Raises:
        UsageError: `target` is there and not empty, and not to be replaced.
        DiskError: It could not be written; nothing is left behind.
    """
    if not replace:
        require_free(target)
    target = target.absolute()
    aside = _aside(target)
    with disk_errors(target):
        shutil.rmtree(aside, ignore_errors=True)
        aside.mkdir(parents=True)
        try:
            yield aside
            _write_manifest(aside, kind, facts or {})
            _put_in_place(aside, target)
        except BaseException:
            shutil.rmtree(aside, ignore_errors=True)
            raise
        _sync(target.parent)
        shutil.rmtree(aside, ignore_errors=True)  # what was replaced


def remove_directory(target: Path) -> None:
    """Delete a published directory, which is complete or absent at every moment, as when it was made.

    Raises:
        DiskError: It could not be deleted.
    """
    aside = _aside(target)
    with disk_errors(target):
        target.rename(aside)
        shutil.rmtree(aside)


def write_text(path: Path, text: str) -> None:
    """Replace the file at `path` by one that holds `text`, at one stroke."""
    aside = _aside(path)
    with disk_errors(path):
        try:
            aside.write_bytes(text.encode())
            _sync(aside)
            aside.replace(path)
        except BaseException:
            aside.unlink(missing_ok=True)
            raise
        _sync(path.parent)


def require_free(target: Path) -> None:
    """Refuse a `target` that is there already, unless it is an empty directory."""
    with disk_errors(target):
        if target.is_dir() and not any(target.iterdir()):
            return
        if target.exists():
            raise UsageError(f"{target}: exists and is not empty; name a new folder or remove this one")


def require_folder(path: Path) -> None:
    """Refuse a file that could not be written as its folder is missing, before any work is done for it."""
    if not path.parent.is_dir():
        raise DiskError(f"{path}: there is no folder {path.parent}; make it first")


def require_space(path: Path, needed_bytes: int) -> None:
    """Refuse to begin what the disk that holds `path` has no room for.

    Raises:
        DiskError: Fewer than `needed_bytes` are free.
    """
    with disk_errors(path):
        if _free_bytes(path) < needed_bytes:
            raise DiskError(f"{path}: needs {needed_bytes:,} bytes; {_free_space(path)}")


def read_manifest(directory: Path, kind: str | None = None) -> dict[str, Any]:
    """The manifest of a published directory, every file of which has been checked against it.

    Raises:
        ModelError: The manifest is absent, damaged, of another kind or version, or a file is missing, of
            another size, or of another sha256; all such files are named.
        DiskError: A file could not be read.
    """
    with disk_errors(directory):
        manifest = _load_manifest(directory)
        if kind is not None and manifest["kind"] != kind:
            raise ModelError(f"{directory}: is a {manifest['kind']} directory; a {kind} directory is wanted")
        faults = [_fault(directory, name, entry) for name, entry in manifest["files"].items()]
    if found := [fault for fault in faults if fault]:
        raise ModelError(found)
    return manifest


def sha256_of(path: Path) -> str:
    """The sha256 of a file's bytes, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@contextlib.contextmanager
def disk_errors(path: Path) -> Iterator[None]:
    """Turn whatever the disk or the file system reports in the block into a `DiskError` about `path`."""
    from safetensors import SafetensorError

    try:
        yield
    except BrokenPipeError:
        raise  # the reader of our output has gone: no fault of the disk
    except OSError as error:
        remedy = f"; {_free_space(path)}" if error.errno in _NO_SPACE else ""
        named = path if error.filename in (None, str(_aside(path))) else error.filename
        raise DiskError(f"{named}: {error.strerror or error}{remedy}") from error
    except SafetensorError as error:
        raise DiskError(f"{path}: could not be written ({error}); {_free_space(path)}") from error


def _load_manifest(directory: Path) -> dict[str, Any]:
    path = directory / MANIFEST
    if not directory.is_dir():
        raise ModelError(f"{directory}: no such directory; check the path")
    if path.is_symlink() or not path.is_file():
        raise ModelError(f"{directory}: has no {MANIFEST}; it is not complete, or not of allyouneed")
    manifest = _parse_manifest(path)
    if unsafe := [name for name in manifest["files"] if not _is_inside(name)]:
        raise ModelError([f"{path}: names a file that cannot be in the directory: {name}" for name in unsafe])
    return manifest


def read_published(path: Path) -> bytes:
    """What a file of a published directory holds.

    Raises:
        ModelError: It is missing.
        DiskError: It may not be read.
    """
    if not path.exists():
        raise ModelError(f"{path}: no such file; take another copy of {path.parent}")
    with disk_errors(path):
        return path.read_bytes()


def _parse_manifest(path: Path) -> dict[str, Any]:
    with path.open("rb") as file:
        written = file.read(_MAX_MANIFEST_BYTES)
    try:
        manifest = json.loads(written)
        version, kind, entries = manifest["format_version"], manifest["kind"], manifest["files"].values()
        del manifest[_SEAL]
        typed = all(isinstance(e["size"], int) and isinstance(e["sha256"], str) for e in entries)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise ModelError(f"{path}: is damaged; take another copy of {path.parent}") from None
    if version != FORMAT_VERSION:
        raise ModelError(
            f"{path}: format {version}, written by allyouneed {manifest.get('tool_version')}; "
            f"this version reads {FORMAT_VERSION}: upgrade to that one or later"
        )
    if not typed or not isinstance(kind, str) or _sealed(manifest) != written:
        raise ModelError(f"{path}: is damaged; take another copy of {path.parent}")
    return dict(manifest)


def _is_inside(name: str) -> bool:
    path = PurePosixPath(name)
    return (
        name.isprintable()
        and path.as_posix() == name
        and not path.is_absolute()
        and all(part != ".." and len(part.encode()) <= _MAX_NAME_BYTES for part in path.parts)
    )


def _fault(directory: Path, name: str, entry: Mapping[str, Any]) -> str | None:
    path = directory / name
    if Path(os.path.realpath(path)) != Path(os.path.realpath(directory), name) or not path.is_file():
        return f"{path}: is missing or no plain file; take another copy of {directory}"
    if (size := path.stat().st_size) != entry["size"]:
        return f"{path}: has {size} bytes, {entry['size']} expected; take another copy of {directory}"
    if (sha256 := sha256_of(path)) != entry["sha256"]:
        expected = f"sha256 {sha256[:16]}..., {entry['sha256'][:16]}... expected"
        return f"{path}: is damaged: {expected}; take another copy of {directory}"
    return None


def _write_manifest(directory: Path, kind: str, facts: Mapping[str, Any]) -> None:
    files = {}
    for path in sorted(p for p in directory.rglob("*") if p.is_file()):
        _sync(path)
        files[path.relative_to(directory).as_posix()] = {
            "size": path.stat().st_size,
            "sha256": sha256_of(path),
        }
    manifest = {
        "kind": kind,
        "format_version": FORMAT_VERSION,
        "tool_version": __version__,
        **facts,
        "files": files,
    }
    path = directory / MANIFEST
    path.write_bytes(_sealed(manifest))
    _sync(path)
    for folder in (p for p in directory.rglob("*") if p.is_dir()):
        _sync(folder)
    _sync(directory)


def _sealed(manifest: Mapping[str, Any]) -> bytes:
    """The bytes of a manifest file, in which the last key is the sha256 of all that stands before it."""
    digest = hashlib.sha256(json.dumps(manifest).encode()).hexdigest()
    return json.dumps({**manifest, _SEAL: digest}, indent=1).encode()


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _aside(path: Path) -> Path:
    """Beside `path`, where this process writes what is not yet there, and moves what is to go."""
    return path.with_name(f"{path.name}.tmp-{os.getpid()}")


def _put_in_place(aside: Path, target: Path) -> None:
    """Rename a directory; where `target` is one that is not empty, the two change places at one stroke."""
    if not target.is_dir() or not any(target.iterdir()):
        aside.rename(target)
        return
    renameat2 = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    names = (_HERE, os.fsencode(aside), _HERE, os.fsencode(target))
    if renameat2 is None or renameat2(*names, _RENAME_EXCHANGE) != 0:  # not every file system can
        old = target.with_name(f"{aside.name}-old")
        target.rename(old)
        try:
            aside.rename(target)
        except OSError:
            old.rename(target)
            raise
        old.rename(aside)


def _free_space(path: Path) -> str:
    return f"{_free_bytes(path):,} bytes are free there; make room or name another place"


def _free_bytes(path: Path) -> int:
    path = path.absolute()
    return shutil.disk_usage(next(p for p in (path, *path.parents) if p.is_dir())).free
