"""Rows that train a model and score it on the validation text, as the paper does on newstest2013 (6.2)."""

import signal
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from allyouneed.config.presets import PRESETS
from allyouneed.config.run import RunConfig
from allyouneed.cost.ledger import read_ledger
from allyouneed.cost.plan import PUBLISHED, count_parameters
from allyouneed.errors import UsageError
from allyouneed.evaluation import bleu_13a, perplexity
from allyouneed.paper.experiment import HYPOTHESES, REFERENCES, Row, Work
from allyouneed.storage.publish import write_text
from allyouneed.storage.run_log import read_log
from allyouneed.tasks.loading import load_translator
from allyouneed.tasks.prepared_data import PreparedData
from allyouneed.tasks.running import average, train
from allyouneed.tasks.task import Task
from allyouneed.tasks.translation.task import TRANSLATION
from allyouneed.tasks.translation.translator import Translator

SCORES = {"perplexity": True, "bleu": True}
FIGURES = SCORES | {"parameters_millions": False}
"""Those of the paper's tables."""


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
    """A row that trains a configuration of the paper, at the scale of the work.

    Args:
        name: The row's.
        what: What it changes.
        config: At the paper's size.
        paper: Figure -> its value in the paper, of those that it prints.
        every_seed: Whether it is trained with every seed.
        baselines: Rows that it is compared with, if not the first.
        micro_batch_tokens: In place of the scale's.
    """

    def compute(work: Work) -> Mapping[str, Any]:
        scaled = work.scale(config)
        if micro_batch_tokens is not None:
            scaled = scaled.replace(training={"micro_batch_tokens": micro_batch_tokens})
        translator = trained(work, scaled, data_of(work))
        return score_validation(work, translator, data_of(work)) | cost_of(work.directory / "run")

    return Row(name, what, compute, paper, every_seed, baselines)


def preset_row(preset: str, what: str, scores: tuple[float, float], *, every_seed: bool = False) -> Row:
    """The row of a preset, without the name of its table.

    Args:
        preset: Its name.
        what: What it changes.
        scores: Its perplexity and BLEU in the paper.
        every_seed: Whether it is trained with every seed.
    """
    paper = dict(zip(SCORES, scores, strict=True))
    if preset in PUBLISHED:
        paper["parameters_millions"] = PUBLISHED[preset].parameters_millions
    return training_row(preset.removeprefix("table3_"), what, PRESETS[preset](), paper, every_seed=every_seed)


def require_validation(data: PreparedData, task: Task = TRANSLATION) -> None:
    """Refuse data for another task, or without the text that rows are scored on.

    Raises:
        UsageError: It is for another task, or has no such text.
    """
    if data.task is not task:
        options = f"--task {task.name} {task.training_options}"
        raise UsageError(f"{data.directory}: is for {data.task.name}; prepare data with {options}")
    if data.valid is None:
        raise UsageError(
            f"{data.directory}: has no validation text to score on; prepare it with {task.validation_options}"
        )


def data_of(work: Work) -> Path:
    """The prepared data that is given."""
    assert work.inputs.data is not None
    return work.inputs.data


def trained(work: Work, config: RunConfig, data: Path) -> Translator:
    """Train in `run`, or go on there; the model as it is after the last update, as in Table 3."""
    return load_translator(train_in(work, config, data), device=work.device)


def train_in(work: Work, config: RunConfig, data: Path) -> Path:
    """Train in `run`, which is returned, or go on there.

    A signal that ends the training ends the process, with all saved.
    """
    run = work.directory / "run"
    config = config.replace(training={"seed": work.seed})
    with work.reporter(run) as report:
        received = train(run, data, config, resume=True, device=work.device, report=report, say=work.say)
    if received is not None:
        signal.raise_signal(received)  # all is saved; end as whoever sent it wants
        raise SystemExit(128 + received)  # also where this process was started to ignore it
    return run


def average_in(work: Work, config: RunConfig, data: Path) -> Path:
    """Train in `run`, or go on there; the average of its last checkpoints (6.1), in `model`."""
    run, model = train_in(work, config, data), work.directory / "model"
    if not model.exists():
        average(run, model)
    return model


def score_validation(work: Work, translator: Translator, data: Path) -> dict[str, Any]:
    """Perplexity and BLEU on the validation text; the translations are kept."""
    prepared = PreparedData(data)
    sources, references = prepared.lines("valid", "source"), prepared.lines("valid", "target")
    figures = score(translator, sources, references, work.directory)
    return figures | {"parameters_millions": sum(count_parameters(translator.config.model).values()) / 1e6}


def score(
    translator: Translator, sources: Sequence[str], references: Sequence[str], keep: Path | None = None
) -> dict[str, float]:
    """Perplexity and BLEU (13a); translations and references are kept in the folder `keep`."""
    found = [translation.text for translation in translator.translate(sources)]
    if keep is not None:
        for name, lines in ((HYPOTHESES, found), (REFERENCES, references)):
            write_text(keep / name, "".join(f"{line}\n" for line in lines))
    likelihood = translator.negative_log_likelihood(sources, references)
    return {"perplexity": perplexity(*likelihood).value, "bleu": bleu_13a(found, references).value}


def cost_of(run: Path) -> dict[str, Any]:
    """What a run has cost, and the median of its speed."""
    ledger, events = read_ledger(run), list(read_log(run / "log.jsonl"))
    speeds = [event["target_tokens_per_second"] for event in events if event["event"] == "train"]
    return {
        "updates": max(event["step"] for event in events if event["event"] == "cost"),
        "seconds": ledger.seconds,
        "matmul_flops": ledger.matmul_flops,
        "formula_flops": ledger.formula_flops,
        "energy_joules": ledger.energy_joules,
        "device": f"{ledger.devices} x {ledger.device_name}",
        "tokens_per_second": statistics.median(speeds) if speeds else None,
    }
