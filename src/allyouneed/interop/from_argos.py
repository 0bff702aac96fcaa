"""Reads packages of Argos Translate: `.argosmodel`, or the folder that such a zip is installed as.

A package is a folder of `metadata.json`, a CTranslate2 folder `model`, and a tokeniser.
"""

import dataclasses
import shutil
import weakref
import zipfile
from collections.abc import Sequence
from pathlib import Path, PurePosixPath
from tempfile import mkdtemp

from allyouneed.errors import ModelError, UserError
from allyouneed.interop import from_ctranslate2
from allyouneed.interop.foreign import Imported, Original, language_settings
from allyouneed.interop.foreign_files import damaged, json_object, require_members
from allyouneed.storage.publish import MAX_WEIGHT_BYTES, disk_errors, open_regular

_METADATA, _TOKENIZER, _MODEL = "metadata.json", "sentencepiece.model", "model"
_FILES = {_METADATA, _TOKENIZER, *(f"{_MODEL}/{name}" for name in from_ctranslate2.FILES)}
"""Files of a package that are read."""
_MOST_MEMBERS = 1_000
_OF_THE_SYSTEM = "__MACOSX"
"""Folder that macOS adds to zips; it holds a shadow of every file."""


def recognises(path: Path) -> bool:
    """Whether a file or folder looks like a package of Argos Translate."""
    if path.is_dir():
        return (path / _METADATA).exists() and (path / _MODEL).is_dir()
    return path.suffix == ".argosmodel"


def read(path: Path) -> Imported:
    """Read a package; ModelError names it if it is damaged, unsafe, or its model is not supported."""
    if path.is_dir():
        return _installed(path)
    root = Path(mkdtemp(prefix="allyouneed-argos-"))

    def load() -> Original:
        return imported.load()

    weakref.finalize(load, shutil.rmtree, root, ignore_errors=True)  # it is read again only by `load`
    _extract(path, root)
    try:
        imported = _installed(root)
    except ModelError as error:  # the user knows the package, not the folder that it was extracted to
        raise ModelError([each.replace(str(root), str(path)) for each in error.messages]) from None
    return dataclasses.replace(imported, file=path, load=load)


def _installed(root: Path) -> Imported:
    for name in (_METADATA, _TOKENIZER, f"{_MODEL}/model.bin"):
        if not (root / name).exists():
            raise ModelError(
                f"{root}: has no {name}; only packages with SentencePiece models are supported, "
                "not those with a bpe.model"
            )
    metadata = json_object(root / _METADATA)
    if prefix := metadata.get("target_prefix"):
        raise ModelError(
            f"{root / _METADATA}: target_prefix = {prefix!r} is not supported: Argos Translate begins every "
            "output with it, and this program would not"
        )
    imported = from_ctranslate2.read(root / _MODEL, tokenizers=root)
    languages = language_settings(metadata.get("from_code"), metadata.get("to_code"))
    return dataclasses.replace(imported, config=imported.config.replace(data=languages))


def _extract(path: Path, root: Path) -> None:
    """Extract the files that are needed; their names are chosen here, not by the package."""
    try:
        with open_regular(path, MAX_WEIGHT_BYTES) as file, zipfile.ZipFile(file) as package:
            for name, member in _wanted(require_members(package, path, _MOST_MEMBERS), path).items():
                member.filename = name
                with disk_errors(root / name):
                    package.extract(member, root)
    except UserError:
        raise
    except Exception as error:  # zipfile and zlib have several
        raise damaged(path, f"is no valid package ({type(error).__name__})") from None


def _wanted(members: Sequence[zipfile.ZipInfo], path: Path) -> dict[str, zipfile.ZipInfo]:
    """The members to extract, by their names in the package's folder, which may be the whole of the zip."""
    files = {}
    for member in members:
        parts = PurePosixPath(member.filename).parts
        if ".." in parts or member.filename.startswith("/") or "\\" in member.filename:
            raise ModelError(f"{path}: the file {member.filename!r} lies outside of the package")
        if not member.is_dir() and parts[0] != _OF_THE_SYSTEM:
            files[parts] = member
    folders = [parts[:-1] for parts in files if parts[-1] == _METADATA and len(parts) <= 2]
    outermost = [folder for folder in folders if not folder] or folders
    if len(outermost) != 1:
        raise damaged(path, f"has {len(outermost)} folders with a {_METADATA}, not one")
    depth = len(outermost[0])
    inside = {parts[depth:]: member for parts, member in files.items() if parts[:depth] == outermost[0]}
    return {name: found for parts, found in inside.items() if (name := "/".join(parts)) in _FILES}
