"""Long inputs and outputs (4, 7): documents translated whole, with self-attention to a neighbourhood."""

import itertools
import random
import statistics
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import torch
from matplotlib.figure import Figure as Picture

from allyouneed.config.presets import base
from allyouneed.config.run import RunConfig
from allyouneed.data.batch_plans import Batch
from allyouneed.evaluation.bleu import bleu_of, choose_tokens
from allyouneed.evaluation.scores import perplexity
from allyouneed.evaluation.significance import bleu_counts
from allyouneed.explorer.html_parts import finish_panel, heading, legend_of, panel, plot
from allyouneed.hardware.machine import wait_for
from allyouneed.lab.paper.experiment import HYPOTHESES, Experiment, Figure, Results, Row, Work, kept_file
from allyouneed.lab.paper.layer_measurements import exponent, peak_bytes
from allyouneed.lab.paper.remade_data import remade_data
from allyouneed.lab.paper.scales import SCALES, Scale
from allyouneed.lab.paper.training_rows import cost_of, require_validation, trained
from allyouneed.lab.statistics.figure_tests import keep_counts
from allyouneed.lab.statistics.verdicts import judge
from allyouneed.model.architectures import build_model
from allyouneed.preparation.prepared_data import PreparedData
from allyouneed.storage.publish import write_text
from allyouneed.symbols import END, START
from allyouneed.tasks.translation.line_documents import joined, parted
from allyouneed.tasks.translation.translator import Translator
from allyouneed.training.update import batch_loss, use_fastest_operators

NUM_SENTENCES = (1, 2, 4, 8, 16)
"""Sizes of the documents that are translated."""
LONGEST = NUM_SENTENCES[-1]
LENGTHS = (500, 1_000, 2_000, 4_000)
"""Lengths, in tokens on each side, at which the cost of training is measured."""
R = (8, 32, 128)
_MOST_LINES = 480
_MOST_TOKENS = 500
_NUM_ROUNDS = 2
_LINEAR = 1.2
"""Largest exponent of the length that counts as linear."""
_NOTES = [
    f"Documents are consecutive lines of the given text, joined by ¶: 1 to {LONGEST} in training, as many as "
    f"the figure's name says in the test, which are up to {_MOST_LINES} lines of the validation text. BLEU "
    "is of single lines at every size, so all sizes are of the same text.",
    "A document whose translation has another number of lines is repaired: its lines are translated one by "
    "one. `unrepaired`: its lines are taken as they come, the surplus at the end of the last one.",
    "`encoder`, `decoder` and `both` say where self-attention is restricted to r positions. Cross-attention "
    "sees the whole source, so its time grows with the square of the length if both sides do.",
    f"Cost is of an update of one document of {LENGTHS[0]} to {LENGTHS[-1]:,} random tokens on each side, "
    f"in float32, the fastest of {_NUM_ROUNDS}; on a CPU, its time is that of the processor. `base_all` and "
    f"`base_{R[-1]}` are the paper's base model at its full size.",
]


_QUICK = replace(
    SCALES["quick"],
    narrower=8,
    fewer_heads=4,
    shallower=3,
    sized_for="two hours on two cores, with the demo's corpus",
)
"""The scale for text of a small vocabulary."""


def documents(lines: Iterable[str]) -> Iterator[str]:
    """Documents of 1 to 16 consecutive lines; the numbers of lines are the same in every call."""
    numbers, lines = random.Random(0), iter(lines)
    while document := [*itertools.islice(lines, numbers.randint(1, LONGEST))]:
        yield joined(document)


def _in_documents(part: str, *sides: Sequence[str]) -> Iterator[Iterator[str]]:
    return map(documents, sides)


def as_lines(document: str, num_lines: int) -> list[str]:
    """The lines of a translated document, made as many as are wanted: missing ones are empty."""
    lines = parted(document)
    kept, surplus = lines[: num_lines - 1], lines[num_lines - 1 :]
    return [*kept, " ".join(surplus), *[""] * (num_lines - 1 - len(kept))]


def score_documents(work: Work, translator: Translator) -> dict[str, Any]:
    """BLEU of lines in documents of each size, and how many documents were wrong."""
    valid, figures, counts = PreparedData(work.data), dict[str, Any](), dict[str, Any]()
    sources, references = (valid.lines("valid", side)[:_MOST_LINES] for side in ("source", "target"))
    tokens = choose_tokens("", references)
    alone = list[str]()
    for size in NUM_SENTENCES:
        begin = time.perf_counter()
        found = [each.text for each in translator.translate([*_documents_of(sources, size)])]
        figures[f"lines_per_second_{size}"] = len(sources) / (time.perf_counter() - begin)
        alone = alone or found
        sizes = [min(size, len(sources) - place) for place in range(0, len(sources), size)]
        wrong = [len(parted(text)) != num for text, num in zip(found, sizes, strict=True)]
        raw = [as_lines(*each) for each in zip(found, sizes, strict=True)]
        each = zip(raw, wrong, itertools.count(0, size), strict=False)
        repaired = [alone[place : place + size] if is_wrong else of_raw for of_raw, is_wrong, place in each]
        lines = [*itertools.chain(*repaired)]
        figures[f"bleu_{size}"] = bleu_of(tokens)(lines, references).value
        figures[f"unrepaired_{size}"] = bleu_of(tokens)([*itertools.chain(*raw)], references).value
        figures[f"wrong_{size}"] = 100 * statistics.fmean(wrong)
        counts[f"bleu_{size}"] = bleu_counts(lines, references, tokens=tokens)
        write_text(work.directory / kept_file(HYPOTHESES, f"_{size}"), "".join(f"{x}\n" for x in lines))
    longest = (_documents_of(text, LONGEST) for text in (sources, references))
    scores = translator.score(*map(list, longest))
    losses = np.array([[-score.log_prob, len(score.tokens)] for score in scores])
    figures[f"perplexity_{LONGEST}"] = perplexity(float(losses[:, 0].sum()), int(losses[:, 1].sum())).value
    keep_counts(work.directory, counts | {f"perplexity_{LONGEST}": losses})
    return figures


def _documents_of(lines: Sequence[str], size: int) -> Iterator[str]:
    return (joined(lines[place : place + size]) for place in range(0, len(lines), size))


def training_cost(config: RunConfig, device: torch.device) -> dict[str, Any]:
    """Time and peak memory of an update of a document of each length, and their exponents."""
    model = build_model(config.model).to(device).train()
    use_fastest_operators(model, config.training)

    def update(length: int) -> None:
        ids = np.random.default_rng(length).integers(END + 3, config.model.target_vocab_size, (1, length))
        expected, read = ids.copy(), np.roll(ids, 1)
        expected[:, -1], read[:, 0] = END, START
        batch = Batch(expected, read, expected, length, np.zeros(1, np.int64))
        batch_loss(model, batch, config.training.label_smoothing, "float32").smoothed.backward()
        wait_for(device)

    update(LENGTHS[0])  # from now on, the gradients of the weights are there, and new ones are added to them
    peaks = [peak_bytes(partial(update, length)) for length in LENGTHS]
    clock = time.process_time if device.type == "cpu" else time.perf_counter  # whatever else is running
    rounds = [[_seconds(partial(update, length), clock) for length in LENGTHS] for _ in range(_NUM_ROUNDS)]
    seconds = [min(of_length) for of_length in zip(*rounds, strict=True)]
    return {
        "time_n": exponent(LENGTHS, seconds),
        "memory_n": exponent(LENGTHS, peaks),
        "seconds_by_n": seconds,
        "bytes_by_n": peaks,
        f"seconds_{LENGTHS[-1]}": seconds[-1],
        f"mebibytes_{LENGTHS[-1]}": peaks[-1] / 2**20,
    }


def _seconds(run: Callable[[], None], clock: Callable[[], float]) -> float:
    begin = clock()
    run()
    return clock() - begin


def _compute(work: Work, *, config: RunConfig) -> Mapping[str, Any]:
    data = remade_data(work, "documents", _in_documents, max_tokens=_MOST_TOKENS)
    translator = trained(work, work.scale(config), data)
    figures = score_documents(work, translator) | cost_of(work.directory / "run")
    return figures | training_cost(translator.config, work.device)


def _compute_cost(work: Work, *, config: RunConfig) -> Mapping[str, Any]:
    return training_cost(config, work.device)


def _restricted(r: int, where: str = "both") -> RunConfig:
    return base().replace(model={"neighbourhood": r, "neighbourhood_in": where})


def _rows(scale: Scale) -> Sequence[Row]:
    restricted = [
        Row(f"{where}_{r}", f"r = {r} in {where}", partial(_compute, config=_restricted(r, where)))
        for where in ("both", "encoder", "decoder")
        for r in R
    ]
    of_paper = [
        Row(name, what, partial(_compute_cost, config=config), every_seed=False, needs_data=False)
        for name, what, config in (
            ("base_all", "the paper's base model, all positions", base()),
            (f"base_{R[-1]}", f"the paper's base model, r = {R[-1]} in both", _restricted(R[-1])),
        )
    ]
    return [Row("all", "all positions", partial(_compute, config=base())), *restricted, *of_paper]


def _verdict(results: Results, counted: str) -> str:
    """Whether the paper's sentence on restricted attention holds, and by which figures."""
    row, figure = f"both_{R[-1]}", f"bleu_{LONGEST}"
    found = [each for each in judge(results) if (each.row, each.figure) == (row, figure)]
    growth = [results.values(f"base_{R[-1]}", name) for name in ("time_n", "memory_n")]
    if not all(growth):
        return counted
    in_time, in_memory = (of_rows[0] for of_rows in growth)
    quality, answer = "the quality is not tested yet", "not decided"
    if found:
        difference, verdict = found[0].difference, found[0].verdict
        quality = (
            f"documents of {LONGEST} sentences have {difference:+.2f} BLEU ({verdict}) against all positions"
        )
        if verdict == "differs":
            answer = "no" if difference < 0 else "yes"
    if max(in_time, in_memory) > _LINEAR:
        answer = "no"
    return (
        f"Local, restricted attention handles large inputs and outputs efficiently: {answer}. With r = "
        f"{R[-1]}, the time of training the paper's base model grows as n^{in_time:.2f} and its memory as "
        f"n^{in_memory:.2f} up to {LENGTHS[-1]:,} tokens; {quality}. {counted}"
    )


def _sections(results: Results) -> Iterator[str]:
    """The page's sections as HTML, for the rows computed so far."""
    rows = [row for row in results.rows if results.values(row.name, "time_n")]
    trained_rows = [row for row in rows if results.values(row.name, "bleu_1")]
    if trained_rows:
        yield heading(
            "Quality against the size of documents",
            "BLEU of the same lines, translated in documents of more and more sentences, and the share of "
            "documents whose translation has another number of lines.",
        )
        kinds = ("bleu", "BLEU"), ("wrong", "wrong documents, in %")
        yield plot(_by_size(results, trained_rows, kinds), "BLEU and wrong documents by size")
    if rows:
        yield heading(
            "Cost of training against length",
            "An update of one document. Axes are logarithmic: the slope of a line is its exponent.",
        )
        yield plot(_by_length(results, rows), "time and memory against length")


def _by_size(results: Results, rows: Sequence[Row], kinds: Sequence[tuple[str, str]]) -> Iterator[Picture]:
    for kind, title in kinds:
        picture, axes = panel()
        for number, row in enumerate(rows):
            values = [statistics.fmean(results.values(row.name, f"{kind}_{size}")) for size in NUM_SENTENCES]
            axes.plot(NUM_SENTENCES, values, _style(number), markersize=3, label=row.what)
        finish_panel(axes, legend=False, title=title, xlabel="sentences of a document")
        yield picture
    yield legend_of(axes)


def _by_length(results: Results, rows: Sequence[Row]) -> Iterator[Picture]:
    for curve, title in (("seconds_by_n", "time, in seconds"), ("bytes_by_n", "memory, in bytes")):
        picture, axes = panel()
        for number, row in enumerate(rows):
            of_seeds = [each[curve] for each in results.outcomes[row.name].values() if curve in each]
            axes.loglog(LENGTHS, np.mean(of_seeds, 0), _style(number), markersize=3, label=row.what)
        finish_panel(axes, legend=False, title=title, xlabel="n, tokens on each side")
        yield picture
    yield legend_of(axes)


def _style(number: int) -> str:
    return f"C{number % 10}{'o-' if number < 4 else 's--' if number < 7 else '^:'}"


_FIGURES = {
    f"bleu_{size}": Figure(f"BLEU, {size}", f"sacreBLEU (13a) of lines in documents of {size}", judged=True)
    for size in NUM_SENTENCES
} | {
    f"unrepaired_{LONGEST}": Figure(f"unrepaired, {LONGEST}", "BLEU without repair"),
    f"wrong_{LONGEST}": Figure(f"wrong, {LONGEST}", "documents with another number of lines, in %"),
    f"perplexity_{LONGEST}": Figure(f"perplexity, {LONGEST}", "per sub-word, ¶ included", judged=True),
    f"lines_per_second_{LONGEST}": Figure(f"lines per second, {LONGEST}", "speed of translation"),
    "tokens_per_second": Figure("tokens per second", "median target tokens per second in training"),
    "time_n": Figure("exponent of n, time", "of an update of a document of n tokens on each side"),
    "memory_n": Figure("exponent of n, memory", "of the peak of its tensors, without weights"),
    f"seconds_{LENGTHS[-1]}": Figure(f"seconds, n = {LENGTHS[-1]:,}", "of that update"),
    f"mebibytes_{LENGTHS[-1]}": Figure(f"MiB, n = {LENGTHS[-1]:,}", "of that peak"),
}

LONG = Experiment(
    "long",
    "Long inputs and outputs: documents, and restricted self-attention (4, 7)",
    _rows,
    _FIGURES,
    require_validation,
    notes=_NOTES,
    scales=SCALES | {"quick": _QUICK},
    num_seeds=2,
    timed=("time_n", f"lines_per_second_{LONGEST}", "tokens_per_second", f"seconds_{LENGTHS[-1]}"),
    verdict=_verdict,
    sections=_sections,
)
