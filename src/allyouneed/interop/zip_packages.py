"""Models that are published as zips, such as packages of Argos Translate and the downloads of OPUS-MT."""

import dataclasses
import shutil
import weakref
import zipfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path, PurePosixPath
from tempfile import mkdtemp

from allyouneed.errors import ModelError, UserError
from allyouneed.interop.foreign import Imported, Original
from allyouneed.interop.foreign_files import damaged, require_members
from allyouneed.storage.publish import MAX_WEIGHT_BYTES, disk_errors, open_regular

_MOST_MEMBERS = 1_000
_OF_THE_SYSTEM = "__MACOSX"
"""Folder that macOS adds to zips; it holds a shadow of every file."""

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
    root = Path(mkdtemp(prefix="allyouneed-package-"))

    def load() -> Original:
        return imported.load()

    weakref.finalize(load, shutil.rmtree, root, ignore_errors=True)  # it is read again only by `load`
    _extract(path, root, sign, wanted)
    try:
        imported = read(root)
    except ModelError as error:  # the user knows the package, not the folder that it was extracted to
        raise ModelError([each.replace(str(root), str(path)) for each in error.messages]) from None
    return dataclasses.replace(imported, file=path, load=load)


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
