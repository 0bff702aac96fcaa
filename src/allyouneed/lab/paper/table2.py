"""Table 2 (6.1): the Transformer and its rivals, each at its best rate, with the same budget of FLOPs."""

import math
import operator
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from allyouneed.config.presets import PRESETS
from allyouneed.config.run import RunConfig
from allyouneed.errors import DivergedError
from allyouneed.lab.paper.experiment import (
    CURVE,
    FAILED,
    RATES,
    RESULT,
    Experiment,
    Figure,
    Figures,
    Results,
    Row,
    RowError,
    WeightsMissingError,
    Work,
)
from allyouneed.lab.paper.identity import read_json
from allyouneed.lab.paper.scales import Scale
from allyouneed.lab.paper.training_rows import (
    FIGURES,
    SCORES,
    VALID,
    average_in,
    cost_of,
    curve_of,
    require_validation,
    score_held_out,
)
from allyouneed.preparation.prepared_data import PreparedData
from allyouneed.runs.loading import load_for, load_translator, model_of
from allyouneed.runs.rehearsing import updates_within
from allyouneed.tasks.translation.task import TRANSLATION
from allyouneed.training.meters import perplexity_of, validation_loss

_FEWEST_EXPERTS = 8
_MOST_EXPERTS = 512
"""Weights, gradients and moments of 512 experts take 35 GB; those of the paper's 2,048 take 138 GB."""


class System(NamedTuple):
    """A system of Table 2."""

    preset: str
    what: str
    english_german: Mapping[str, float]
    """The paper's figures: BLEU, and training FLOPs by its estimate."""
    english_french: Mapping[str, float]
    narrower: int = 1
    """Further divisor of widths below the paper's size; it brings the cost of an update close to the
    Transformer's."""
    model: Mapping[str, Any] = MappingProxyType({})
    """Model settings below the paper's size, before layers are divided."""


def _published(bleu: float, flops: float) -> dict[str, float]:
    return {"bleu": bleu, "formula_flops": flops}


_OF_SUB_WORDS = {"num_layers": 20, "num_dilations": 3}
"""ByteNet's 30 layers with dilations up to 16 reach 186 bytes to either side. Halved to 10 layers, these
reach 22 sub-words; sentences have too few sub-words for dilations 8 and 16."""
SYSTEMS = {
    "transformer": System(
        "base", "Transformer (base model)", _published(27.3, 3.3e18), _published(38.1, 3.3e18)
    ),
    "recurrent": System(
        "recurrent_gnmt", "recurrent, as GNMT", _published(24.6, 2.3e19), _published(39.92, 1.4e20), 2
    ),
    "convolutional": System(
        "convolutional_convs2s",
        "convolutional, as ConvS2S",
        _published(25.16, 9.6e18),
        _published(40.46, 1.5e20),
    ),
    "bytenet": System("bytenet", "dilated convolutions, as ByteNet", {"bleu": 23.75}, {}, 2, _OF_SUB_WORDS),
    "experts": System(
        "experts", "recurrent with experts, as MoE", _published(26.03, 2.0e19), _published(40.56, 1.2e20)
    ),
}
"""Name of a row -> the system."""


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


_MOST_STEPS = 10_000_000
"""More steps than any budget allows."""
_NUM_CHECKPOINTS, _NUM_VALIDATIONS = 30, 10
"""Approximate numbers per run: the five checkpoints to average span the last sixth, and saving takes little
time."""
_RATES = (0.5, 1.0, 2.0)
"""Multiples of the scale's learning rate that each system is trained with first, below the paper's size."""
_FARTHEST = 8.0
"""Factor between the scale's learning rate and the lowest and highest that may follow."""

_NOTES = [
    "The paper's rows are published results: BLEU on newstest2014 of models trained for as long as their "
    "authors chose, at costs that differ by a factor of 7 and more. Here, all systems have the same budget "
    "of counted FLOPs. At scales below the paper's, an update costs all systems about the same, so all see "
    "the text about equally often. The curves show what they have reached after as many FLOPs, or as many "
    "seconds.",
    "Below the paper's size, each system is trained with half, once and twice the scale's learning rate; "
    "and, as long as the lowest perplexity on the validation text is at the lowest or the highest rate, "
    f"with half or twice that, down to 1/{_FARTHEST:g} and up to {_FARTHEST:g} times. The run with the "
    "lowest perplexity is the row; costs are those of this run. The schedule is that of a run of the scale, "
    "stretched to the number of updates that the FLOPs pay for: all systems warm up for the same share of "
    "the updates. The last checkpoints are averaged. Without a test set, systems are scored on the text "
    "that chose the rate.",
    "GNMT is trained without reinforcement learning. Table 2 has further rows that are not reproduced: "
    "Deep-Att + PosUnk (39.2 BLEU, English-French, 1.0e20 FLOPs) and the ensembles of several models of one "
    "kind: Deep-Att + PosUnk (40.4, 8.0e20), GNMT + RL (26.30 and 41.16, 1.8e20 and 1.1e21) and ConvS2S "
    "(26.36 and 41.29, 7.7e19 and 1.2e21).",
    "`ensemble` combines the five systems, one of each kind, at the cost of all five.",
]
_WHY_ORDER_DIFFERS = (
    ", as {:.2g} FLOPs for each system show which learns fastest from little text, not which is best in the "
    "end, and hardly train the experts, each of which sees only a part of the tokens"
)
"""Why the systems are in another order than the paper's at a scale below its size."""
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
_OF_RUNS = {
    "rate": Figure("rate", "factor of the scale's learning rate that was best on the validation text"),
    "updates": Figure("updates", "number of updates within the budget"),
    "formula_flops": Figure(
        "FLOPs by formula",
        "time × devices × sustained FLOPS, the paper's estimate; rough on a CPU, whose FLOPS are measured "
        "once",
    ),
}


def until(config: RunConfig, scale: Scale, num_updates: int, rate: float = 1.0) -> RunConfig:
    """A configuration that trains until the scale's budget of FLOPs is used up.

    The course of its learning rate (equation 3) is stretched to `num_updates`, and multiplied by `rate`.
    """
    training = config.training
    warmup_steps = max(1, round(training.warmup_steps * num_updates / training.num_steps))
    factor = rate * training.learning_rate_factor * math.sqrt(warmup_steps / training.warmup_steps)
    return config.replace(
        training={
            "budget_flops": scale.budget_flops,
            "num_steps": _MOST_STEPS,
            "warmup_steps": warmup_steps,
            "learning_rate_factor": factor,
            "validate_every_steps": max(1, num_updates // _NUM_VALIDATIONS),
            "checkpoint_every_steps": max(1, num_updates // _NUM_CHECKPOINTS),
            "keep_checkpoints": training.average_last,
        }
    )


def rates(scale: Scale, found: Mapping[float, float] = MappingProxyType({})) -> Sequence[float]:
    """Factors of the learning rate to train a system with next.

    At first several rates around the scale's own, then one beyond the best as long as that is the lowest or
    the highest; none when the best lies between others, at the limit, or every run diverged. At the paper's
    size there is one rate.

    Args:
        scale: The scale.
        found: Rate -> perplexity on the validation text, infinite if the run diverged.
    """
    if not found:
        return _RATES if scale.narrower > 1 else (1.0,)
    best = min(found, key=lambda rate: found[rate])
    beyond = best / 2 if best == min(found) else 2 * best if best == max(found) else best
    is_next = len(found) > 1 and math.isfinite(found[best]) and 1 / _FARTHEST <= beyond <= _FARTHEST
    return (beyond,) if is_next and beyond not in found else ()


def folder_of(rate: float) -> str:
    """Name of the folder of a run in that of its row."""
    return f"rate-{rate:g}"


def _compute(work: Work, *, system: System) -> Figures:
    """Train a system with several rates; score the run with the lowest perplexity on the validation text."""
    config = at_scale(work.scale, system).replace(training={"seed": work.seed})
    num_updates = updates_within(work.scale.budget_flops, config, work.data, work.device)
    runs, perplexities = dict[float, Figures](), dict[float, float]()
    while following := rates(work.scale, perplexities):
        for rate in following:
            if work.scale.narrower > 1:
                work.say(f"learning rate x {rate:g}")
            runs[rate] = _attempt(work, until(config, work.scale, num_updates, rate), rate)
            perplexities[rate] = runs[rate].get("perplexity", math.inf)
    ended = [rate for rate, run in runs.items() if FAILED not in run]
    if not ended:
        raise RowError(
            f"diverged with every learning rate: {'; '.join(run[FAILED] for run in runs.values())}"
        )
    best = min(ended, key=lambda rate: perplexities[rate])
    scores = _scores(work, work.directory / folder_of(best))
    return {**scores, "rate": best, RATES: {f"{rate:g}": runs[rate] for rate in sorted(runs)}}


def _attempt(work: Work, config: RunConfig, rate: float) -> Figures:
    """The run with a rate, or why it failed, if it diverged."""
    try:
        return _run(replace(work, directory=work.directory / folder_of(rate)), config)
    except DivergedError as error:
        work.say(f"learning rate x {rate:g}: {error}")
        return {FAILED: str(error)}


def _run(work: Work, config: RunConfig) -> Figures:
    """Validation perplexity and curve of a configuration, trained and averaged."""
    model = model_of(load_for(average_in(work, config, work.data), TRANSLATION)).to(work.device)
    valid = PreparedData(work.data).valid
    assert valid is not None
    return {
        "perplexity": perplexity_of(validation_loss(model, valid)),
        CURVE: curve_of(work.directory / "run"),
    }


def _scores(work: Work, folder: Path) -> Figures:
    """Scores, cost and curve of the trained and averaged model in a folder."""
    translator, run = load_translator(folder / "model", device=work.device), folder / "run"
    return {**score_held_out(work, translator, work.data), **cost_of(run), CURVE: curve_of(run)}


def _big(work: Work, *, preset: str) -> Figures:
    average_in(work, work.scale(PRESETS[preset]()), work.data)
    return _scores(work, work.directory)


def _ensemble(work: Work) -> Figures:
    models, parameters = list[Path](), 0.0
    for name in SYSTEMS:
        folder = work.beside(name)
        figures = read_json(folder / RESULT)
        if FAILED in figures:
            raise RowError(f"{folder}: failed, and the ensemble needs it")
        models.append(folder / folder_of(figures["rate"]) / "model")
        parameters += figures["parameters_millions"]
    if missing := [model for model in models if not model.is_dir()]:
        raise WeightsMissingError(
            f"{missing[0]}: is not there, and the ensemble needs it; kept rows have no weights: delete "
            f"{missing[0].parents[1]} and compute it without from, or choose other rows",
            settings=["rows", "from"],
        )
    scores = score_held_out(work, load_translator(*models, device=work.device), work.data)
    return scores | {"parameters_millions": parameters}


def _rows(published: Mapping[str, Mapping[str, float]], big: Row, scale: Scale) -> Sequence[Row]:
    rows = [
        Row(name, system.what, partial(_compute, system=system), published[name])
        for name, system in SYSTEMS.items()
    ]
    if scale.name == "paper":  # it has no budget; at a small scale it would be the largest row by far
        rows.append(big)
    names = [*SYSTEMS]
    return [*rows, Row("ensemble", "all five as one", _ensemble, made_of=names, baselines=names)]


def _settings(scale: Scale) -> list[str]:
    """Budgets, differences from the systems' papers, and differences between systems."""
    configs = {name: at_scale(scale, system) for name, system in SYSTEMS.items()}
    of_experts, of_paper = configs["experts"].model, PRESETS["experts"]().model
    training = configs["transformer"].training
    return [
        f"runs end when {scale.budget_flops:.2g} counted FLOPs are used",
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


def _verdict(results: Results, counted: str) -> str:
    """The order of the systems by BLEU beside the paper's, and why it differs below the paper's size."""
    ours = {row.name: results.values(row.name, "bleu") for row in results.rows if "bleu" in row.paper}
    paper = {row.name: row.paper["bleu"] for row in results.rows if ours.get(row.name)}
    order = sorted(paper, key=lambda row: -statistics.fmean(ours[row]))
    of_paper = sorted(paper, key=lambda row: -paper[row])
    if order == of_paper:
        return f"The order by BLEU is the paper's: {' > '.join(order)}. {counted}"
    why = _WHY_ORDER_DIFFERS.format(results.scale.budget_flops) if results.scale.narrower > 1 else ""
    return (
        f"The order by BLEU differs from the paper's{why}: here {' > '.join(order)}, there "
        f"{' > '.join(of_paper)}. {counted}"
    )


def _big_row(preset: str, paper: Mapping[str, float]) -> Row:
    return Row("big", "Transformer (big)", partial(_big, preset=preset), paper, every_seed=False)


def _experiment(
    name: str, languages: str, published: Mapping[str, Mapping[str, float]], big: Row
) -> Experiment:
    return Experiment(
        name,
        f"Table 2, {languages}: the Transformer and its rivals at an equal cost of training",
        partial(_rows, published, big),
        FIGURES
        | {"perplexity": replace(SCORES["perplexity"], judged=False)}
        | {f"{name}{VALID}": figure.of_part("validation", judged=False) for name, figure in SCORES.items()}
        | _OF_RUNS,
        require_validation,
        notes=_NOTES,
        num_seeds=1,
        settings=_settings,
        test_settings=("test_source", "test_reference"),
        revision=2,
        verdict=_verdict,
    )


TABLE2 = _experiment(
    "table2",
    "English-German",
    {name: system.english_german for name, system in SYSTEMS.items()},
    _big_row("big", _published(28.4, 2.3e19) | {"parameters_millions": 213}),
)
TABLE2_EN_FR = _experiment(
    "table2-en-fr",
    "English-French",
    {name: system.english_french for name, system in SYSTEMS.items()},
    _big_row("big_en_fr", _published(41.8, 2.3e19)),
)
