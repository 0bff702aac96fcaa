"""The models that are served: their names and languages, and loading them again when they are replaced."""

import contextlib
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from allyouneed.config.run import DecodingPrecision
from allyouneed.errors import UsageError
from allyouneed.language_codes import are_same, closest_code, codes_of_direction, short_codes
from allyouneed.native.library import available, instructions
from allyouneed.runs.loading import load
from allyouneed.storage.run_directory import resolve_model
from allyouneed.tasks.frames.transcriber import Transcriber
from allyouneed.tasks.parsing.parser import Parser, penn_words
from allyouneed.tasks.translation.translator import Translator

_LONGEST_NAME = 64


class Version(NamedTuple):
    """Identity of the files of a model, which changes if others replace them."""

    directory: Path
    files: tuple[tuple[str, int, int, int], ...]
    """Name, inode, time of the last change in nanoseconds, and size of each file."""

    @property
    def changed(self) -> int:
        """Time of the last change of any file, in nanoseconds."""
        return max(changed for _, _, changed, _ in self.files)


@dataclass
class ServedModel:
    """A model, and where it is from."""

    name: str
    given: "ModelSource"
    """Its path, and the settings that were given for it."""
    loaded: Translator | Parser | Transcriber
    precision: DecodingPrecision
    source: str
    """Code of the source language; empty for a parser or a transcriber."""
    target: str
    """Code of the target language; empty for a parser or a transcriber."""
    version: Version
    refused: Version | None = None
    languages: tuple[str, ...] = ()
    """Codes of the languages of a model that translates between any two; `source` and `target` are empty."""

    @property
    def path(self) -> Path:
        """Where the model is from."""
        return self.given.path

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
    precision: DecodingPrecision | None = None
    """Precision of the matrix products; None: int8 where it is fast, else float32."""
    beam_size: int | None = None
    """Beam size of requests that name none; None: that of the model's own settings."""
    languages: tuple[str, ...] = ()
    """Codes of the languages to serve, of a model that translates between any two; by default all of them."""


def direction_of(text: str) -> ModelSource:
    """Read `en-de=PATH`; a variant follows "_", or "-" if it looks like one, as in "pt-BR" and "zh-Hans"."""
    codes, _, path = text.partition("=")
    if (found := codes_of_direction(codes)) is None or not path:
        raise UsageError(
            f"--direction {text}: not of the form SOURCE-TARGET=MODEL, such as en-de=runs/first "
            "and en-pt_BR=runs/second"
        )
    source, target = found
    return ModelSource(Path(path), (source.lower(), target.lower()))


def with_settings(sources: Sequence[ModelSource], **given: Mapping[str, Any]) -> list[ModelSource]:
    """Models with each setting as given for their names, which have to be known, or for ""."""
    names = _names([source.path for source in sources])
    for setting, values in given.items():
        for name in values.keys() - {"", *names}:
            place = f"--{setting.replace('_', '-')} {name}={values[name]}"
            raise UsageError(f"{place}: no such model; the models are {', '.join(names)}")
    return [
        replace(source, **{setting: values.get(name, values.get("")) for setting, values in given.items()})
        for name, source in zip(names, sources, strict=True)
    ]


def load_models(sources: Sequence[ModelSource], device: str) -> list[ServedModel]:
    """Load at least one model.

    Raises:
        ModelError: A model is missing or damaged.
        UsageError: The languages of a translation model are not known, or the precision is not available.
    """
    found: list[ServedModel] = []
    for name, source in zip(_names([source.path for source in sources]), sources, strict=True):
        found += _load(name, source, device, found)
    if sources and sources[0].languages and not any(model.languages for model in found):
        raise UsageError("--languages: no model is one of any two languages, as NLLB is; leave it out")
    names = _names(Path(each.name) for each in found)
    return [replace(each, name=name) for each, name in zip(found, names, strict=True)]


def newer(model: ServedModel, device: str, others: Iterable[ServedModel] = ()) -> ServedModel | None:
    """The model that has replaced another at its path, verified and loaded; None if none has.

    Its weights are those of one of the others, if that is of the same files.

    Raises:
        UserError: The model at the path cannot be loaded, or has another task or other languages; it is not
            tried again until a file of it changes.
        OSError: The files cannot be read.
    """
    version = _version(model.path)
    if version in (model.version, model.refused):
        return None
    model.refused = version  # until it is known to be good
    served = _load(model.name, model.given, device, others)
    alike = (each for each in served if (each.source, each.target) == (model.source, model.target))
    found = replace(next(alike, served[0]), name=model.name)
    remedy = "put it in another place, and start the server with both"
    stated, expected = _languages_of(found.loaded), _languages_of(model.loaded)
    if not all(expected):
        expected = model.source, model.target
    if all(stated) and not all(map(are_same, stated, expected)):
        raise UsageError(f"it translates {'-'.join(stated)}, not {'-'.join(expected)}; {remedy}")
    does, did = (f"{each.source}-{each.target}" if each.source else each.task for each in (found, model))
    if does != did:
        raise UsageError(f"it does {does}, not {did}; {remedy}")
    return found


def _languages_of(loaded: Translator | Parser | Transcriber) -> tuple[str, str]:
    """The languages that a model's own configuration names; empty unless it translates."""
    data = loaded.config.data
    return (
        (data.source_language.lower(), data.target_language.lower())
        if isinstance(loaded, Translator)
        else ("", "")
    )


def _load(name: str, source: ModelSource, device: str, others: Iterable[ServedModel]) -> list[ServedModel]:
    """A model for each direction of a source, which share the weights, also with others of the same files."""
    version = _version(source.path)
    same = [
        each
        for each in others
        if each.version == version and replace(each.given, direction=source.direction) == source
    ]
    loaded, precision = (
        (same[0].loaded, same[0].precision) if same else _read(version.directory, source, device)
    )
    if not isinstance(loaded, Translator):
        return [ServedModel(name, source, loaded, precision, "", "", version)]
    if loaded.config.data.language_symbols == "both" and not source.direction:
        languages = _chosen(short_codes(loaded.languages), source)
        return [ServedModel(name, source, loaded, precision, "", "", version, languages=languages)]
    stated = [*loaded.config.data.directions] or [_languages_of(loaded)]
    pairs = [
        (one.lower(), other.lower()) for one, other in ([source.direction] if source.direction else stated)
    ]
    if not all(map(all, pairs)):
        raise UsageError(
            f"{source.path}: the model does not know its languages; name them: "
            f"--direction en-de={source.path}"
        )
    return [
        ServedModel(
            name if len(pairs) == 1 else f"{name}-{'-'.join(pair)}",
            source,
            loaded.into(pair[1], pair[0]) if len(loaded.languages) > 1 else loaded,
            precision,
            *pair,
            version,
        )
        for pair in pairs
    ]


def _chosen(languages: Sequence[str], source: ModelSource) -> tuple[str, ...]:
    """The languages of a model that are wanted."""
    if not source.languages:
        return tuple(languages)
    wanted = {code: closest_code(code, languages) for code in source.languages}
    if unknown := [code for code, found in wanted.items() if found is None]:
        raise UsageError(
            f"--languages {unknown[0]}: is no language of {source.path}; allyouneed verify {source.path} "
            "lists them"
        )
    if len(chosen := {*wanted.values()}) < 2:
        raise UsageError(f"--languages {source.languages[0]}: is one language; name two or more")
    return tuple(code for code in languages if code in chosen)


def _read(
    directory: Path, source: ModelSource, device: str
) -> tuple[Translator | Parser | Transcriber, DecodingPrecision]:
    chosen = source.precision or ("int8" if device == "cpu" and _has_fast_int8() else "float32")
    try:
        loaded = load(directory, device=device, precision=chosen)
    except UsageError:
        if source.precision is not None:
            raise
        chosen = "float32"  # the kernels do not support a part of the model
        loaded = load(directory, device=device)
    if source.beam_size is not None:
        loaded.config = loaded.config.replace(search={"beam_size": source.beam_size})
    if isinstance(loaded, Parser):
        with contextlib.suppress(UsageError):  # without NLTK, it parses words
            penn_words("")  # imports NLTK now, which takes seconds
    return loaded, chosen


def _version(path: Path) -> Version:
    directory = resolve_model(path)
    with os.scandir(directory) as entries:
        found = [(entry.name, entry.stat()) for entry in entries]
    files = sorted((name, each.st_ino, each.st_ctime_ns, each.st_size) for name, each in found)
    return Version(directory, tuple(files))


def _has_fast_int8() -> bool:
    return "int8" in available() and instructions() != "plain"


def _names(paths: Iterable[Path]) -> list[str]:
    """A name for each path: its last component, with a number if several have the same."""
    names: list[str] = []
    for path in paths:
        name = re.sub(r"[^A-Za-z0-9._-]", "-", path.resolve().name).lstrip(".")[:_LONGEST_NAME] or "model"
        number, unique = 2, name
        while unique in names:
            unique = f"{name[: _LONGEST_NAME - 4]}-{number}"
            number += 1
        names.append(unique)
    return names
