"""Lists the experiments, and computes their rows, once per row and seed, and keeps the results.

OUT/ROW/seed-N holds the output of a row. `result.json` is written last; where it exists, the row is done.
"""

import contextlib
import json
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch

from allyouneed.errors import (
    DivergedError,
    LockedError,
    ResourceError,
    UsageError,
    duration,
    is_out_of_memory,
)
from allyouneed.hardware.machine import machine_kind
from allyouneed.lab.paper.blockwise import BLOCKWISE
from allyouneed.lab.paper.experiment import (
    DATE,
    FAILED,
    MADE_OF,
    NO_INPUTS,
    PROCESSOR,
    RESULT,
    Draw,
    Experiment,
    Figures,
    Inputs,
    Reporter,
    Results,
    Row,
    RowError,
    WeightsMissingError,
    Work,
)
from allyouneed.lab.paper.extrapolation import EXTRAPOLATION
from allyouneed.lab.paper.figures import FIGURES_3_TO_5
from allyouneed.lab.paper.identity import (
    EXPERIMENT,
    identity,
    identity_of_scale,
    other_settings,
    read_json,
    require_same,
)
from allyouneed.lab.paper.kept_rows import find_kept, keep_rows, require_keepable, rows_in, take_up
from allyouneed.lab.paper.long import LONG
from allyouneed.lab.paper.paths import PATHS
from allyouneed.lab.paper.scales import Scale
from allyouneed.lab.paper.scaling import SCALING
from allyouneed.lab.paper.table1 import TABLE1
from allyouneed.lab.paper.table2 import TABLE2, TABLE2_EN_FR
from allyouneed.lab.paper.table3 import TABLE3
from allyouneed.lab.paper.table4 import TABLE4
from allyouneed.lab.paper.table4_grammar import TABLE4_GRAMMAR
from allyouneed.lab.paper.variants import AOP, VARIANTS
from allyouneed.preparation.prepared_data import PreparedData
from allyouneed.storage.publish import sha256_of, write_text
from allyouneed.storage.run_directory import RunDirectory

_ALL = (
    *(TABLE1, PATHS, TABLE2, TABLE2_EN_FR, TABLE3, TABLE4, TABLE4_GRAMMAR),
    *(AOP, SCALING, EXTRAPOLATION, LONG, VARIANTS, BLOCKWISE, FIGURES_3_TO_5),
)
EXPERIMENTS = {experiment.name: experiment for experiment in _ALL}
"""Command-line name -> experiment, in the order of the index of results. Write a new one like `table3.py`."""
_OF_THE_ROW = (DivergedError, ResourceError, RowError)
"""Errors that are recorded in the row's result; any other ends the experiment."""


class _PartMissingError(Exception):
    """Rows that a row is made of have no result; the message names them."""


def reproduce(  # noqa: PLR0913 - what, where, how large, from what, whom to tell
    experiment: Experiment,
    out: Path,
    scale: Scale,
    device: torch.device,
    inputs: Inputs = NO_INPUTS,
    *,
    num_seeds: int | None = None,
    only: Sequence[str] = (),
    taken_from: Path | None = None,
    keep: Path | None = None,
    reporter: Reporter = lambda run: contextlib.nullcontext(lambda event: None),
    draw: Draw = lambda attention, selection, path: None,
    say: Callable[[str], None] = lambda line: None,
) -> Iterator[Results]:
    """Compute the rows of an experiment; yield all results so far after each row.

    If a row diverges or runs out of memory, it is recorded as failed, and the next one is computed. Rows that
    another process is computing are skipped, so several processes can share the work.

    Args:
        experiment: The experiment.
        out: The folder to work in; rows that are done there are not computed again.
        scale: The scale to run at.
        device: Device to compute on.
        inputs: The inputs of the experiment.
        num_seeds: Number of seeds for rows that take every seed; by default the experiment's.
        only: Names of the rows to compute, along with their baselines; if empty, all rows.
        taken_from: Folder of kept rows to take up in place of inputs that are not given.
        keep: Folder to keep finished rows in.
        reporter: Provides the receiver of a run's training events.
        draw: Draws pictures of attention.
        say: Receives a message as each row starts.

    Raises:
        UsageError: Data is missing or does not suit the experiment, a row is unknown, `out` holds results
            for another scale, model or data, or, when all others are computed, a row needs missing weights.
        UserError: The inputs are damaged or too small, or a row raised an error that it did not cause.
    """
    rows = [row for row in chosen_rows(experiment, scale, only) if only or _suits(row, inputs)]
    can_compute = _begin(experiment, out, scale, rows, inputs, taken_from, keep)
    seeds = range(1, (num_seeds or experiment.num_seeds) + 1) if can_compute else ()
    # All rows with the first seed, then the repetitions: a run that is stopped early has every row.
    plan = [(row, seed) for seed in seeds for row in rows if seed == 1 or row.every_seed]
    if plan and num_seeds not in (None, 1) and len(plan) == len(rows):
        say(f"NOTICE: {num_seeds} seeds are asked for, but each of these rows is computed once")
    time_left, missing = _time_left([out / row.name / f"seed-{seed}" for row, seed in plan]), None
    for number, (row, seed) in enumerate(plan, start=1):
        work = Work(out / row.name / f"seed-{seed}", seed, scale, inputs, device, reporter, draw, say)
        try:
            if not _compute(row, work, f"{number} of {len(plan)}", time_left):
                continue
        except WeightsMissingError as error:
            missing = error
            continue
        yield _kept_results(experiment, out, scale, inputs, keep)
    yield _kept_results(experiment, out, scale, inputs, keep)
    if missing is not None:
        raise missing


def _compute(row: Row, work: Work, number: str, time_left: Callable[[], str]) -> bool:
    """Compute a row and keep its result; return whether it was done here and now."""
    if _is_computed(row, work.directory):
        return False
    which = f"row {number}: {row.name}, seed {work.seed}"
    try:
        with RunDirectory(work.directory).locked():
            if _is_computed(row, work.directory):
                return False
            work.say(which + time_left())
            figures = _figures(row, work)
            write_text(work.directory / RESULT, json.dumps(figures, indent=1) + "\n")
    except _PartMissingError as error:
        work.say(f"{which}: not computed, as {error} is not yet; repeat the command then")
        return False
    except LockedError:
        work.say(f"{which}: left to another process, which is computing it")
        return False
    return True


def _begin(
    experiment: Experiment,
    out: Path,
    scale: Scale,
    rows: Sequence[Row],
    inputs: Inputs,
    taken_from: Path | None,
    keep: Path | None,
) -> bool:
    """Check the facts of `out`, and take up kept rows; return whether the inputs suffice for others."""
    can_compute = taken_from is None or inputs != NO_INPUTS or experiment.require is None
    facts = identity_of_scale(experiment, scale)
    if can_compute:
        facts = identity(experiment, scale, rows, inputs)
    if taken_from is not None:
        place, kept = find_kept(facts, out, taken_from)
        facts = {**kept, **facts}
        if not can_compute and not rows_in(place):
            raise UsageError(
                f"{place}: has no finished rows; name another folder with from", settings=["from"]
            )
    require_same(out, facts)
    if keep is not None:
        require_keepable(experiment, out, keep, facts)
    if taken_from is not None:
        take_up(experiment, out, place)
    return can_compute


def _suits(row: Row, inputs: Inputs) -> bool:
    """Whether a row that is not named can be computed from the inputs."""
    if row.data_settings and inputs.data is not None and other_settings(row, PreparedData(inputs.data)):
        return False
    return inputs.silver is not None or not row.needs_silver


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


def _kept_results(
    experiment: Experiment, out: Path, scale: Scale, inputs: Inputs, keep: Path | None
) -> Results:
    """All results in `out` so far, which are kept first if there is a folder for that."""
    if keep is not None:
        keep_rows(experiment, scale, out, keep)
    return read_results(experiment, out, scale, inputs)


def read_results(experiment: Experiment, out: Path, scale: Scale, inputs: Inputs = NO_INPUTS) -> Results:
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
    _forget_other_machines(experiment, first, kept)
    outcomes = {
        row: {seed: {**own, **experiment.derive(own, first.get(seed, {}))} for seed, own in of_row.items()}
        for row, of_row in kept.items()
    }
    begun = read_json(out / EXPERIMENT) if (out / EXPERIMENT).is_file() else {}
    return Results(experiment, scale, rows, outcomes, out, inputs, bool(begun.get("test")))


def _forget_other_machines(
    experiment: Experiment, first: Mapping[int, Figures], kept: Mapping[str, Mapping[int, dict[str, Any]]]
) -> None:
    """Drop figures of speed of other kinds of machines than the first row's first seed."""
    names = PROCESSOR, "precision"
    of_first = next(
        (
            [figures.get(name) for name in names]
            for _, figures in sorted(first.items())
            if FAILED not in figures
        ),
        None,
    )
    for figures in (figures for of_row in kept.values() for figures in of_row.values()):
        if of_first and [figures.get(name) for name in names] != of_first:
            for name in experiment.timed:
                figures.pop(name, None)


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
    """The figures of the row, or the reason why it failed."""
    parts = _hashes_of_parts(row, work.directory)
    made_of = {MADE_OF: parts} if parts else {}
    where = {PROCESSOR: machine_kind(work.device), DATE: f"{datetime.now(UTC):%Y-%m-%d}"}
    if missing := set(row.made_of) - set(parts):
        raise _PartMissingError(", ".join(sorted(missing)))
    if parts:
        _forget_what_was_made_of_others(work.directory, parts)
    try:
        return {**row.compute(work), **made_of, **where}
    except Exception as error:
        if not isinstance(error, _OF_THE_ROW) and not is_out_of_memory(error):
            raise
        why = str(error).partition("\n")[0] or "there is not enough memory"
        work.say(f"failed: {why}")
        return {FAILED: why, **made_of, **where}


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
        return f", {duration(seconds)} left in all"

    return left
