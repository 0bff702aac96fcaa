"""What `reproduce` runs: experiments made of rows, each computed once for each seed and kept.

OUT/ROW/seed-N holds what a row has computed, `result.json` last: where that is, nothing is computed again.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from allyouneed.data.corpus import require_rereadable
from allyouneed.errors import DiskError, LockedError, UsageError, UserError, is_out_of_memory
from allyouneed.experiments.scales import SCALES, Scale
from allyouneed.preparation import PreparedData
from allyouneed.publish import MANIFEST, disk_errors, read_manifest, sha256_of, write_text
from allyouneed.training.run_directory import RunDirectory, resolve_model
from allyouneed.training.trainer import Report

Figures = Mapping[str, Any]
"""Name -> value; of a row that could not be computed only FAILED -> why."""

FAILED = "failed"
PICTURES = "pictures"
"""A figure that is none: the names of the pictures NAME.png, .svg and .pdf that a row has drawn, each with
its `caption`, and the `page` beside it on which to explore it."""
RESULT, HYPOTHESES, REFERENCES = "result.json", "hypotheses.txt", "references.txt"


@dataclass(frozen=True)
class Inputs:
    """What an experiment is given; none needs all of it."""

    data: Path | None = None
    """What `prepare` has made."""
    text: Sequence[Path] = ()
    """Raw text, a sentence a line."""
    model: Path | None = None
    """A trained model, in place of data."""


@dataclass(frozen=True)
class Work:
    """What a row is computed from."""

    directory: Path
    """Of this row and this seed."""
    seed: int
    scale: Scale
    inputs: Inputs
    device: torch.device
    report: Report
    say: Callable[[str], None]


@dataclass(frozen=True)
class Row:
    """A row of a table."""

    name: str
    what: str
    """What is other than in the first row, in the table's own terms."""
    compute: Callable[[Work], Figures]
    paper: Mapping[str, float] = field(default_factory=dict)
    """The paper's figures, by the same names."""
    telling: bool = True
    """Whether it is computed for every seed; else for the first alone."""
    beside: Sequence[str] = ()
    """Rows that it is compared with; the first if none."""
    needs_text: bool = False
    """Whether it is computed from raw text, too."""


@dataclass(frozen=True)
class Experiment:
    """One of the paper's experiments."""

    name: str
    title: str
    rows: Callable[[Scale], Sequence[Row]]
    """The first is what the others are compared with, unless they say otherwise."""
    figures: Mapping[str, bool]
    """Name of a figure -> whether rows are compared by it."""
    require: Callable[[PreparedData], None] | None = None
    """Refuses data that its rows cannot be computed from; None if it needs no data."""
    derive: Callable[[Figures, Figures], Figures] = lambda figures, of_first: {}
    """More figures of a row, from its own and those of the first row with the same seed."""
    notes: Sequence[str] = ()
    """What a reader has to know."""
    scales: Mapping[str, Scale] = field(default_factory=lambda: SCALES)
    """The sizes at which it can be run, by their names."""
    takes_model: bool = False
    """Whether a trained model does in place of data."""


@dataclass(frozen=True)
class Results:
    """What is known of an experiment."""

    experiment: Experiment
    scale: Scale
    rows: Sequence[Row]
    """All of the experiment, computed or not."""
    outcomes: Mapping[str, Mapping[int, Figures]]
    """Row -> seed -> figures."""
    directory: Path
    inputs: Inputs = Inputs()

    def values(self, row: str, figure: str) -> list[float]:
        """A figure of a row for each seed that has it, in the order of the seeds."""
        found = (outcome.get(figure) for _, outcome in sorted(self.outcomes.get(row, {}).items()))
        return [float(value) for value in found if value is not None]

    def failures(self) -> dict[Path, str]:
        """Folder of a row and seed -> why it could not be computed."""
        return {
            self.directory / row / f"seed-{seed}": outcome[FAILED]
            for row, of_row in self.outcomes.items()
            for seed, outcome in of_row.items()
            if FAILED in outcome
        }


def reproduce(  # noqa: PLR0913 - what, where, how large, from what, whom to tell
    experiment: Experiment,
    out: Path,
    scale: Scale,
    device: torch.device,
    inputs: Inputs = Inputs(),
    *,
    num_seeds: int = 3,
    only: Sequence[str] = (),
    report: Report = lambda event: None,
    say: Callable[[str], None] = lambda line: None,
) -> Iterator[Results]:
    """Compute the rows of an experiment; after each, all that is known.

    A row that diverges or does not fit into memory, say, is recorded as failed, and the next one computed.
    A row that another process is computing is passed over: processes started alike share the work.

    Args:
        experiment: The experiment.
        out: The folder to work in; what it holds is not computed again.
        scale: How large.
        device: Where to compute.
        inputs: What it is computed from.
        num_seeds: Of telling rows; the others have one.
        only: Names of the rows that are wanted, those they are compared with besides; all if none.
        report: Is told every event of every training.
        say: Is told what is begun.

    Raises:
        UsageError: Data is missing or does not suit the experiment, a row is unknown, or `out` holds results
            of another scale, model or other data.
        DataError: The data has too little of what the experiment needs.
        ModelError: The data or the model is damaged.
    """
    rows = chosen_rows(experiment, scale, only)
    facts = _facts(experiment, rows, inputs)
    _require_same(out, {"experiment": experiment.name, "scale": scale.name, **facts})
    # All rows first, then the repetitions: a table that is stopped early is complete in its rows.
    plan = [(row, seed) for seed in range(1, num_seeds + 1) for row in rows if seed == 1 or row.telling]
    for number, (row, seed) in enumerate(plan, start=1):
        directory = out / row.name / f"seed-{seed}"
        if (directory / RESULT).is_file():
            continue
        which = f"row {number} of {len(plan)}: {row.name}, seed {seed}"
        try:
            with RunDirectory(directory).locked():
                if (directory / RESULT).is_file():
                    continue
                say(which)
                figures = _figures(row, Work(directory, seed, scale, inputs, device, report, say))
                write_text(directory / RESULT, json.dumps(figures, indent=1) + "\n")
        except LockedError:
            say(f"{which}: left to another process, which is computing it")
            continue
        yield read_results(experiment, out, scale, inputs)
    yield read_results(experiment, out, scale, inputs)


def chosen_rows(experiment: Experiment, scale: Scale, only: Sequence[str]) -> list[Row]:
    """The rows that are wanted and those they are compared with, in the experiment's order, the first always.

    Raises:
        UsageError: There is no row of a name.
    """
    rows = list(experiment.rows(scale))
    if unknown := sorted(set(only) - {row.name for row in rows}):
        names = ", ".join(row.name for row in rows)
        raise UsageError(f"--rows {' '.join(unknown)}: reproduce {experiment.name} has the rows {names}")
    wanted = {name for row in rows if row.name in only for name in (row.name, *row.beside)}
    return [row for row in rows if not only or row.name in wanted or row is rows[0]]


def read_results(experiment: Experiment, out: Path, scale: Scale, inputs: Inputs = Inputs()) -> Results:
    """What has been computed so far, by whatever calls."""
    rows = experiment.rows(scale)
    kept: dict[str, dict[int, dict[str, Any]]] = {}
    for row in rows:
        for path in sorted((out / row.name).glob(f"seed-*/{RESULT}")):
            seed = int(path.parent.name.removeprefix("seed-"))
            kept.setdefault(row.name, {})[seed] = json.loads(path.read_bytes())
    first = kept.get(rows[0].name, {})
    outcomes = {
        row: {seed: {**own, **experiment.derive(own, first.get(seed, {}))} for seed, own in of_row.items()}
        for row, of_row in kept.items()
    }
    return Results(experiment, scale, rows, outcomes, out, inputs)


def _figures(row: Row, work: Work) -> Figures:
    """What the row computes, or why it cannot be computed."""
    try:
        return row.compute(work)
    except (DiskError, LockedError):
        raise  # of this moment, not of the row
    except Exception as error:
        if not isinstance(error, UserError) and not is_out_of_memory(error):
            raise
        why = str(error).partition("\n")[0] or "there is not enough memory"
        work.say(f"failed: {why}")
        return {FAILED: why}


def _facts(experiment: Experiment, rows: Sequence[Row], inputs: Inputs) -> dict[str, Any]:
    """What identifies the inputs, once they are known to suit the experiment."""
    if inputs.model is None:
        of_data = _facts_of_data(experiment, inputs.data)
        return {"data": of_data, "model": None, **_facts_of_text(rows, inputs.text)}
    if not experiment.takes_model or inputs.data is not None:
        instead = "give it or --data" if experiment.takes_model else "give --data"
        raise UsageError(f"--model {inputs.model}: reproduce {experiment.name} has no use for it; {instead}")
    directory = resolve_model(inputs.model)
    read_manifest(directory, "model")  # what is none is refused before anything is computed
    return {"data": None, "model": sha256_of(directory / MANIFEST)}


def _facts_of_data(experiment: Experiment, data: Path | None) -> dict[str, str] | None:
    """What identifies the data; None if none is needed."""
    if experiment.require is None:
        return None
    if data is None:
        remedy = ", or a model with --model MODEL" if experiment.takes_model else ""
        raise UsageError(
            f"reproduce {experiment.name}: trains models; name prepared data with --data DATA{remedy}"
        )
    prepared = PreparedData(data)
    experiment.require(prepared)
    return prepared.facts


def _facts_of_text(rows: Sequence[Row], text: Sequence[Path]) -> dict[str, list[str]]:
    """What identifies the raw text; nothing where no row needs any."""
    needed_by = [row.name for row in rows if row.needs_text]
    if needed_by and not text:
        raise UsageError(
            f"{' '.join(needed_by)}: parses raw text; name some with --text FILE, or other rows with --rows"
        )
    if text and not needed_by:
        raise UsageError("--text: no row needs raw text; leave it out")
    require_rereadable(text)
    return {"text": [sha256_of(file) for file in text]} if text else {}


def _require_same(out: Path, settings: Mapping[str, Any]) -> None:
    """Refuse to mix results of different scales, data or models; say in `experiment.json` which these are."""
    path = out / "experiment.json"
    begun = json.loads(path.read_bytes()) if path.is_file() else {}
    for name, value in settings.items():
        if begun.get(name, value) != value:
            named = {"data": "other data", "text": "other text", "model": "another model"}
            other = named.get(name, f"{name} {begun[name]}, now {value}")
            raise UsageError(f"{out}: began with {other}; name another folder with --out")
    with disk_errors(out):
        out.mkdir(parents=True, exist_ok=True)
    write_text(path, json.dumps({**begun, **settings}, indent=1) + "\n")
