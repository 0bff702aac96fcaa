"""Data that an experiment makes of the given data, prepared once for all of its rows."""

import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from allyouneed.data.corpus_files import CorpusFiles
from allyouneed.data.lines import write_lines
from allyouneed.errors import LockedError
from allyouneed.lab.paper.experiment import Work
from allyouneed.preparation.prepared_data import PreparedData
from allyouneed.preparation.preparing import prepare
from allyouneed.storage.run_directory import RunDirectory

_WAIT = 0.5
"""Seconds between looks at what another process prepares."""

Texts = Callable[[str, Sequence[str], Sequence[str]], Iterable[Iterable[str]]]
"""A part of the given data, its sources and its targets -> those of the remade data."""


def remade_data(
    work: Work,
    name: str,
    texts: Texts = lambda part, *sides: sides,
    *,
    tokenizer_from: Path | None = None,
    **settings: Any,
) -> Path:
    """The data in `name/data` beside the rows: the given data with other `settings`, of other `texts`.

    One process prepares it; others wait. `tokenizer_from` is a model whose sub-words it has.
    """
    folder = work.directory.parents[1] / name
    while not (remade := folder / "data").exists():
        try:
            with RunDirectory(folder).locked():
                if not remade.exists():
                    _prepare(work, folder, texts, tokenizer_from, settings)
        except LockedError:  # another process is preparing it
            time.sleep(_WAIT)
    return remade


def _prepare(
    work: Work, folder: Path, texts: Texts, tokenizer_from: Path | None, settings: dict[str, Any]
) -> None:
    given, text = PreparedData(work.data), folder / "text"
    text.mkdir(exist_ok=True)
    for part in ("train", "valid"):
        sides = texts(part, given.lines(part, "source"), given.lines(part, "target"))
        for side, lines in zip(("source", "target"), sides, strict=True):
            write_lines(text / f"{part}.{side}", lines)
    train, valid = (
        CorpusFiles(text / f"{part}.source", text / f"{part}.target", drop_repeats=False)
        for part in ("train", "valid")
    )
    config = given.config.replace(**settings)
    prepare(folder / "data", train, valid, config, work.say, tokenizer_from=tokenizer_from)
