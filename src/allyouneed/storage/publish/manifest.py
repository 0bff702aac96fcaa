"""Manifests list the files of a published directory, and are checked before any file is used.

`MANIFEST.json` records the kind of the directory, the versions of its format and of the tool, the size and
sha256 of every other file, and the sha256 of the manifest itself. Readers check everything first, and read
only files that the manifest lists.
"""

import hashlib
import json
import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path, PurePosixPath
from typing import Any

from allyouneed.errors import ModelError
from allyouneed.storage.publish.disk import disk_errors, set_mode, sync
from allyouneed.version import __version__

MANIFEST = "MANIFEST.json"
FORMAT_VERSION = 1
MAX_MANIFEST_BYTES = 1 << 24
_MAX_NAME_BYTES = 255
_SEAL = "manifest_sha256"


def read_manifest(
    directory: Path,
    kind: str | None = None,
    reads: Iterable[str] = (),
    *,
    later: Callable[[str, int], bool] = lambda name, size: False,
) -> dict[str, Any]:
    """Read the manifest of a published directory, and check every file against it.

    Args:
        directory: The directory.
        kind: Kind that the caller expects; by default any.
        reads: Names of the files that the caller reads; the manifest must list them.
        later: Whether only the size of a file is checked, given its name and size in bytes, as its content is
            before it is first read; see `require_intact`.

    Raises:
        ModelError: The manifest is missing, damaged, or of another kind or version, or files are missing, of
            the wrong size or sha256, or read but not listed; the error names all such files.
        DiskError: A file could not be read.
    """
    with disk_errors(directory):
        manifest = _load_manifest(directory)
        if kind is not None and manifest["kind"] != kind:
            raise ModelError(f"{directory}: is a {manifest['kind']} directory; a {kind} directory is needed")
        entries = manifest["files"].items()
        faults = [
            _fault(directory, name, entry, reads_it=not later(name, entry["size"])) for name, entry in entries
        ]
        faults += unlisted(directory, manifest, reads)
    if found := [fault for fault in faults if fault]:
        raise ModelError(found)
    return manifest


def require_intact(directory: Path, manifest: Mapping[str, Any], name: str) -> None:
    """Raise ModelError if a file of a published directory is missing, or has another size or sha256."""
    with disk_errors(directory):
        if fault := _fault(directory, name, manifest["files"][name]):
            raise ModelError(fault)


def is_intact(directory: Path, manifest: Mapping[str, Any], name: str) -> bool:
    """Whether a file that a manifest lists is in the directory, with its content; see `require_intact`."""
    return _fault(directory, name, manifest["files"][name]) is None


def unlisted(directory: Path, manifest: Mapping[str, Any], reads: Iterable[str]) -> list[str]:
    """Messages about files that are read but that the manifest does not list."""
    return [
        f"{directory / name}: is not listed in {MANIFEST}; take another copy of {directory}"
        for name in sorted(set(reads) - set(manifest["files"]))
    ]


def sha256_of(path: Path) -> str:
    """The sha256 of a file, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def write_manifest(
    directory: Path, kind: str, facts: Mapping[str, Any], *, unlisted: str | None = None
) -> None:
    """Sync all files of a directory but one, and write its manifest; files get the mode of new files."""
    files = {}
    path = directory / MANIFEST
    path.write_bytes(b"")
    mode = path.stat().st_mode & 0o777
    for name in sorted(_files_in(directory) - {MANIFEST, unlisted}):
        file = directory / name
        set_mode(file, mode)  # safetensors writes files that only their owner may read
        sync(file)
        files[name] = {"size": file.stat().st_size, "sha256": sha256_of(file)}
    manifest = {
        "kind": kind,
        "format_version": FORMAT_VERSION,
        "tool_version": __version__,
        **facts,
        "files": files,
    }
    path.write_bytes(_sealed(manifest))
    sync(path)
    for folder in (p for p in directory.rglob("*") if p.is_dir()):
        sync(folder)
    sync(directory)


def foreign_files(directory: Path, kind: str, new: Path | None = None) -> list[str]:
    """Files of a directory that may not have been published with it.

    The directory that will replace it, `new`, gives the names of files if the manifest is damaged.
    """
    found, ours = _files_in(directory), set[str]()
    try:
        manifest = _load_manifest(directory)
        if manifest["kind"] == kind:
            ours = {MANIFEST, *manifest["files"]}
    except ModelError:  # a damaged manifest lists nothing
        if new and MANIFEST in found:
            ours = _files_in(new)
    return sorted(found - ours)


def require_directory(path: Path) -> None:
    """Raise ModelError if a path leads to nothing, or to a file."""
    if not path.is_dir():
        fault = "is a file; name a directory" if path.exists() else "no such directory; check the path"
        raise ModelError(f"{path}: {fault}")


def _load_manifest(directory: Path) -> dict[str, Any]:
    path = directory / MANIFEST
    require_directory(directory)
    if path.is_symlink() or not path.is_file():
        raise ModelError(f"{directory}: has no {MANIFEST}; it is incomplete, or was not made by allyouneed")
    with path.open("rb") as file:
        written = file.read(MAX_MANIFEST_BYTES)
    return parse_manifest(written, str(path), str(directory))


def parse_manifest(written: bytes, path: str, directory: str) -> dict[str, Any]:
    """The manifest in a file, without its seal; raises ModelError if damaged, too new, or not all inside."""
    try:
        manifest = json.loads(written)
        version, kind, entries = manifest["format_version"], manifest["kind"], manifest["files"].values()
        del manifest[_SEAL]
        typed = all(isinstance(e["size"], int) and isinstance(e["sha256"], str) for e in entries)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise ModelError(f"{path}: is damaged; take another copy of {directory}") from None
    if version != FORMAT_VERSION:
        raise ModelError(
            f"{path}: format {version}, written by allyouneed {manifest.get('tool_version')}; "
            f"this version reads {FORMAT_VERSION}: upgrade to that one or later"
        )
    if not typed or not isinstance(kind, str) or _sealed(manifest) != written:
        raise ModelError(f"{path}: is damaged; take another copy of {directory}")
    if unsafe := [name for name in manifest["files"] if not _is_inside(name)]:
        raise ModelError([f"{path}: names a file that cannot be in the directory: {name}" for name in unsafe])
    return dict(manifest)


def _is_inside(name: str) -> bool:
    path = PurePosixPath(name)
    return (
        name.isprintable()
        and path.as_posix() == name
        and not path.is_absolute()
        and name != MANIFEST
        and all(part != ".." and len(part.encode()) <= _MAX_NAME_BYTES for part in path.parts)
    )


def _fault(directory: Path, name: str, entry: Mapping[str, Any], *, reads_it: bool = True) -> str | None:
    path = directory / name
    if Path(os.path.realpath(path)) != Path(os.path.realpath(directory), name) or not path.is_file():
        return f"{path}: is missing or not a regular file; take another copy of {directory}"
    if (size := path.stat().st_size) != entry["size"]:
        return f"{path}: has {size} bytes, {entry['size']} expected; take another copy of {directory}"
    if reads_it and (sha256 := sha256_of(path)) != entry["sha256"]:
        expected = f"sha256 {sha256[:16]}..., {entry['sha256'][:16]}... expected"
        return f"{path}: is damaged: {expected}; take another copy of {directory}"
    return None


def _files_in(directory: Path) -> set[str]:
    return {
        path.relative_to(directory).as_posix()
        for path in directory.rglob("*")
        if path.is_symlink() or not path.is_dir()
    }


def _sealed(manifest: Mapping[str, Any]) -> bytes:
    """The bytes of a manifest file; its last key is the sha256 of everything before it."""
    digest = hashlib.sha256(json.dumps(manifest).encode()).hexdigest()
    return json.dumps({**manifest, _SEAL: digest}, indent=1).encode()
