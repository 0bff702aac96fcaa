"""Computes the rows of an experiment, once per row and seed, and keeps the results.

OUT/ROW/seed-N holds the output of a row. `result.json` is written last; where it exists, the row is done.
"""

import contextlib
import json
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch

from allyouneed.data.corpus import require_rereadable
from allyouneed.data.lines import is_blank, read_aligned, read_lines
from allyouneed.errors import (
    DataError,
    DivergedError,
    LockedError,
    ResourceError,
    UsageError,
    is_out_of_memory,
)
from allyouneed.paper.experiment import (
    FAILED,
    MADE_OF,
    NOTHING_GIVEN,
    RESULT,
    Draw,
    Experiment,
    Figures,
    Inputs,
    Reporter,
    Results,
    Row,
    RowError,
    Work,
)
from allyouneed.paper.scales import Scale
from allyouneed.storage.publish import MANIFEST, disk_errors, read_manifest, sha256_of, write_text
from allyouneed.storage.run_directory import RunDirectory, resolve_model
from allyouneed.tasks.parsing.penn_words import penn_words
from allyouneed.tasks.parsing.trees import read_trees
from allyouneed.tasks.prepared_data import PreparedData

_OF_THE_ROW = (DivergedError, ResourceError, RowError)
"""Errors that are recorded in the row's result; any other ends the experiment and leaves the row undone."""


def reproduce(  # noqa: PLR0913 - what, where, how large, from what, whom to tell
    experiment: Experiment,
    out: Path,
    scale: Scale,
    device: torch.device,
    inputs: Inputs = NOTHING_GIVEN,
    *,
    num_seeds: int | None = None,
    only: Sequence[str] = (),
    reporter: Reporter = lambda run: contextlib.nullcontext(lambda event: None),
    draw: Draw = lambda attention, selection, path: None,
    say: Callable[[str], None] = lambda line: None,
) -> Iterator[Results]:
    """Compute the rows of an experiment; yield all results so far after each row.

    If a row diverges or runs out of memory, it is recorded as failed, and the next one is computed.
    Rows that another process is computing are skipped, so several processes can share the work.

    Args:
        experiment: The experiment.
        out: The folder to work in; rows that are done there are not computed again.
        scale: The scale to run at.
        device: Device to compute on.
        inputs: The inputs of the experiment.
        num_seeds: Number of seeds for rows that take every seed; by default the experiment's.
        only: Names of the rows to compute, along with their baselines; if empty, all rows.
        reporter: Provides the receiver of a run's training events.
        draw: Draws pictures of attention; by default none are drawn.
        say: Receives a message as each row starts.

    Raises:
        UsageError: Data is missing or does not suit the experiment, a row is unknown, or `out` holds results
            for another scale, model or data.
        DataError: The data has too little of what the experiment needs.
        ModelError: The data or the model is damaged.
        UserError: A row raised an error that it did not cause itself.
    """
    rows = chosen_rows(experiment, scale, only)
    _require_same(out, _identity(experiment, scale, rows, inputs))
    plan = _plan(rows, num_seeds or experiment.num_seeds)
    if num_seeds not in (None, 1) and len(plan) == len(rows):
        say(f"NOTICE: {num_seeds} seeds are asked for, but each of these rows is computed once")
    directories = [out / row.name / f"seed-{seed}" for row, seed in plan]
    time_left = _time_left(directories)
    for number, ((row, seed), directory) in enumerate(zip(plan, directories, strict=True), start=1):
        if _is_computed(row, directory):
            continue
        which = f"row {number} of {len(plan)}: {row.name}, seed {seed}"
        try:
            with RunDirectory(directory).locked():
                if _is_computed(row, directory):
                    continue
                say(which + time_left())
                figures = _figures(row, Work(directory, seed, scale, inputs, device, reporter, draw, say))
                write_text(directory / RESULT, json.dumps(figures, indent=1) + "\n")
        except LockedError:
            say(f"{which}: left to another process, which is computing it")
            continue
        yield read_results(experiment, out, scale, inputs)
    yield read_results(experiment, out, scale, inputs)


def _identity(experiment: Experiment, scale: Scale, rows: Sequence[Row], inputs: Inputs) -> dict[str, Any]:
    """Facts that results in one folder must share, as JSON values."""
    facts = _facts(experiment, rows, inputs)
    settings = {name: value for name, value in asdict(scale).items() if name not in ("name", "sized_for")}
    settings = json.loads(json.dumps(settings))
    return {"experiment": experiment.name, "scale": scale.name, "settings": settings, **facts}


def chosen_rows(experiment: Experiment, scale: Scale, only: Sequence[str]) -> list[Row]:
    """The wanted rows, their baselines, the baselines of those, etc., in the experiment's order.

    Raises:
        UsageError: A row is unknown.
    """
    rows = list(experiment.rows(scale))
    named = {other: row.name for row in rows for other in row.same}
    only = [named.get(name, name) for name in only]
    if unknown := sorted(set(only) - {row.name for row in rows}):
        names = ", ".join(row.name for row in rows)
        raise UsageError(
            f"rows {' '.join(unknown)}: reproduce {experiment.name} has these: {names}", settings=["rows"]
        )
    wanted = {*only} or {row.name for row in rows}
    waiting = [row for row in rows if row.name in wanted]
    while waiting:
        row = waiting.pop()
        needed = {*row.made_of, *row.compared_with(rows[0])} - wanted
        wanted |= needed
        waiting += [other for other in rows if other.name in needed]
    return [row for row in rows if row.name in wanted]


def read_results(experiment: Experiment, out: Path, scale: Scale, inputs: Inputs = NOTHING_GIVEN) -> Results:
    """All results in `out` so far, from this call and earlier ones.

    Raises:
        DataError: A result is damaged.
    """
    rows = experiment.rows(scale)
    kept: dict[str, dict[int, dict[str, Any]]] = {}
    for row in rows:
        for path in sorted((out / row.name).glob(f"seed-*/{RESULT}")):
            if found := re.fullmatch(r"seed-(\d+)", path.parent.name):
                kept.setdefault(row.name, {})[int(found[1])] = read_json(path)
    first = kept.get(rows[0].name, {})
    outcomes = {
        row: {seed: {**own, **experiment.derive(own, first.get(seed, {}))} for seed, own in of_row.items()}
        for row, of_row in kept.items()
    }
    return Results(experiment, scale, rows, outcomes, out, inputs)


def _plan(rows: Sequence[Row], num_seeds: int) -> list[tuple[Row, int]]:
    """All rows with the first seed, then the repetitions: a run that is stopped early has every row."""
    return [(row, seed) for seed in range(1, num_seeds + 1) for row in rows if seed == 1 or row.every_seed]


def _is_computed(row: Row, directory: Path) -> bool:
    """Whether the row has a result, built from the current results of its parts."""
    result = directory / RESULT
    if not result.is_file():
        return False
    return not row.made_of or read_json(result).get(MADE_OF) == _hashes_of_parts(row, directory)


def _hashes_of_parts(row: Row, directory: Path) -> dict[str, str]:
    """Row that this one is built from -> sha256 of its result, for those that have one."""
    results = {name: directory.parents[1] / name / directory.name / RESULT for name in row.made_of}
    return {name: sha256_of(result) for name, result in results.items() if result.is_file()}


def _figures(row: Row, work: Work) -> Figures:
    """The figures of the row, or the reason why it failed.

    Raises:
        LockedError: A row that this one is built from is not done yet, as another process is computing it.
    """
    parts = _hashes_of_parts(row, work.directory)
    made_of = {MADE_OF: parts} if parts else {}
    if missing := set(row.made_of) - set(parts):
        raise LockedError(f"{work.directory}: is made of {', '.join(sorted(missing))}, not computed yet")
    if parts:
        _forget_what_was_made_of_others(work.directory, parts)
    try:
        return {**row.compute(work), **made_of}
    except Exception as error:
        if not isinstance(error, _OF_THE_ROW) and not is_out_of_memory(error):
            raise
        why = str(error).partition("\n")[0] or "there is not enough memory"
        work.say(f"failed: {why}")
        return {FAILED: why, **made_of}


def _forget_what_was_made_of_others(directory: Path, parts: Mapping[str, str]) -> None:
    """Clear the leftovers of a row, unless it started from the current results of its parts.

    Raises:
        UsageError: The folder holds files, but no record that a row started there.
    """
    record, row = directory / f"{MADE_OF}.json", RunDirectory(directory)
    if not record.is_file() and not row.is_new():
        raise UsageError(
            f"{directory}: holds files that no row has written; move them, or name another out",
            settings=["out"],
        )
    if not (record.is_file() and read_json(record) == parts):
        row.clear(keep=[record.name])
    write_text(record, json.dumps(parts) + "\n")


def _facts(experiment: Experiment, rows: Sequence[Row], inputs: Inputs) -> dict[str, Any]:
    """Facts that identify the inputs, after checking that they suit the experiment."""
    if inputs.model is None:
        of_data = _facts_of_data(experiment, rows, inputs.data)
        return {**of_data, **_facts_of_text(rows, inputs.text), "test": _facts_of_test(experiment, inputs)}
    if inputs.test or inputs.text:
        settings = [*inputs.test, *(["text"] if inputs.text else [])]
        raise UsageError(
            f"{' and '.join(settings)}: a model is not tested again; leave out {' and '.join(settings)}",
            settings=settings,
        )
    if not experiment.takes_model or inputs.data is not None:
        instead = "give it or data" if experiment.takes_model else "give data"
        raise UsageError(
            f"model {inputs.model}: reproduce {experiment.name} has no use for it; {instead}",
            settings=["model", "data"],
        )
    directory = resolve_model(inputs.model)
    read_manifest(directory, "model")  # anything but a model is rejected before any row is computed
    return {"data": None, "model": sha256_of(directory / MANIFEST)}


def _facts_of_data(experiment: Experiment, rows: Sequence[Row], data: Path | None) -> dict[str, Any]:
    """Facts that identify the data; empty if no row needs data."""
    if experiment.require is None or not any(row.needs_data for row in rows):
        return {}
    if data is None:
        remedy = ", or a trained one with model" if experiment.takes_model else ""
        raise UsageError(
            f"reproduce {experiment.name}: trains models; name prepared folders with data{remedy}",
            settings=["data", "model"],
        )
    prepared = PreparedData(data)
    experiment.require(prepared)
    return {"data": prepared.facts, "model": None}


def _facts_of_text(rows: Sequence[Row], text: Sequence[Path]) -> dict[str, list[str]]:
    """Facts that identify the raw text; empty if no row needs raw text."""
    needed_by = [row.name for row in rows if row.needs_text]
    if needed_by and not text:
        raise UsageError(
            f"{' '.join(needed_by)}: parses raw sentences; name files of them with text, "
            "or leave it out with rows",
            settings=["text", "rows"],
        )
    if text and not needed_by:
        raise UsageError("text: no row parses sentences of yours; leave it out", settings=["text"])
    require_rereadable(text)
    if text:
        penn_words("")  # reports a missing library now, not after the earlier rows
        if all(is_blank(line) for file in text for line in read_lines(file)):
            raise DataError(f"{text[0]}: has no sentence; give text, a sentence a line")
    return {"text": [sha256_of(file) for file in text]} if text else {}


def _facts_of_test(experiment: Experiment, inputs: Inputs) -> list[str]:
    """Facts that identify the test set, which is read once, so that errors in it are found now."""
    if not inputs.test:
        return []
    if list(inputs.test) != list(experiment.test_settings):
        wanted = " and ".join(experiment.test_settings)
        told = f"give {wanted}, not" if wanted else "has no use for a test set; leave it out:"
        raise UsageError(
            f"reproduce {experiment.name}: {told} {' and '.join(inputs.test)}",
            settings=[*experiment.test_settings, *inputs.test],
        )
    files = list(inputs.test.values())
    require_rereadable(files)
    lines = read_aligned(files[0], files[1])[0] if len(files) > 1 else [*read_trees(files[0])]
    if not lines:
        raise DataError(f"{files[0]}: is empty; give a test set, or leave it out")
    return [sha256_of(file) for file in files]


def _time_left(directories: Sequence[Path]) -> Callable[[], str]:
    """A function that tells the time left, by the joint pace of all processes from now on."""

    def there() -> int:
        return sum((directory / RESULT).is_file() for directory in directories)

    began, at_first = time.monotonic(), there()

    def left() -> str:
        now = there()
        if now == at_first:
            return ""
        seconds = (time.monotonic() - began) / (now - at_first) * (len(directories) - now)
        return f", {timedelta(seconds=round(seconds))} left in all"

    return left


def read_json(path: Path) -> dict[str, Any]:
    """Contents of the JSON file of a result or an experiment.

    Raises:
        DataError: The file is damaged.
    """
    try:
        return dict(json.loads(path.read_bytes()))
    except (ValueError, TypeError):
        raise DataError(f"{path}: is damaged; delete it, and start again what has written it") from None


def _require_same(out: Path, settings: Mapping[str, Any]) -> None:
    """Refuse to mix results for different scales, data or models; record these in `experiment.json`."""
    path = out / "experiment.json"
    begun = {"test": []} | read_json(path) if path.is_file() else {}
    named = {"data": "other data", "text": "other text", "model": "another model"}
    named["test"] = "another test set" if begun.get("test") else "no test set"
    for name, value in settings.items():
        if begun.get(name, value) != value:
            named["settings"] = f"other settings of the scale {settings['scale']}"
            other = named.get(name, f"{name} {begun[name]}, now {value}")
            raise UsageError(f"{out}: began with {other}; name another folder with out", settings=["out"])
    with disk_errors(out):
        out.mkdir(parents=True, exist_ok=True)
    write_text(path, json.dumps({**begun, **settings}, indent=1) + "\n")
