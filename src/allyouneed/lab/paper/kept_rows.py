"""Finished rows as small files, so that a table can be computed piece by piece, on several machines.

A folder of kept rows is laid out like the folder of an experiment: FOLDER/NAME/experiment.json says what the
rows are of, and FOLDER/NAME/ROW/seed-N holds the result of a row and the counts of each sentence, from which
it can be compared. Outputs and references are left out: corpora must not be redistributed with results.
"""

import contextlib
import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from allyouneed.errors import DataError, LockedError, UsageError
from allyouneed.lab.paper.experiment import (
    CURVE,
    DATE,
    FAILED,
    MADE_OF,
    PICTURES,
    PROCESSOR,
    RATES,
    RESULT,
    Experiment,
)
from allyouneed.lab.paper.identity import (
    EXPERIMENT,
    OTHER_INPUTS,
    OTHER_REVISION,
    read_facts,
    read_json,
    require_same,
)
from allyouneed.lab.paper.scales import Scale
from allyouneed.lab.statistics.figure_tests import COUNTS, find_test, read_counts
from allyouneed.storage.publish import discard, disk_errors, replaced_file, sha256_of
from allyouneed.storage.run_directory import RunDirectory
from allyouneed.tasks.catalogue import TASKS

_NAMED_BY = "experiment", "scale"
"""Facts by which kept rows are found."""
_FAULTS = (
    *(EOFError, RecursionError, MemoryError),
    *(LookupError, ValueError, TypeError, AttributeError, OverflowError),
)
"""Exceptions of reading a damaged or hostile file."""
_COSTS = {"seconds", "matmul_flops", "formula_flops", "energy_joules"}
_TOLERANCE = 0.01
"""By how much a kept score may differ from that of the kept counts, as losses are rounded."""
_LOG_OF_HUGE = 700.0
_MADE_FROM = "model", "rate-*/model", "silver"
"""Folders of a row that other rows are made from."""
_TEXTS = {PROCESSOR, DATE, "precision", "device"}


def require_keepable(experiment: Experiment, out: Path, folder: Path, facts: Mapping[str, Any]) -> None:
    """Check that rows of an experiment can be kept in `folder`.

    Raises:
        UsageError: Its rows draw pictures, or `folder` has rows of other settings or data under this name.
    """
    if experiment.draws_pictures:
        raise UsageError(
            f"reproduce {experiment.name}: draws pictures, which are not kept; leave out keep",
            settings=["keep"],
        )
    require_same(folder / _name(out), facts, "keep")


def keep_rows(experiment: Experiment, scale: Scale, out: Path, folder: Path) -> list[Path]:
    """Keep the finished rows in `out` that `folder` does not have yet; return their new folders.

    Rows that failed are not kept, as they may not fail elsewhere; nor are rows that were made of others than
    those in `folder`.

    Raises:
        DataError: A file of a row is damaged.
    """
    place, written = folder / _name(out), list[Path]()
    names = [row.name for row in experiment.rows(scale)]
    found = [result for name in names for result in sorted((out / name).glob(f"seed-*/{RESULT}"))]
    for result in sorted(found, key=lambda result: MADE_OF in read_json(result)):  # the others come first
        figures, kept = read_json(result), place / result.parent.relative_to(out)
        are_there = _are_in(place, kept.name, figures.get(MADE_OF, {}))
        if (kept / RESULT).is_file() or FAILED in figures or not are_there:
            continue
        with disk_errors(kept):
            kept.mkdir(parents=True, exist_ok=True)
        _write(kept, _files(result.parent))
        written.append(kept)
    return written


def find_kept(facts: Mapping[str, Any], out: Path, folder: Path) -> tuple[Path, dict[str, Any]]:
    """Find the kept rows of an experiment and scale in `folder`; return their folder and shared facts.

    Of several, those are chosen whose other facts fit, and of these, those under the name of `out`.

    Raises:
        UsageError: There are none, or they are of other settings or inputs, or several fit.
        DataError: None fit, and a record is damaged.
    """
    found, damaged = _records(folder)
    named = " ".join(str(facts[name]) for name in _NAMED_BY)
    kept = {
        place: of for place, of in found.items() if all(of.get(name) == facts[name] for name in _NAMED_BY)
    }
    faults = {place: _other_facts(of, facts) for place, of in kept.items()}
    fitting = [place for place, fault in faults.items() if not fault]
    if damaged and not fitting:
        raise damaged[0]
    if not kept:
        there = sorted({" ".join(str(of.get(name)) for name in _NAMED_BY) for of in found.values()})
        told = f", only of {', '.join(there)}" if there else ""
        raise UsageError(
            f"{folder}: has no kept rows of {named}{told}; name another folder with from", settings=["from"]
        )
    if not fitting:
        raise UsageError(
            [f"{place}: has rows of {fault}" for place, fault in faults.items()], settings=["from"]
        )
    [place, *others] = [place for place in fitting if place.name == _name(out)] or fitting
    if others:
        raise UsageError(
            f"{' and '.join(map(str, [place, *others]))}: have rows of {named}; name one of them with from",
            settings=["from"],
        )
    return place, kept[place]


def _records(folder: Path) -> tuple[dict[Path, dict[str, Any]], list[DataError]]:
    """The facts of the rows in each folder, and the faults of records that are damaged."""
    found, damaged = dict[Path, dict[str, Any]](), list[DataError]()
    for record in sorted([*folder.glob(EXPERIMENT), *folder.glob(f"*/{EXPERIMENT}")]):
        try:
            found[record.parent] = read_facts(record)
        except DataError as error:
            damaged.append(error)
    return found, damaged


def _other_facts(kept: Mapping[str, Any], facts: Mapping[str, Any]) -> str:
    """The first difference of kept rows from the facts, with what to do about it; empty if there is none."""
    for name, value in facts.items():
        if kept.get(name, value if name in OTHER_INPUTS else None) != value:
            if name in OTHER_INPUTS:
                return f"{OTHER_INPUTS[name]}; give theirs, or leave out from"
            told = OTHER_REVISION if name == "revision" else "other settings"
            return f"{told}; name another folder with from"
    return ""


def rows_in(place: Path) -> list[Path]:
    """The results of the rows kept in `place`."""
    return sorted(place.glob(f"*/seed-*/{RESULT}"))


def take_up(experiment: Experiment, out: Path, place: Path) -> None:
    """Copy the rows kept in `place` that `out` does not have, unless another process is computing them.

    A row made of others is taken up if it was made of the results in `out`.

    Raises:
        DataError: A kept row is damaged.
    """
    waiting: list[tuple[Path, dict[str, bytes], dict[str, str]]] = []
    for kept in rows_in(place):
        row = out / kept.parent.relative_to(place)
        if not (row / RESULT).is_file():
            contents = _contents(kept, experiment)
            waiting.append((row, contents, json.loads(contents[RESULT]).get(MADE_OF, {})))
    for row, contents, made_of in sorted(waiting, key=lambda of_row: bool(of_row[2])):
        if not _are_in(out, row.name, made_of):
            continue
        with contextlib.suppress(LockedError), RunDirectory(row).locked():
            if (row / RESULT).is_file():
                continue
            _forget_leftovers(row)
            if made_of:
                contents[f"{MADE_OF}.json"] = f"{json.dumps(made_of)}\n".encode()
            _write(row, contents)


def _forget_leftovers(row: Path) -> None:
    """Remove the counts and models of an interrupted computation, which would count as the kept row's."""
    for pattern in _MADE_FROM:
        for folder in row.glob(pattern):
            discard(folder)
    with disk_errors(row):
        (row / COUNTS).unlink(missing_ok=True)


def _name(out: Path) -> str:
    return out.resolve().name


def _are_in(place: Path, seed: str, parts: Mapping[str, str]) -> bool:
    """Whether the results of these rows with a seed are in `place`, with these sha256."""
    results = {place / name / seed / RESULT: sha256 for name, sha256 in parts.items()}
    return all(result.is_file() and sha256_of(result) == sha256 for result, sha256 in results.items())


def _write(row: Path, contents: Mapping[str, bytes]) -> None:
    for name in sorted(contents, key=lambda name: name == RESULT):  # it says that the row is done
        with replaced_file(row / name) as aside:
            aside.write_bytes(contents[name])


def _files(row: Path) -> dict[str, bytes]:
    """Name -> content of what is kept of a row and seed."""
    with disk_errors(row):
        return {name: (row / name).read_bytes() for name in (RESULT, COUNTS) if (row / name).is_file()}


def _contents(result: Path, experiment: Experiment) -> dict[str, bytes]:
    """Name -> content of the files of a kept row, checked."""
    found = _files(result.parent)
    try:
        _check(json.loads(found[RESULT]), found, experiment)
    except _FAULTS:
        raise DataError(
            f"{result.parent}: is damaged; restore it, or remove it to compute the row again"
        ) from None
    return found


def _check(result: Any, found: Mapping[str, bytes], experiment: Experiment) -> None:
    """Raise one of `_FAULTS` unless figures, texts, curves, rates and counts are such as a row writes."""
    _require(isinstance(result, dict) and not {PICTURES, FAILED} & result.keys())
    _require(any(name in experiment.figures for name in result))
    for name, value in result.items():
        if name in experiment.figures or name in _COSTS:
            _require(value is None or value == "inf" or _is_number(value))  # JSON has no infinity
        elif name in _TEXTS:
            _require(isinstance(value, str))
    made_of, rates = result.get(MADE_OF, {}), result.get(RATES, {})
    _require(all(isinstance(named, dict) for named in (made_of, rates)))
    _require(all(isinstance(sha256, str) for sha256 in made_of.values()))
    for curve in [of_rate[CURVE] for of_rate in rates.values() if FAILED not in of_rate] + (
        [result[CURVE]] if CURVE in result else []
    ):
        scores = [task.score for task in TASKS.values() if task.score in curve]
        columns = [curve[name] for name in ("step", "seconds", "matmul_flops", "perplexity", *scores)]
        _require(all(len(column) == len(columns[0]) and all(map(_is_number, column)) for column in columns))
    for figure, counts in read_counts(found[COUNTS]).items() if COUNTS in found else ():
        if figure in result and (test := find_test(figure)):
            found_score, of_counts = test.scale(result[figure]), test.score(counts.sum(axis=0))
            is_huge = found_score == math.inf and of_counts > _LOG_OF_HUGE  # a perplexity that overflows
            _require(is_huge or math.isclose(found_score, of_counts, abs_tol=_TOLERANCE))


def _require(is_so: bool) -> None:
    if not is_so:
        raise ValueError("not such as a row writes it")


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and not math.isnan(value)
