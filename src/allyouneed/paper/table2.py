"""Table 2 (6.1): the Transformer and its rivals, trained with the same budget of time or FLOPs."""

import math
import operator
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

from allyouneed.config.presets import PRESETS
from allyouneed.config.run import RunConfig
from allyouneed.paper.experiment import FAILED, RESULT, Experiment, Row, RowError, Work
from allyouneed.paper.identity import read_json
from allyouneed.paper.scales import Scale
from allyouneed.paper.training_rows import (
    FIGURES,
    SCORES,
    VALID,
    average_in,
    cost_of,
    require_validation,
    score_held_out,
)
from allyouneed.tasks.loading import load_translator
from allyouneed.tasks.rehearsing import updates_within

Budget = Literal["seconds", "flops"]

_MOST_STEPS = 10_000_000
"""More steps than any budget allows."""
_NUM_CHECKPOINTS = 30
"""Approximate number per row: the five to average span the last sixth, and saving takes little time."""
_FEWEST_EXPERTS = 8
_MOST_EXPERTS = 512
"""Weights, gradients and moments of 512 experts take 35 GB; those of the paper's 2,048 take 138 GB."""

_NOTES = [
    "The paper's rows are published results: BLEU on newstest2014 (English-German) of models trained for as "
    "long as their authors chose, at costs that differ by a factor of 7. Here, all systems have the same "
    "budget of wall time on this machine, saving included, or of counted FLOPs. At scales below the paper's, "
    "an update costs all systems about the same, so all see the text equally often: the table shows the "
    "result of a short training with a small model, not of a long one.",
    "The learning-rate schedule of a row is that of a run of the scale, stretched to the number of updates "
    "that the row's FLOPs pay for: all systems warm up for the same share of the updates and to the same "
    "rate, at the paper's size times the factor of their presets. The batch, the warm-up and the factor of "
    "the scale were chosen for the Transformer; nothing was tuned for its rivals. The last checkpoints are "
    "averaged.",
    "Both budgets of a system end the same training run, with the same seed and schedule: they are two "
    "readings of it, not independent repetitions.",
    "GNMT is trained without reinforcement learning. Table 2 has further rows that are not reproduced: "
    "Deep-Att + PosUnk (39.2 BLEU, English-French, 1.0e20 FLOPs) and the ensembles of several models of one "
    "kind: Deep-Att + PosUnk (40.4, 8.0e20), GNMT + RL (26.30 and 41.16, 1.8e20 and 1.1e21) and ConvS2S "
    "(26.36 and 41.29, 7.7e19 and 1.2e21).",
    "`ensemble` combines the five systems trained for the same time, one of each kind.",
]
_SET_BY_ROWS = {
    *("num_steps", "warmup_steps", "learning_rate_factor", "validate_every_steps"),
    *("checkpoint_every_steps", "keep_checkpoints"),
}
_COMPARED = (
    *("model.d_model", "model.num_layers", "model.dropout"),
    *("training.label_smoothing", "training.learning_rate_factor"),
    *("search.beam_size", "search.length_normalization", "search.length_penalty"),
)
"""Notable settings whose values differ between the papers of the systems."""


class System(NamedTuple):
    """A system of Table 2."""

    preset: str
    what: str
    bleu: float
    """BLEU in the paper, English-German."""
    flops: float | None
    """Training FLOPs by the paper's estimate."""
    narrower: int = 1
    """Further divisor of widths below the paper's size; it brings the cost of an update close to the
    Transformer's."""
    model: Mapping[str, Any] = MappingProxyType({})
    """Model settings below the paper's size, before layers are divided."""


_OF_SUB_WORDS = {"num_layers": 20, "num_dilations": 3}
"""ByteNet's 30 layers with dilations up to 16 reach 186 bytes to either side. Halved to 10 layers, these
reach 22 sub-words; sentences have too few sub-words for dilations 8 and 16."""
SYSTEMS = {
    "transformer": System("base", "Transformer (base model)", 27.3, 3.3e18),
    "recurrent": System("recurrent_gnmt", "recurrent, as GNMT", 24.6, 2.3e19, 2),
    "convolutional": System("convolutional_convs2s", "convolutional, as ConvS2S", 25.16, 9.6e18),
    "bytenet": System("bytenet", "dilated convolutions, as ByteNet", 23.75, None, 2, _OF_SUB_WORDS),
    "experts": System("experts", "recurrent with experts, as MoE", 26.03, 2.0e19),
}
"""The first part of a row's name -> the system."""

_TITLES: Mapping[Budget, str] = {"seconds": "equal time", "flops": "equal FLOPs"}
"""Budget, the second part of a row's name -> its title in tables."""


def at_scale(scale: Scale, system: System) -> RunConfig:
    """The configuration of a system at a scale, with a suitable number of experts.

    Below the paper's size, only architectures are compared: all systems have the base model's learning
    rate, dropout, label smoothing and search, and about its cost of an update.
    """
    config, base = PRESETS[system.preset](), scale(PRESETS["base"]())
    experts = min(_MOST_EXPERTS, max(_FEWEST_EXPERTS, config.model.num_experts // scale.narrower**3))
    config = config.replace(model={"num_experts": experts})
    if scale.narrower == 1:
        factor = base.training.learning_rate_factor * config.training.learning_rate_factor
        return scale(config).replace(training={"learning_rate_factor": factor})
    config = config.replace(model=system.model)
    return replace(scale, narrower=scale.narrower * system.narrower)(config).replace(
        model={"dropout": base.model.dropout},
        training={
            "label_smoothing": base.training.label_smoothing,
            "learning_rate_factor": base.training.learning_rate_factor,
        },
        search=base.search.model_dump(),
    )


def until(config: RunConfig, budget: Budget, scale: Scale, num_updates: int) -> RunConfig:
    """A configuration that trains until a budget is used up.

    Args:
        config: The configuration; its learning rate rises and falls over `num_steps` updates (equation 3).
        budget: The kind of budget: seconds or FLOPs.
        scale: The scale that sets the amount of the budget.
        num_updates: Number of updates to stretch or shrink the learning rate's course to.
    """
    training = config.training
    warmup_steps = max(1, round(training.warmup_steps * num_updates / training.num_steps))
    factor = training.learning_rate_factor * math.sqrt(warmup_steps / training.warmup_steps)
    amounts = {"seconds": scale.budget_seconds, "flops": scale.budget_flops}
    return config.replace(
        training={
            f"budget_{budget}": amounts[budget],
            "num_steps": _MOST_STEPS,
            "warmup_steps": warmup_steps,
            "learning_rate_factor": factor,
            "validate_every_steps": _MOST_STEPS,
            "checkpoint_every_steps": max(1, num_updates // _NUM_CHECKPOINTS),
            "keep_checkpoints": training.average_last,
        }
    )


def system_row(name: str, budget: Budget) -> Row:
    """The row of one of `SYSTEMS`, trained until a budget is used up."""
    system = SYSTEMS[name]

    def compute(work: Work) -> Mapping[str, Any]:
        config = at_scale(work.scale, system).replace(training={"seed": work.seed})
        # Also with a time budget: how many updates that allows depends on the machine and is unknown here.
        num_updates = updates_within(work.scale.budget_flops, config, work.data, work.device)
        return _figures(work, until(config, budget, work.scale, num_updates))

    paper = {"bleu": system.bleu} | ({} if system.flops is None else {"formula_flops": system.flops})
    what = f"{system.what}, {_TITLES[budget]}"
    baselines = () if name == "transformer" else (row_name("transformer", budget),)
    return Row(row_name(name, budget), what, compute, paper, baselines=baselines)


def row_name(system: str, budget: Budget) -> str:
    """Name of a system's row with a budget, such as `recurrent_flops`."""
    return f"{system}_{budget}"


def _figures(work: Work, config: RunConfig) -> Mapping[str, Any]:
    """Train a configuration, average its checkpoints, and score the model."""
    translator = load_translator(average_in(work, config, work.data), device=work.device)
    return score_held_out(work, translator, work.data) | cost_of(work.directory / "run")


def _big(work: Work) -> Mapping[str, Any]:
    return _figures(work, work.scale(PRESETS["big"]()))


def _ensemble_of_all() -> Row:
    members = [row_name(name, "seconds") for name in SYSTEMS]

    def compute(work: Work) -> Mapping[str, Any]:
        folders = [work.beside(name) for name in members]
        for folder in folders:
            if FAILED in read_json(folder / RESULT):
                raise RowError(f"{folder}: failed, and the ensemble needs it")
        translator = load_translator(*(folder / "model" for folder in folders), device=work.device)
        return score_held_out(work, translator, work.data)

    return Row("ensemble", "all five of equal time as one", compute, made_of=members, baselines=members)


def _rows(scale: Scale) -> Sequence[Row]:
    rows = [system_row(name, budget) for budget in _TITLES for name in SYSTEMS]
    if scale.name == "paper":  # it has no budget; at a small scale it would be the largest row by far
        paper = {"bleu": 28.4, "parameters_millions": 213, "formula_flops": 2.3e19}
        rows.append(Row("big", "Transformer (big)", _big, paper, every_seed=False))
    return [*rows, _ensemble_of_all()]


def _settings(scale: Scale) -> list[str]:
    """Budgets, differences from the systems' papers, and differences between systems."""
    configs = {name: at_scale(scale, system) for name, system in SYSTEMS.items()}
    of_experts, of_paper = configs["experts"].model, PRESETS["experts"]().model
    training = configs["transformer"].training
    return [
        f"rows end when {scale.budget_seconds:,.0f} s (equal time) or {scale.budget_flops:.2g} counted FLOPs "
        "(equal FLOPs) are used",
        f"warm-up is {training.warmup_steps / training.num_steps:.0%} of the updates that so many FLOPs buy",
        f"{of_experts.num_experts:,} experts in place of {of_paper.num_experts:,}, "
        f"{of_experts.experts_per_token} of them for a token",
        *scale.changes(_SET_BY_ROWS),
        *(_set_apart() if scale.narrower > 1 else ()),
        *_compared(configs),
    ]


def _set_apart() -> Iterator[str]:
    """Changes that apply to one system only."""
    for name, system in SYSTEMS.items():
        if system.narrower > 1:
            yield f"widths of {name} divided by {system.narrower} besides"
        if system.model:
            settings = ", ".join(f"model.{setting} = {value}" for setting, value in system.model.items())
            yield f"{name} before layers are divided: {settings}"


def _compared(configs: Mapping[str, RunConfig]) -> Iterator[str]:
    """The settings of `_COMPARED`: one value if all systems share it, else one per system."""
    for setting in _COMPARED:
        values = {system: operator.attrgetter(setting)(config) for system, config in configs.items()}
        told = {v: f"{v:g}" if isinstance(v, float) else str(v) for v in values.values()}
        each = ", ".join(f"{told[value]} ({system})" for system, value in values.items())
        yield f"{setting} = {each if len(told) > 1 else next(iter(told.values()))}"


TABLE2 = Experiment(
    "table2",
    "Table 2: the Transformer and its rivals at an equal cost of training",
    _rows,
    FIGURES
    | dict.fromkeys(
        ("perplexity", *(f"{name}{VALID}" for name in SCORES), "updates", "formula_flops"), False
    ),
    require_validation,
    notes=_NOTES,
    num_seeds=1,
    settings=_settings,
    test_settings=("test_source", "test_reference"),
)
