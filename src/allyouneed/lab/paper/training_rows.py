"""Rows that train a model and score it on held-out text, as the paper does on newstest2013 (6.2)."""

import signal
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from allyouneed.config.presets import PRESETS, base
from allyouneed.config.run import RunConfig
from allyouneed.cost.estimate import PUBLISHED
from allyouneed.cost.ledger import read_ledger
from allyouneed.data.lines import read_aligned
from allyouneed.errors import UsageError
from allyouneed.evaluation.bleu import bleu_of, choose_tokens
from allyouneed.evaluation.scores import perplexity
from allyouneed.evaluation.significance import bleu_counts
from allyouneed.lab.paper.experiment import (
    AVERAGED,
    CURVE,
    HYPOTHESES,
    REFERENCES,
    Figure,
    Row,
    Work,
    kept_file,
)
from allyouneed.lab.statistics.figure_tests import keep_counts
from allyouneed.model.sizes import count_parameters
from allyouneed.preparation.prepared_data import PreparedData
from allyouneed.runs.loading import load_translator
from allyouneed.runs.starting import average, train
from allyouneed.storage.publish import write_text
from allyouneed.storage.run_directory import RunDirectory
from allyouneed.storage.run_log import read_log
from allyouneed.tasks.catalogue import TASKS
from allyouneed.tasks.task import Task
from allyouneed.tasks.translation.task import TRANSLATION
from allyouneed.tasks.translation.translator import Translator

VALID = "_valid"
"""End of the names of figures on the validation text, where there is a test text."""
SCORES = {
    "perplexity": Figure(
        "perplexity", "exp of the mean loss per sub-word, without label smoothing", judged=True
    ),
    "bleu": Figure(
        "BLEU", "sacreBLEU (13a; characters if the text has no spaces) of beam search", judged=True
    ),
}
ALL_SCORES = SCORES | {f"{name}{AVERAGED}": figure.of_part("averaged") for name, figure in SCORES.items()}
"""Scores of the last and of averaged checkpoints."""
PARAMETERS = {"parameters_millions": Figure("10⁶ parameters", "number of trained weights, in millions")}
FIGURES = ALL_SCORES | PARAMETERS
"""The figures in the paper's tables."""


def training_row(
    name: str,
    what: str,
    config: RunConfig,
    paper: Mapping[str, float],
    *,
    every_seed: bool = True,
    baselines: Sequence[str] | None = None,
    micro_batch_tokens: int | None = None,
) -> Row:
    """A row that trains `config`, given at the paper's size, at the scale of the work; see `Row`.

    `micro_batch_tokens` are by default the scale's.
    """

    def compute(work: Work) -> Mapping[str, Any]:
        scaled = work.scale(config)
        if micro_batch_tokens is not None:
            scaled = scaled.replace(training={"micro_batch_tokens": micro_batch_tokens})
        run = train_in(work, scaled, work.data)
        scores = score_held_out(work, load_translator(run, device=work.device), work.data)
        return scores | _scores_averaged(work, scaled) | cost_of(run) | {CURVE: curve_of(run)}

    return Row(name, what, compute, paper, every_seed, baselines)


def _scores_averaged(work: Work, config: RunConfig) -> dict[str, float]:
    """Scores on the validation text of the last checkpoints' average, as many as base averages (6.1)."""
    run, model, valid = work.directory / "run", work.directory / "model", PreparedData(work.data)
    if not model.exists():
        there = RunDirectory(run).scheduled_steps(config.training.checkpoint_every_steps)
        average(run, model, min(base().training.average_last, len(there)))
    translator = load_translator(model, device=work.device)
    sources, references = (valid.lines("valid", side) for side in ("source", "target"))
    return score(translator, sources, references, work.directory, AVERAGED)


def preset_row(
    preset: str, what: str, scores: tuple[float, float], *, every_seed: bool = False, **others: float
) -> Row:
    """The row of a preset, without the prefix `table3_`; `scores` are the paper's perplexity and BLEU."""
    paper = dict(zip(SCORES, scores, strict=True))
    if preset in PUBLISHED:
        paper["parameters_millions"] = PUBLISHED[preset].parameters_millions
    name = preset.removeprefix("table3_")
    return training_row(name, what, PRESETS[preset](), paper | others, every_seed=every_seed)


def require_validation(data: PreparedData, task: Task = TRANSLATION) -> None:
    """Reject data for another task, or without validation text.

    Raises:
        UsageError: The data is for another task, or has no validation text.
    """
    if data.task is not task:
        raise UsageError(
            f"{data.directory}: is for {data.task.name}; prepare data for {task.name}, "
            f"with {task.training_files}",
            settings=task.training_files.names,
        )
    if data.valid is None:
        raise UsageError(
            f"{data.directory}: has no validation text to score on; prepare it with {task.validation_files}",
            settings=task.validation_files.names,
        )


def trained(work: Work, config: RunConfig, data: Path) -> Translator:
    """Start or resume training in `run`; the model after the last update, not averaged, as in Table 3."""
    return load_translator(train_in(work, config, data), device=work.device)


def train_in(work: Work, config: RunConfig, data: Path) -> Path:
    """Start or resume training in `run`, and return that folder.

    A signal that stops the training ends the process after the state is saved.
    """
    run = work.directory / "run"
    config = config.replace(training={"seed": work.seed})
    with work.reporter(run) as report:
        received = train(run, data, config, resume=True, device=work.device, report=report, say=work.say)
    if received is not None:
        signal.raise_signal(received)  # the state is saved; end as the sender wants
        raise SystemExit(128 + received)  # in case the process ignores that signal
    return run


def average_in(work: Work, config: RunConfig, data: Path) -> Path:
    """Start or resume training in `run`; return `model`, the average of its last checkpoints (6.1)."""
    run, model = train_in(work, config, data), work.directory / "model"
    if not model.exists():
        average(run, model)
    return model


def score_held_out(work: Work, translator: Translator, data: Path) -> dict[str, Any]:
    """Perplexity, BLEU and parameters in millions, on the test text if given, else on the validation text.

    Given a test text, figures on the validation text end in `_valid`.
    """
    # Deviation: Table 2 is scored on newstest2014; without a test set, ours is on validation text.
    prepared = PreparedData(data)
    valid = prepared.lines("valid", "source"), prepared.lines("valid", "target")
    figures = score(translator, *valid, work.directory, VALID if work.inputs.test else "")
    if work.inputs.test:
        sources, references = read_aligned(*work.inputs.test.values())
        figures |= score(translator, sources, references, work.directory)
    return figures | {"parameters_millions": sum(count_parameters(translator.config.model).values()) / 1e6}


def score(
    translator: Translator, sources: Sequence[str], references: Sequence[str], keep: Path, suffix: str = ""
) -> dict[str, float]:
    """Perplexity and BLEU, whose tokens are chosen by the references.

    Translations, references, and the counts of each sentence, by which rows are compared, are kept in the
    folder `keep`; names of figures and files end in `suffix`.
    """
    whole = translator.translate(sources, too_long="error")  # as `Translator.score` takes them
    found = [translation.text for translation in whole]
    scores = translator.score(sources, references)
    losses = np.array([[-score.log_prob, len(score.tokens)] for score in scores])
    tokens = choose_tokens("", references)
    for name, lines in ((HYPOTHESES, found), (REFERENCES, references)):
        write_text(keep / kept_file(name, suffix), "".join(f"{line}\n" for line in lines))
    of_bleu = bleu_counts(found, references, tokens=tokens)
    keep_counts(keep, {f"perplexity{suffix}": losses, f"bleu{suffix}": of_bleu})
    loss, num_tokens = -sum(score.log_prob for score in scores), sum(len(score.tokens) for score in scores)
    return {
        f"perplexity{suffix}": perplexity(loss, num_tokens).value,
        f"bleu{suffix}": bleu_of(tokens)(found, references).value,
    }


def cost_of(run: Path) -> dict[str, Any]:
    """Cost of a run, and its median speed in target tokens per second."""
    ledger, events = read_ledger(run), list(read_log(run / "log.jsonl"))
    speeds = [event["target_tokens_per_second"] for event in events if event["event"] == "train"]
    return {
        "updates": max(event["step"] for event in events if event["event"] == "cost"),
        "seconds": ledger.seconds,
        "matmul_flops": ledger.matmul_flops,
        "formula_flops": ledger.formula_flops,
        "energy_joules": ledger.energy_joules,
        "device": f"{ledger.devices} x {ledger.device_name}",
        "precision": ledger.precision,
        "tokens_per_second": statistics.median(speeds) if speeds else None,
    }


_PAUSES = {"validate": "validation_seconds", "checkpoint": "seconds"}
"""Event that interrupts training -> where it says for how long."""


def curve_of(run: Path) -> dict[str, list[float]]:
    """The learning curve of a run, with a value for each validation: see `CURVE`.

    `seconds` are of training, without validations and checkpoints.
    """
    events, pauses = dict[int, dict[str, Any]](), dict[tuple[int, str], float]()
    for event in read_log(run / "log.jsonl"):
        step, kind = event.get("step", 0), event["event"]
        if kind == "start":  # the seconds of a checkpoint are those before it was saved
            pauses = {at: pauses[at] for at in pauses if at[0] < step or at == (step, "validate")}
        elif _PAUSES.get(kind) in event:
            pauses[step, kind] = event[_PAUSES[kind]]
            if kind == "validate":
                before = sum(seconds for (at, _), seconds in pauses.items() if at < step)
                events[step] = event | {"seconds": event["seconds"] - before}
    validated = [event for _, event in sorted(events.items())]
    scores = [task.score for task in TASKS.values() if all(task.score in event for event in validated)]
    return {
        "step": [event["step"] for event in validated],
        "seconds": [event["seconds"] for event in validated],
        "matmul_flops": [event["matmul_flops"] for event in validated],
        **{name: [event[name] for event in validated] for name in ("perplexity", *scores)},
    }
