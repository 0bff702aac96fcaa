"""Reads packages of Argos Translate (`.argosmodel`): a zip of a CTranslate2 folder and a tokeniser."""

import dataclasses
import shutil
import weakref
import zipfile
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from tempfile import mkdtemp

from allyouneed.errors import ModelError, UserError
from allyouneed.interop import from_ctranslate2
from allyouneed.interop.foreign import Imported, Original
from allyouneed.interop.huggingface_folder import json_object
from allyouneed.storage.publish import disk_errors

_METADATA, _TOKENIZER, _MODEL = "metadata.json", "sentencepiece.model", "model"
_MOST_BYTES = 8 * 2**30
_MOST_MEMBERS = 1_000
_MOST_RATIO = 1_000
"""Largest factor by which a member may be compressed; weights hardly are."""


def is_one(path: Path) -> bool:
    """Whether a file looks like a package of Argos Translate."""
    return path.suffix == ".argosmodel" and path.is_file()


def read(path: Path) -> Imported:
    """Read a package.

    Raises:
        ModelError: It is damaged, unsafe, or its model is not supported; the message names the package.
    """
    root = Path(mkdtemp(prefix="allyouneed-argos-"))

    def load() -> Original:
        return imported.load()

    weakref.finalize(load, shutil.rmtree, root, ignore_errors=True)  # it is read again only by `load`
    _extract(path, root)
    try:
        metadata = json_object(root / _METADATA)
        _require_no_prefix(metadata, root / _METADATA)
        imported = from_ctranslate2.read(root / _MODEL, tokenizers=root)
    except ModelError as error:  # the user knows the package, not the folder that it was extracted to
        raise ModelError([each.replace(str(root), str(path)) for each in error.messages]) from None
    codes = {
        f"{side}_language": metadata.get(key)
        for side, key in (("source", "from_code"), ("target", "to_code"))
    }
    languages = {name: code for name, code in codes.items() if isinstance(code, str) and code.isalpha()}
    return dataclasses.replace(imported, config=imported.config.replace(data=languages), load=load)


def _require_no_prefix(metadata: Mapping[str, object], path: Path) -> None:
    if prefix := metadata.get("target_prefix"):
        raise ModelError(
            f"{path}: target_prefix = {prefix!r} is not supported: Argos Translate begins every output with "
            "it, and this program would not"
        )


def _extract(path: Path, root: Path) -> None:
    """Extract the files that are needed; their names are chosen here, not by the package."""
    try:
        with zipfile.ZipFile(path) as package:
            for member in _checked(package, path):
                target = root.joinpath(*PurePosixPath(member.filename).parts[1:])
                content = package.read(member)
                with disk_errors(target):
                    target.parent.mkdir(parents=True, exist_ok=True)
                    target.write_bytes(content)
    except UserError:
        raise
    except Exception as error:  # zipfile and zlib have several
        raise ModelError(f"{path}: is no valid package ({type(error).__name__}); take another copy") from None
    for name in (_METADATA, _TOKENIZER, f"{_MODEL}/model.bin"):
        if not (root / name).is_file():
            raise ModelError(f"{path}: has no {name}; only packages with SentencePiece models are supported")


def _checked(package: zipfile.ZipFile, path: Path) -> list[zipfile.ZipInfo]:
    """The members to extract.

    Raises:
        ModelError: A member lies outside of the package's folder, or is too large.
    """
    members = package.infolist()
    if len(members) > _MOST_MEMBERS or sum(each.file_size for each in members) > _MOST_BYTES:
        raise ModelError(f"{path}: has more than {_MOST_MEMBERS:,} files or {_MOST_BYTES:,} bytes")
    wanted = []
    for member in members:
        parts = PurePosixPath(member.filename).parts
        if ".." in parts or member.filename.startswith("/") or "\\" in member.filename:
            raise ModelError(f"{path}: the file {member.filename!r} lies outside of the package")
        if member.file_size > _MOST_RATIO * max(1, member.compress_size):
            raise ModelError(f"{path}: the file {member.filename!r} is compressed beyond belief")
        inside = parts[1:]
        if inside in ((_METADATA,), (_TOKENIZER,)) or inside[:1] == (_MODEL,):
            wanted.append(member)
    return [each for each in wanted if not each.is_dir()]
