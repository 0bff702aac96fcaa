"""Models that are published as zips, as OPUS-MT's, or in files of gzip, as Firefox's."""

import dataclasses
import gzip
import os
import shutil
import weakref
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from tempfile import mkdtemp

from allyouneed.errors import ModelError, UserError
from allyouneed.interop.foreign import Imported, Original
from allyouneed.interop.foreign_files import ALWAYS_BYTES, MOST_RATIO, damaged, require_members
from allyouneed.storage.publish import MAX_WEIGHT_BYTES, disk_errors, open_regular

_MOST_MEMBERS = 1_000
_OF_THE_SYSTEM = "__MACOSX"
"""Folder that macOS adds to zips; it holds a shadow of every file."""

GZIP = ".gz"
"""End of the names of files that are compressed by gzip."""
_BLOCK_BYTES = 1 << 20

Read = Callable[[Path], Imported]
"""Reads a folder."""


def read_package(path: Path, sign: str, wanted: Callable[[str], bool], read: Read) -> Imported:
    """Read a zip by unpacking what is wanted of it into a temporary folder, for as long as that is needed.

    Args:
        path: The zip.
        sign: Name of a file in the package's own folder, or its ending, from the dot on.
        wanted: Whether a file is needed, by its path in that folder.
        read: Reads the folder.

    Raises:
        ModelError: The zip is damaged, unsafe or no such package, or `read` raises it.
    """
    imported = _read_unpacked(path, lambda root: _extract(path, root, sign, wanted), read)
    return dataclasses.replace(imported, file=path)


def read_gzipped(folder: Path, compressed: Sequence[Path], read: Read) -> Imported:
    """Read a folder like `read_package`, after some of its files, named `*.gz`, have been expanded.

    A file that is there without `.gz`, too, is taken as it is.
    """
    imported = _read_unpacked(folder, lambda root: _expand(folder, root, compressed), read)
    file = folder / imported.file.name
    return dataclasses.replace(imported, file=file if file.exists() else file.with_name(f"{file.name}.gz"))


def _read_unpacked(path: Path, unpack: Callable[[Path], None], read: Read) -> Imported:
    """Unpack a model into a temporary folder, which goes when nothing can load the model any longer."""
    root = Path(mkdtemp(prefix="allyouneed-package-"))

    def load() -> Original:
        return imported.load()

    weakref.finalize(load, shutil.rmtree, root, ignore_errors=True)  # it is read again only by `load`
    unpack(root)
    with _named(root, path):
        imported = read(root)
    shortlist = imported.shortlist and _named(root, path)(imported.shortlist)
    return dataclasses.replace(imported, load=load, shortlist=shortlist)


@contextmanager
def _named(root: Path, path: Path) -> Iterator[None]:
    """Name the package in errors, which the user knows, not the folder that it was unpacked to."""
    try:
        yield
    except ModelError as error:
        raise ModelError([each.replace(str(root), str(path)) for each in error.messages]) from None


def _expand(folder: Path, root: Path, compressed: Sequence[Path]) -> None:
    """Link to the files of a folder, and expand those that are compressed."""
    for file in folder.iterdir():
        if file.suffix != GZIP:
            (root / file.name).symlink_to(file.resolve())
    for file in compressed:
        out = root / file.stem
        if not out.is_symlink():
            with disk_errors(out), out.open("wb") as written:
                written.writelines(_expanded(file))


def _expanded(path: Path) -> Iterator[bytes]:
    """The content of a file of gzip, in blocks; raises ModelError if it is damaged or too large."""
    with open_regular(path, MAX_WEIGHT_BYTES) as file, gzip.GzipFile(fileobj=file) as content:
        size = os.fstat(file.fileno()).st_size
        left = most = max(ALWAYS_BYTES, MOST_RATIO * size)
        while block := _next_block(content, path):
            left -= len(block)
            if left < 0:
                raise damaged(
                    path, f"expands from {size:,} to more than {most:,} bytes, too many for its size"
                )
            yield block


def _next_block(content: gzip.GzipFile, path: Path) -> bytes:
    try:
        return content.read(_BLOCK_BYTES)
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise damaged(path, f"is damaged or not compressed by gzip ({error})") from None


def _extract(path: Path, root: Path, sign: str, wanted: Callable[[str], bool]) -> None:
    """Extract the files that are needed."""
    try:
        with open_regular(path, MAX_WEIGHT_BYTES) as file, zipfile.ZipFile(file) as package:
            inside = _inside(require_members(package, path, _MOST_MEMBERS), path, sign)
            for name, member in inside.items():
                if wanted(name):
                    member.filename = name
                    with disk_errors(root / name):
                        package.extract(member, root)
    except UserError:
        raise
    except Exception as error:  # zipfile and zlib have several
        raise damaged(path, f"is no valid package ({type(error).__name__})") from None


def _inside(members: Sequence[zipfile.ZipInfo], path: Path, sign: str) -> Mapping[str, zipfile.ZipInfo]:
    """The members by their paths in the package's folder, which may be the whole of the zip."""
    files = {}
    for member in members:
        parts = PurePosixPath(member.filename).parts
        if ".." in parts or member.filename.startswith("/") or "\\" in member.filename:
            raise ModelError(f"{path}: the file {member.filename!r} lies outside of the package")
        if not member.is_dir() and parts[0] != _OF_THE_SYSTEM:
            files[parts] = member
    folders = [
        parts[:-1]
        for parts in files
        if sign in (parts[-1], PurePosixPath(parts[-1]).suffix) and len(parts) <= 2
    ]
    outermost = {folder for folder in folders if not folder} or {*folders}
    if len(outermost) != 1:
        raise damaged(path, f"has {len(outermost)} folders with a {sign}, not one")
    [folder] = outermost
    return {
        "/".join(parts[len(folder) :]): member
        for parts, member in files.items()
        if parts[: len(folder)] == folder
    }
