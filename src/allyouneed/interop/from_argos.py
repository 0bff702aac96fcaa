"""Reads packages of Argos Translate: `.argosmodel`, or the folder that such a zip is installed as.

A package is a folder of `metadata.json`, a CTranslate2 folder `model`, and a tokeniser.
"""

import dataclasses
from pathlib import Path

from allyouneed.errors import ModelError
from allyouneed.interop import from_ctranslate2
from allyouneed.interop.foreign import Imported, language_settings
from allyouneed.interop.foreign_files import json_object
from allyouneed.interop.packed_models import read_package

METADATA, MODEL, SENTENCEPIECE = "metadata.json", "model", "sentencepiece.model"
_TOKENIZERS = SENTENCEPIECE, "bpe.model"
_FILES = {METADATA, *_TOKENIZERS, *(f"{MODEL}/{name}" for name in from_ctranslate2.FILES)}
"""Files of a package that are read."""


def recognises(path: Path) -> bool:
    """Whether a file or folder looks like a package of Argos Translate."""
    if path.is_dir():
        return (path / METADATA).exists() and (path / MODEL).is_dir()
    return path.suffix == ".argosmodel"


def read(path: Path) -> Imported:
    """Read a package; ModelError names it if it is damaged, unsafe, or its model is not supported."""
    if path.is_dir():
        return _installed(path)
    return read_package(path, METADATA, _FILES.__contains__, _installed)


def _installed(root: Path) -> Imported:
    for name in (METADATA, f"{MODEL}/model.bin"):
        if not (root / name).exists():
            raise ModelError(f"{root}: has no {name}; take another copy of the package")
    if not any((root / name).exists() for name in _TOKENIZERS):
        raise ModelError(f"{root}: has neither {' nor '.join(_TOKENIZERS)}; take another copy of the package")
    metadata = json_object(root / METADATA)
    if prefix := metadata.get("target_prefix"):
        raise ModelError(
            f"{root / METADATA}: target_prefix = {prefix!r} is not supported: Argos Translate begins every "
            "output with it, and this program would not"
        )
    languages = language_settings(metadata.get("from_code"), metadata.get("to_code"))
    codes = languages.get("source_language", ""), languages.get("target_language", "")
    imported = from_ctranslate2.read(root / MODEL, tokenizers=root, languages=codes)
    return dataclasses.replace(imported, config=imported.config.replace(data=languages))
