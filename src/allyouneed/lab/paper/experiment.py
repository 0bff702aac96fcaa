"""The parts of an experiment: its figures, rows, inputs and results."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from allyouneed.errors import SOME_FAILED_EXIT_CODE, UsageError, UserError
from allyouneed.lab.paper.scales import SCALES, Scale
from allyouneed.preparation.prepared_data import PreparedData
from allyouneed.tasks.attention_maps import Attention, Selection
from allyouneed.training.trainer import Report

Figures = Mapping[str, Any]
"""Name -> value; a row that could not be computed has FAILED -> reason in place of its figures."""

FAILED = "failed"
MADE_OF = "made_of"
"""Key of a row built from other rows: name -> sha256 of its result; also in `made_of.json` from the start."""
PROCESSOR, DATE = "processor", "date"
"""Keys of the machine and the day that a row was computed on."""
PICTURES = "pictures"
"""Key of a row's pictures: NAME (of NAME.png, .svg and .pdf) -> `caption` and interactive `page`."""
AVERAGED = "_averaged"
"""Suffix of figures of averaged checkpoints; they are compared with the paper's of the last checkpoint."""
CURVE = "curve"
"""Key of the learning curve: `step`, `seconds`, `matmul_flops`, `perplexity`, score of the task -> values."""
RATES = "rates"
"""Key of the runs that a row was chosen from: factor of the learning rate -> perplexity and curve."""
RESULT, HYPOTHESES, REFERENCES = "result.json", "hypotheses.txt", "references.txt"


def kept_file(name: str, suffix: str) -> str:
    """Name of a file of a row for a part of the test set, such as `hypotheses_21_30.txt`."""
    return str(Path(name).with_stem(Path(name).stem + suffix))


class WeightsMissingError(UsageError):
    """A row needs the weights of another row, which was kept without them."""


class RowError(UserError):
    """A row cannot be computed, for a reason that is recorded in its result (exit code 9)."""

    exit_code = SOME_FAILED_EXIT_CODE
    default_label = "E-ROW"


@dataclass(frozen=True)
class Inputs:
    """The inputs of an experiment."""

    data: Path | None = None
    """Prepared data, the output of `prepare`."""
    text: Sequence[Path] = ()
    """Raw text files, one sentence per line."""
    model: Path | None = None
    """A trained model, used instead of data."""
    test: Mapping[str, Path] = field(default_factory=dict)
    """Files of a test set by setting; empty to score on the validation text."""
    silver: Path | None = None
    """Trees that another parser made of raw text."""


NO_INPUTS = Inputs()

Reporter = Callable[[Path], AbstractContextManager[Report]]
"""Run -> context manager that yields the receiver of its training events."""
Draw = Callable[[Attention, Selection, Path], None]
"""Draws the selected part of an attention. The path has no suffix; each file format adds its own."""


@dataclass(frozen=True)
class Work:
    """Everything that a row needs to be computed with one seed."""

    directory: Path
    """Folder of this row and seed."""
    seed: int
    scale: Scale
    inputs: Inputs
    device: torch.device
    reporter: Reporter
    draw: Draw
    say: Callable[[str], None]

    @property
    def data(self) -> Path:
        """The given prepared data."""
        assert self.inputs.data is not None
        return self.inputs.data

    def beside(self, row: str) -> Path:
        """Folder of another row with the same seed."""
        return self.directory.parents[1] / row / self.directory.name


@dataclass(frozen=True)
class Row:
    """A row of a table."""

    name: str
    what: str
    """Difference from the first row, in the table's own terms."""
    compute: Callable[[Work], Figures]
    paper: Mapping[str, float] = field(default_factory=dict)
    """The paper's figures, under the same names."""
    every_seed: bool = True
    """Whether the row is computed for every seed, or only for the first."""
    baselines: Sequence[str] | None = None
    """Rows that this one is compared with, possibly none; by default the first row."""
    needs_data: bool = True
    """Whether the row uses the experiment's data; a row that does not has no baseline by default."""
    needs_text: bool = False
    """Whether the row also needs raw text."""
    needs_silver: bool = False
    """Whether the row also needs silver trees; without them, it is left out unless it is named."""
    data_settings: Mapping[str, str] = field(default_factory=dict)
    """Settings that the data must have; with others, the row is left out unless it is named."""
    made_of: Sequence[str] = ()
    """Rows that this one is built from, seed by seed; it is recomputed when one of them changes."""
    same: Sequence[str] = ()
    """Names of the paper's other rows that have the same configuration at this scale."""

    def compared_with(self, first: "Row") -> Sequence[str]:
        """Names of this row's baselines, in an experiment whose first row is `first`."""
        if self.baselines is not None:
            return self.baselines
        return () if self.name == first.name or not self.needs_data else (first.name,)


@dataclass(frozen=True)
class Figure:
    """A figure in the tables of an experiment."""

    title: str
    meaning: str = ""
    """Explanation for readers; empty if it is explained with another figure."""
    judged: bool = False
    """Whether rows are compared by it."""

    def of_part(self, part: str, *, judged: bool | None = None) -> "Figure":
        """The same figure of a part, such as the validation text; by default judged if this one is."""
        return Figure(f"{self.title}, {part}", judged=self.judged if judged is None else judged)


@dataclass(frozen=True)
class Experiment:
    """One of the paper's experiments."""

    name: str
    title: str
    rows: Callable[[Scale], Sequence[Row]]
    """The rows at a scale; the first is the baseline of the others, unless they name their own."""
    figures: Mapping[str, Figure]
    """Name -> figure, in the order of the columns."""
    require: Callable[[PreparedData], None] | None = None
    """Rejects unsuitable data; None if the experiment needs no data."""
    derive: Callable[[Figures, Figures], Figures] = lambda figures, of_first: {}
    """Further figures of a row, derived from its own and from the first row's with the same seed."""
    notes: Sequence[str] = ()
    """Notes for readers; one that names rows in backticks is shown once the first of these is computed."""
    scales: Mapping[str, Scale] = field(default_factory=lambda: SCALES)
    """Name -> scale, for each scale that the experiment supports."""
    test_settings: Sequence[str] = ()
    """Settings that name the files of a test set, if the paper's figures are on one."""
    draws_pictures: bool = False
    """Whether rows draw pictures, which are not kept."""
    takes_model: bool = False
    """Whether a trained model can be given instead of data."""
    num_seeds: int = 3
    """Default number of seeds for rows that are computed for every seed."""
    timed: Sequence[str] = ()
    """Figures of speed; they count only for rows of the same kind of machine as the first row."""
    revision: int = 1
    """Number of the definition; results of different revisions are not mixed."""
    settings: Callable[[Scale], Sequence[str]] = Scale.changes
    """Notable settings at a scale, in words; by default those that differ from the paper's."""
    verdict: Callable[["Results", str], str] = lambda results, counted: counted
    """The results in a sentence, from them and from the sentence that counts the decided rows."""
    sections: Callable[["Results"], Iterator[str]] | None = None
    """Sections that only this experiment's page has, as HTML."""
    sections_first: bool = False
    """Whether these say more than the table of all figures, and come before it."""

    @property
    def judged(self) -> list[str]:
        """Names of the figures by which rows are compared."""
        return [name for name, figure in self.figures.items() if figure.judged]

    def scale(self, name: str) -> Scale:
        """The scale of this name.

        Raises:
            UsageError: The experiment does not support it.
        """
        if name not in self.scales:
            raise UsageError(
                f"scale {name}: {self.name} has these: {', '.join(self.scales)}", settings=["scale"]
            )
        return self.scales[name]


@dataclass(frozen=True)
class Results:
    """The results of an experiment so far."""

    experiment: Experiment
    scale: Scale
    rows: Sequence[Row]
    """All rows of the experiment, computed or not."""
    outcomes: Mapping[str, Mapping[int, Figures]]
    """Row -> seed -> figures."""
    directory: Path
    inputs: Inputs = NO_INPUTS
    tested: bool = False
    """Whether rows are scored on a test set, not on the validation text."""

    def values(self, row: str, figure: str) -> list[float]:
        """The values of a figure of a row, in the order of the seeds; seeds without it are left out."""
        return [*self.by_seed(row, figure).values()]

    def by_seed(self, row: str, figure: str) -> dict[int, float]:
        """Seed -> value of a figure of a row, in the order of the seeds; seeds without it are left out."""
        found = {seed: outcome.get(figure) for seed, outcome in sorted(self.outcomes.get(row, {}).items())}
        return {seed: float(value) for seed, value in found.items() if value is not None}

    def failures(self) -> dict[Path, str]:
        """Folder of a failed row and seed -> reason."""
        return {
            self.directory / row / f"seed-{seed}": outcome[FAILED]
            for row, of_row in self.outcomes.items()
            for seed, outcome in of_row.items()
            if FAILED in outcome
        }
