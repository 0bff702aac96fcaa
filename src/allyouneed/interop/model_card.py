"""Model cards: the README.md of a model on a hub, made only from what the model and its run have recorded."""

import json
import math
import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from allyouneed.config.fidelity import deviations, nearest_of_paper
from allyouneed.config.run import MAY_CHANGE, RunConfig
from allyouneed.cost.ledger import Ledger, read_ledger
from allyouneed.data.vocabulary_file import read_json
from allyouneed.errors import DataError, ModelError, UsageError, printable
from allyouneed.language_codes import primary_language
from allyouneed.model.sizes import count_parameters
from allyouneed.preparation.prepared_data import PreparedData
from allyouneed.storage.checkpoint import WEIGHTS, Checkpoint, load_checkpoint
from allyouneed.storage.run_directory import RunDirectory, resolve_model
from allyouneed.tasks.catalogue import task_named
from allyouneed.tasks.task import SOURCE_TOKENIZER, TARGET_TOKENIZER, Task
from allyouneed.version import __version__

NAME: Final = "README.md"
"""The file of a card, which no manifest lists: its words may be changed, and the model stays intact."""
_CITATION: Final = """\
@inproceedings{vaswani2017attention,
  title = {Attention Is All You Need},
  author = {Vaswani, Ashish and Shazeer, Noam and Parmar, Niki and Uszkoreit, Jakob and Jones, Llion and
            Gomez, Aidan N. and Kaiser, {\\L}ukasz and Polosukhin, Illia},
  booktitle = {Advances in Neural Information Processing Systems 30},
  year = {2017}
}"""

Scores = Mapping[str, Mapping[str, Any]]
"""Metric -> its `score` and `signature`, as `evaluate` writes them in JSON."""


@dataclass(frozen=True)
class ModelCard:
    """The facts on a card."""

    name: str
    model: Checkpoint
    scores: Scores
    test_set: str
    """Name of the text that the scores are of."""
    licence: str
    """Identifier such as "apache-2.0"; "" if it is not decided."""
    data: PreparedData | None
    ledger: Ledger | None
    """Cost of the run; None if the run is not known."""

    @property
    def config(self) -> RunConfig:
        """The settings that the model was trained with."""
        return self.model.config

    @property
    def task(self) -> Task:
        """Task that the model was trained for."""
        return task_named(self.config.data.task)

    @property
    def languages(self) -> list[str]:
        """Codes of the languages that the model reads or writes, each once; none if nobody has named them."""
        data = self.config.data
        units = self.task.load_units(self.model.directory, data, *self.config.model.vocab_sizes)
        found = [data.source_language, data.target_language, *(symbol[2:-2] for symbol in units.symbols)]
        return [*dict.fromkeys(primary_language(code) for code in found if code)]

    @property
    def work(self) -> str:
        """Purpose of the model, such as `translation from en to de`."""
        data = self.config.data
        if data.source_language and data.target_language:
            return f"{self.task.name} from {data.source_language} to {data.target_language}"
        return f"{self.task.name}, in {', '.join(self.languages)}" if self.languages else self.task.name

    def text(self) -> str:
        """The whole card: a header in YAML, then sections in Markdown."""
        sections = _about, _use, _data, _training, _evaluation, _limits, _files
        lines = [*_header(self), "", *(line for section in sections for line in (*section(self), ""))]
        return "\n".join([*lines, "## Citation", "", "```bibtex", _CITATION, "```", ""])


def read_card(
    path: Path,
    *,
    name: str = "",
    run: Path | None = None,
    data: Path | None = None,
    scores: Path | None = None,
    test_set: str = "held-out text",
    licence: str = "",
) -> ModelCard:
    """Read the facts of a card.

    Args:
        path: A model directory, a checkpoint, or a run.
        name: Name of the model; by default that of its folder.
        run: Run of the model, which knows its cost; by default `path` if it is a run.
        data: Prepared data of the model, which knows its pairs.
        scores: File of scores in JSON; by default those that the run has recorded, if any.
        test_set: Name of the text that the scores are of.
        licence: Identifier of a licence, such as "apache-2.0".

    Raises:
        ModelError: The model, its data or the log of its run is missing or damaged.
        UsageError: The run or the data is that of another model.
        DataError: The file of scores holds none.
    """
    model = load_checkpoint(resolve_model(path), [SOURCE_TOKENIZER, TARGET_TOKENIZER])
    run = run or (path if RunDirectory(path).log.is_file() else None)
    if run is not None:
        _require_own_run(run, path, model.config)
    if scores is None and run is not None and (run / "test.json").is_file():
        scores = run / "test.json"
    prepared = PreparedData(data) if data else None
    corpus = _corpus(model)
    if prepared is not None and corpus and corpus != prepared.facts["corpus"]:
        raise UsageError(f"data {data}: is not what {path} was trained on; name that", settings=["data"])
    return ModelCard(
        printable(name or path.resolve().name),
        model,
        _read_scores(scores) if scores else {},
        printable(test_set),
        licence,
        prepared,
        read_ledger(run) if run else None,
    )


def _require_own_run(run: Path, path: Path, config: RunConfig) -> None:
    """Raise UsageError unless a run can have made the model at `path`; it may have been resumed since."""
    file = RunDirectory(run).config
    if not file.is_file():
        raise UsageError(
            f"run {run}: is no run; give the run that the model was trained in", settings=["run"]
        )
    found = RunConfig.from_toml(file)
    for differing, noun in (
        (found.model != config.model, "another architecture"),
        (found.data != config.data, "other settings of data"),
        (_of_updates(found) != _of_updates(config), "other settings of training"),
    ):
        if differing:
            raise UsageError(f"run {run}: has {noun} than {path}; name its own", settings=["run"])


def _of_updates(config: RunConfig) -> dict[str, Any]:
    """The settings of training that stay while a run goes on."""
    return config.training.model_dump(exclude={*MAY_CHANGE, "moved_end"})


def _corpus(model: Checkpoint) -> str:
    """The sha256 of the text that a checkpoint was trained on; "" if it has not recorded one."""
    found = model.manifest.get("corpus")
    return str(found.get("corpus", "")) if isinstance(found, dict) else ""


def _read_scores(path: Path) -> Scores:
    try:
        found: Scores = {
            str(name): {"score": float(each["score"]), "signature": printable(str(each["signature"]))}
            for name, each in read_json(path, "scores").items()
        }
        if not found or not all(math.isfinite(each["score"]) for each in found.values()):
            raise ValueError
        return found
    except (ModelError, AttributeError, KeyError, TypeError, ValueError):
        raise DataError(
            f"{path}: is no file of scores; write one with `allyouneed evaluate`, as JSON"
        ) from None


def _header(card: ModelCard) -> Iterator[str]:
    """Facts for programs; strings in JSON are strings in YAML, too."""
    facts: dict[str, Any] = {"language": card.languages, "license": card.licence}
    facts |= {"library_name": "allyouneed", "pipeline_tag": card.task.name if card.task.reads_pairs else ""}
    facts["tags"] = [card.config.model.architecture, "attention-is-all-you-need", card.task.name]
    facts["metrics"] = [*dict.fromkeys(map(_kind, card.scores))]
    facts["model-index"] = [{"name": card.name, "results": [_results(card)]}] if card.scores else []
    yield "---"
    for key, value in facts.items():
        if value:
            is_short = isinstance(value, str) or isinstance(value[0], str)
            shown = json.dumps(value, ensure_ascii=False, indent=None if is_short else 1)
            yield textwrap.indent(f"{key}: {shown}", " ")[1:]
    yield "---"


def _kind(metric: str) -> str:
    """The name under which hubs know a metric, such as `bleu` of `bleu_13a`."""
    return metric.partition("_")[0]


def _results(card: ModelCard) -> dict[str, Any]:
    metrics = [
        {"type": _kind(name), "name": name, "value": each["score"], "args": {"signature": each["signature"]}}
        for name, each in card.scores.items()
    ]
    task = {"type": card.task.name, "name": card.work}
    dataset = {"type": card.test_set.lower().replace(" ", "-"), "name": card.test_set}
    return {"task": task, "dataset": dataset, "metrics": metrics}


def _about(card: ModelCard) -> Iterator[str]:
    model, size = card.config.model, card.model.manifest["files"][WEIGHTS]["size"]
    same = model.decoder_layers == model.num_layers
    layers = "layers" if same else f"encoder and {model.decoder_layers} decoder layers"
    shape = (
        f"{model.num_layers} {layers}, d_model {model.d_model}, d_ff {model.d_ff}, {model.num_heads} heads"
    )
    yield f"# {card.name}"
    yield ""
    parameters = sum(count_parameters(model).values())
    yield f"A model for {card.work}: {model.architecture}, {shape}, {parameters:,} parameters."
    yield f"Its weights take {size / 1e6:,.1f} MB on disk."


def _use(card: ModelCard) -> Iterator[str]:
    yield "## Use"
    yield ""
    yield f"With allyouneed {__version__} or later, in this folder:"
    yield ""
    yield from (
        "```",
        f"allyouneed verify . && allyouneed {card.task.command} . < input.txt > output.txt",
        "```",
        "",
    )
    yield 'or in Python: `allyouneed.load(".")`.'


def _data(card: ModelCard) -> Iterator[str]:
    data = card.config.data
    yield "## Training data"
    yield ""
    corpus = _corpus(card.model)
    if card.data is not None:
        report = card.data.report("train")
        yield f"{card.data.train.num_pairs:,} {card.task.examples}, of {report['num_read']:,} that were read."
    elif corpus:
        yield "Name and size of the corpus are not recorded in the model."
    else:
        yield "The corpus is not recorded in the model."
    if corpus:
        yield f"The sha256 of the prepared text is `{corpus}`."
    source, target = card.config.model.vocab_sizes
    sizes = f"{source:,} source and {target:,} target {card.task.target_units}"
    yield f"Tokeniser: `{data.tokenizer}`, {sizes}. Pairs above {data.max_tokens} tokens were left out."


def _training(card: ModelCard) -> Iterator[str]:
    training = card.config.training
    yield "## Training"
    yield ""
    most = f"at most {training.batch_tokens:,} tokens per side, padding included"
    yield f"- {training.num_steps:,} updates planned, of {most}"
    if training.init_sha256:
        yield f"- started from a model with the weights `{training.init_sha256}`"
    if card.ledger is not None:
        yield from _cost(card.ledger)
    nearest = nearest_of_paper(card.config)
    yield f"- settings that differ from the paper's `{nearest}`:"
    yield from (
        f"    - `{each.setting}` = {each.value}" + ("" if each.paper is None else f" (paper: {each.paper})")
        for each in deviations(card.config)
        if each.setting != "training.init_from"  # a place on the machine that trained
    )


def _cost(ledger: Ledger) -> Iterator[str]:
    energy = ledger.energy_joules
    used = "energy not measured" if energy is None else f"{energy / 3.6e6:,.3f} kWh"
    where = f"{ledger.devices} x {ledger.device_name} in {ledger.precision}"
    yield f"- {ledger.step:,} updates made in {ledger.seconds / 3600:,.2f} hours on {where}"
    yield f"- {ledger.matmul_flops:.1e} FLOPs of matrix products; {used}"


def _evaluation(card: ModelCard) -> Iterator[str]:
    yield "## Evaluation"
    yield ""
    if not card.scores:
        yield "No score is recorded for this model."
        return
    yield f"On {card.test_set}; compare figures only if their signatures are equal."
    yield ""
    yield from ("| metric | score | signature |", "|---|---|---|")
    for name, each in card.scores.items():
        signature = str(each["signature"]).replace("|", "\\|")
        yield f"| {name} | {each['score']:.2f} | {signature} |"


def _limits(card: ModelCard) -> Iterator[str]:
    yield "## Limits"
    yield ""
    yield "- The model knows the kind of text that it was trained on. On other text its output is worse, and"
    yield "  nothing says so: let a person check what matters."
    yield "- Bias, toxicity and facts in its output have not been measured."
    if not card.licence:
        yield "- No licence has been given for these weights."


def _files(card: ModelCard) -> Iterator[str]:
    manifest = card.model.manifest
    yield "## Files"
    yield ""
    written = f"allyouneed {manifest['tool_version']}, in version {manifest['format_version']} of the format"
    yield f"Written by {written}. `MANIFEST.json` has the sha256 of every file; that of the weights is"
    yield f"`{manifest['files'][WEIGHTS]['sha256']}`."
    for parent in manifest.get("parents", []):
        yield f"Made from {parent['checkpoint']} (`{parent['sha256']}`)."
