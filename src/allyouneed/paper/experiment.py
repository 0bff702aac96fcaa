"""What an experiment of the paper is: rows, what they are computed from, and what is known of them."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from allyouneed.errors import SOME_FAILED_EXIT_CODE, UserError
from allyouneed.paper.scales import SCALES, Scale
from allyouneed.tasks.attention import Attention, Selection
from allyouneed.tasks.prepared_data import PreparedData
from allyouneed.training.trainer import Report

Figures = Mapping[str, Any]
"""Name -> value; of a row that could not be computed only FAILED -> why."""

FAILED = "failed"
MADE_OF = "made_of"
"""Of a row that is made of others: the name of each -> sha256 of its result. `made_of.json` in
its folder says the same from when it is begun."""
PICTURES = "pictures"
"""A figure that is none: the names of the pictures NAME.png, .svg and .pdf that a row has drawn, each with
its `caption`, and the `page` beside it on which to explore it."""
RESULT, HYPOTHESES, REFERENCES = "result.json", "hypotheses.txt", "references.txt"


class RowError(UserError):
    """A row that cannot be computed for a reason of its own, which is recorded (exit code 9)."""

    exit_code = SOME_FAILED_EXIT_CODE
    default_label = "E-ROW"


@dataclass(frozen=True)
class Inputs:
    """What an experiment is given; none needs all of it."""

    data: Path | None = None
    """What `prepare` has made."""
    text: Sequence[Path] = ()
    """Raw text, a sentence a line."""
    model: Path | None = None
    """A trained model, in place of data."""


NOTHING_GIVEN = Inputs()


Reporter = Callable[[Path], AbstractContextManager[Report]]
"""Run -> what receives the events of its training, for as long as it takes."""
Draw = Callable[[Attention, Selection, Path], None]
"""Draws what is selected of an attention, in files beside the path, which has no suffix."""


@dataclass(frozen=True)
class Work:
    """What a row is computed from."""

    directory: Path
    """Of this row and this seed."""
    seed: int
    scale: Scale
    inputs: Inputs
    device: torch.device
    reporter: Reporter
    draw: Draw
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
    every_seed: bool = True
    """Whether it is computed for every seed; else for the first alone."""
    baselines: Sequence[str] | None = None
    """Rows that it is compared with, perhaps none; by default the first."""
    needs_data: bool = True
    """Whether it is computed from the experiment's data; one that is not is compared with no other."""
    needs_text: bool = False
    """Whether it is computed from raw text, too."""
    made_of: Sequence[str] = ()
    """Rows whose results it is made of, of the same seed; it is computed anew where one of them was."""

    def compared_with(self, first: "Row") -> Sequence[str]:
        """The names of the rows beside which it stands, in an experiment whose first row is `first`."""
        if self.baselines is not None:
            return self.baselines
        return () if self.name == first.name or not self.needs_data else (first.name,)


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
    num_seeds: int = 3
    """Seeds of the rows that want every seed, unless the user says otherwise."""
    settings: Callable[[Scale], Sequence[str]] = Scale.changes
    """Settings at a scale that a reader has to know, in words; by default those that are not the paper's."""


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
    inputs: Inputs = NOTHING_GIVEN

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
