"""The parts of an experiment: its rows, their inputs, and their results."""

from collections.abc import Callable, Mapping, Sequence
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
"""Key of a row built from other rows: name of each -> sha256 of its result. `made_of.json` in
the row's folder records the same when the row starts."""
PROCESSOR, DATE = "processor", "date"
"""Keys of the machine that has computed a row, and of the day on which it did."""
PICTURES = "pictures"
"""Key of the pictures that a row has drawn: NAME (of NAME.png, .svg and .pdf) -> its `caption`, and the
interactive `page` beside it."""
AVERAGED = "_averaged"
"""End of the names of figures of averaged checkpoints, in tables of the last checkpoint, whose figures in the
paper they are compared with."""
CURVE = "curve"
"""Key of how a row's model learned: `step`, `seconds`, `matmul_flops`, `perplexity`, and the score of the
task -> values in order."""
RATES = "rates"
"""Key of the runs that a row was chosen from: factor of the learning rate -> perplexity and curve."""
RESULT, HYPOTHESES, REFERENCES = "result.json", "hypotheses.txt", "references.txt"
LOSSES = "losses.tsv"
"""Per sentence: sum of the losses of its target tokens in nats, TAB, number of these tokens."""


def kept_file(name: str, suffix: str) -> Path:
    """Name of a file that a row keeps for a part of the test set, such as `hypotheses_21_30.txt`."""
    return Path(name).with_stem(Path(name).stem + suffix)


class WeightsMissingError(UsageError):
    """A row needs the weights of another, which was taken up without them; others can be computed."""


class RowError(UserError):
    """A row cannot be computed, for a reason that is recorded in its result (exit code 9)."""

    exit_code = SOME_FAILED_EXIT_CODE
    default_label = "E-ROW"


@dataclass(frozen=True)
class Inputs:
    """The inputs of an experiment; no experiment needs all of them."""

    data: Path | None = None
    """Prepared data, the output of `prepare`."""
    text: Sequence[Path] = ()
    """Raw text files, one sentence per line."""
    model: Path | None = None
    """A trained model, used instead of data."""
    test: Mapping[str, Path] = field(default_factory=dict)
    """A test set: setting -> file; empty to score on the validation text."""
    silver: Path | None = None
    """Silver trees: those that another parser made of raw text."""


NOTHING_GIVEN = Inputs()


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
    """How the row differs from the first one, in the table's own terms."""
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
    """Whether the row also needs silver trees; if there are none, it is left out unless it is named."""
    data_settings: Mapping[str, str] = field(default_factory=dict)
    """Settings that the prepared data must have; if it has others, the row is left out unless it is named."""
    made_of: Sequence[str] = ()
    """Rows whose results with the same seed this one is built from; when one changes, it is recomputed."""
    same: Sequence[str] = ()
    """Names of the paper's other rows that have the same configuration at this scale."""

    def compared_with(self, first: "Row") -> Sequence[str]:
        """Names of this row's baselines, in an experiment whose first row is `first`."""
        if self.baselines is not None:
            return self.baselines
        return () if self.name == first.name or not self.needs_data else (first.name,)


@dataclass(frozen=True)
class Experiment:
    """One of the paper's experiments."""

    name: str
    title: str
    rows: Callable[[Scale], Sequence[Row]]
    """The rows at a scale; the first is the baseline of the others, unless they name their own."""
    figures: Mapping[str, bool]
    """Name of a figure -> whether rows are compared by it."""
    require: Callable[[PreparedData], None] | None = None
    """Rejects unsuitable data; None if the experiment needs no data."""
    derive: Callable[[Figures, Figures], Figures] = lambda figures, of_first: {}
    """Further figures of a row, derived from its own and from the first row's with the same seed."""
    notes: Sequence[str] = ()
    """Notes for readers of the results. One that names rows in backticks is about the first of them, and is
    shown once that has been computed."""
    scales: Mapping[str, Scale] = field(default_factory=lambda: SCALES)
    """Name -> scale, for each scale that the experiment supports."""
    test_settings: Sequence[str] = ()
    """Settings that name the files of a test set, if the paper's figures are on one."""
    draws_pictures: bool = False
    """Whether rows draw pictures, so that they cannot be kept as small files."""
    takes_model: bool = False
    """Whether a trained model can be given instead of data."""
    num_seeds: int = 3
    """Default number of seeds for rows that are computed for every seed."""
    timed: Sequence[str] = ()
    """Figures of speed: compared only between rows computed on the same kind of machine as the first one."""
    revision: int = 1
    """Raised when rows that were computed before cannot stand beside those computed now."""
    settings: Callable[[Scale], Sequence[str]] = Scale.changes
    """Notable settings at a scale, in words; by default those that differ from the paper's."""
    verdict: Callable[["Results", str], str] = lambda results, counted: counted
    """What the results say, in a sentence, from them and from the sentence that counts the rows that stand as
    in the paper; by default the latter."""

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
    inputs: Inputs = NOTHING_GIVEN
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
