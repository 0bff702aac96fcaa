"""Table 2 (6.1): the Transformer and its rivals, each trained until the same time or FLOPs are used."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple

from allyouneed.config import RunConfig
from allyouneed.errors import LockedError
from allyouneed.experiments.experiment import FAILED, RESULT, Experiment, Row, RowError, Work
from allyouneed.experiments.reproduction import read_json
from allyouneed.experiments.scales import Scale
from allyouneed.experiments.training_rows import (
    FIGURES,
    cost_of,
    data_of,
    require_validation,
    score,
    score_validation,
    trained,
    training_row,
)
from allyouneed.loading import load_translator
from allyouneed.preparation import PreparedData
from allyouneed.presets import PRESETS

Budget = Literal["seconds", "flops"]

_MOST_STEPS = 10_000_000
"""More than any budget is enough for."""
_FEWEST_EXPERTS = 8

_NOTES = [
    "The paper's rows are what others had published: BLEU on newstest2014 (English-German) of models trained "
    "for as long as their authors chose, at costs that differ by a factor of 7. Here every system has the "
    "same budget, of wall time on this machine or of FLOPs counted, at sizes of the same proportions as in "
    "its paper: the table shows what a short training with a small model gives, not what a long one would.",
    "A system's factor of the learning rate is that of its preset times the scale's. None was tuned.",
    "GNMT is here without reinforcement learning, and the ensemble is of the five systems trained for the "
    "same time, where the paper's are of several models of one kind.",
]


class System(NamedTuple):
    """A system of Table 2."""

    preset: str
    what: str
    bleu: float
    """The paper's, English-German."""
    flops: float | None
    """Its estimate of the cost of training."""


SYSTEMS = {
    "transformer": System("base", "Transformer (base model)", 27.3, 3.3e18),
    "recurrent": System("recurrent_gnmt", "recurrent, as GNMT", 24.6, 2.3e19),
    "convolutional": System("convolutional_convs2s", "convolutional, as ConvS2S", 25.16, 9.6e18),
    "bytenet": System("bytenet", "dilated convolutions, as ByteNet", 23.75, None),
    "experts": System("experts", "recurrent with experts, as MoE", 26.03, 2.0e19),
}
"""The first part of a row's name -> the system."""

_TITLES: Mapping[Budget, str] = {"seconds": "equal time", "flops": "equal FLOPs"}
"""A budget, which is the second part of a row's name -> what a table calls it."""


def at_scale(scale: Scale, config: RunConfig) -> RunConfig:
    """A preset at a scale, with a factor of the learning rate and a number of experts that fit it."""
    scaled = scale(config)
    factor = scale.training.get("learning_rate_factor", 1.0) * config.training.learning_rate_factor
    experts = max(_FEWEST_EXPERTS, config.model.num_experts // scale.narrower**3)
    return scaled.replace(model={"num_experts": experts}, training={"learning_rate_factor": factor})


def system_row(name: str, budget: Budget) -> Row:
    """The row of one of `SYSTEMS` that is trained until a budget is used."""
    system = SYSTEMS[name]

    def compute(work: Work) -> Mapping[str, Any]:
        amounts = {"seconds": work.scale.budget_seconds, "flops": work.scale.budget_flops}
        training = {
            f"budget_{budget}": amounts[budget],
            "num_steps": _MOST_STEPS,
            "validate_every_steps": _MOST_STEPS,
        }
        config = at_scale(work.scale, PRESETS[system.preset]()).replace(training=training)
        translator = trained(work, config, data_of(work))
        return score_validation(work, translator, data_of(work)) | cost_of(work.directory / "run")

    paper = {"bleu": system.bleu} | ({} if system.flops is None else {"formula_flops": system.flops})
    what = f"{system.what}, {_TITLES[budget]}"
    beside = () if name == "transformer" else (row_name("transformer", budget),)
    return Row(row_name(name, budget), what, compute, paper, telling=False, beside=beside)


def row_name(system: str, budget: Budget) -> str:
    """What a system's row with a budget is called, such as `recurrent_flops`."""
    return f"{system}_{budget}"


def _ensemble_of_all() -> Row:
    members = [row_name(name, "seconds") for name in SYSTEMS]

    def compute(work: Work) -> Mapping[str, Any]:
        folders = [work.directory.parents[1] / name / f"seed-{work.seed}" for name in members]
        for folder in folders:
            if not (folder / RESULT).is_file():  # another process has passed it over, or is at it
                raise LockedError(f"{folder}: is not computed yet, and the ensemble needs it")
            if FAILED in read_json(folder / RESULT):
                raise RowError(f"{folder}: failed, and the ensemble needs it")
        translator = load_translator(*(folder / "run" for folder in folders), device=work.device)
        prepared = PreparedData(data_of(work))
        texts = prepared.lines("valid", "source"), prepared.lines("valid", "target")
        return score(translator, *texts, work.directory)

    return Row("ensemble", "all five of equal time as one", compute, telling=False, beside=members)


def _rows(scale: Scale) -> Sequence[Row]:
    rows = [system_row(name, budget) for budget in _TITLES for name in SYSTEMS]
    if scale.name == "paper":  # it is trained to its end; at a small scale it would be the largest row by far
        paper = {"bleu": 28.4, "parameters_millions": 213, "formula_flops": 2.3e19}
        rows.append(training_row("big", "Transformer (big)", PRESETS["big"](), paper, telling=False))
    return [*rows, _ensemble_of_all()]


TABLE2 = Experiment(
    "table2",
    "Table 2: the Transformer and its rivals at an equal cost of training",
    _rows,
    FIGURES | {"formula_flops": False},
    require_validation,
    notes=_NOTES,
)
