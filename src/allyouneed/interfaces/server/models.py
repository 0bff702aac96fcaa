"""The models that are served: their names and languages, and loading them again when they are replaced."""

import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import torch

from allyouneed.config.run import DecodingPrecision
from allyouneed.errors import UsageError
from allyouneed.native import isa
from allyouneed.native.library import available
from allyouneed.storage.publish import MANIFEST
from allyouneed.storage.run_directory import resolve_model
from allyouneed.tasks.loading import load
from allyouneed.tasks.parsing.parser import Parser
from allyouneed.tasks.translation.translator import Translator

_LONGEST_NAME = 64


class Version(NamedTuple):
    """What distinguishes the files of a model from those that replace them."""

    directory: Path
    manifest: tuple[int, int, int]
    """Inode, time of its last change in nanoseconds, and size of the manifest."""


@dataclass
class ServedModel:
    """A model, and where it is from."""

    name: str
    path: Path
    loaded: Translator | Parser
    precision: DecodingPrecision
    source: str
    """Code of the source language; empty for a parser."""
    target: str
    """Code of the target language; empty for a parser."""
    version: Version
    refused: Version | None = None
    """A version that could not be loaded."""

    @property
    def task(self) -> str:
        """The task of the model."""
        return self.loaded.config.data.task


@dataclass(frozen=True)
class ModelSource:
    """A model to be served."""

    path: Path
    direction: tuple[str, str] | None = None
    """Codes of its source and target language; by default those that it was trained with."""


def direction_of(text: str) -> ModelSource:
    """Read `en-de=PATH`.

    Raises:
        UsageError: The text has another form.
    """
    matched = re.fullmatch(r"([A-Za-z]{2,8}(?:_\w+)?)-([A-Za-z]{2,8}(?:_\w+)?)=(.+)", text)
    if matched is None:
        raise UsageError(f"--direction {text}: not of the form SOURCE-TARGET=MODEL, such as en-de=runs/first")
    return ModelSource(Path(matched[3]), (matched[1].lower(), matched[2].lower()))


def load_models(
    sources: Sequence[ModelSource], precision: DecodingPrecision | None, device: torch.device
) -> list[ServedModel]:
    """Load models.

    Args:
        sources: The models, at least one.
        precision: Precision of the matrix products; None: int8 where it is fast, else float32.
        device: Device to compute on.

    Raises:
        ModelError: A model is missing or damaged.
        UsageError: The languages of a translation model are not known, or the precision is not available.
    """
    names = _names([source.path for source in sources])
    return [_load(name, each, precision, device) for name, each in zip(names, sources, strict=True)]


def newer(model: ServedModel, device: torch.device) -> ServedModel | None:
    """The model that has replaced another at its path, verified and loaded; None if none has.

    Raises:
        UserError: The model at the path cannot be loaded; it is not tried again until it changes.
    """
    version = _version(model.path)
    if version in (model.version, model.refused):
        return None
    model.refused = version  # until it is known to be good
    source = ModelSource(model.path, (model.source, model.target) if model.source else None)
    return _load(model.name, source, model.precision, device)


def _load(
    name: str, source: ModelSource, precision: DecodingPrecision | None, device: torch.device
) -> ServedModel:
    version = _version(source.path)
    chosen = precision or ("int8" if device.type == "cpu" and _has_fast_int8() else "float32")
    try:
        loaded = load(version.directory, device=device, precision=chosen)
    except UsageError:
        if precision is not None:
            raise
        chosen = "float32"  # the kernels do not support a part of the model
        loaded = load(version.directory, device=device)
    data = loaded.config.data
    languages = source.direction or (data.source_language.lower(), data.target_language.lower())
    if isinstance(loaded, Parser):
        languages = "", ""
    elif not all(languages):
        raise UsageError(
            f"{source.path}: the model does not know its languages; name them: "
            f"--direction en-de={source.path}"
        )
    return ServedModel(name, source.path, loaded, chosen, *languages, version)


def _version(path: Path) -> Version:
    directory = resolve_model(path)
    status = (directory / MANIFEST).stat()
    return Version(directory, (status.st_ino, status.st_ctime_ns, status.st_size))


def _has_fast_int8() -> bool:
    return "int8" in available() and isa.find(os.environ.get(isa.VARIABLE)).name != "plain"


def _names(paths: Iterable[Path]) -> list[str]:
    """A name for each path: its last component, with a number if several have the same."""
    names: list[str] = []
    for path in paths:
        name = re.sub(r"[^A-Za-z0-9._-]", "-", path.resolve().name).lstrip(".")[:_LONGEST_NAME] or "model"
        number = 2
        unique = name
        while unique in names:
            unique = f"{name[: _LONGEST_NAME - 4]}-{number}"
            number += 1
        names.append(unique)
    return names
