"""Less sequential generation (7): blockwise parallel decoding, beside the published table of k.

Stern, Shazeer and Uszkoreit 2018, Table 1: BLEU and mean accepted block size on newstest2013, English to
German, with the model frozen or fine-tuned, on the original targets or on those that a teacher has written.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from allyouneed.config.presets import base
from allyouneed.evaluation.bleu import bleu_of, choose_tokens
from allyouneed.lab.paper.experiment import Experiment, Figure, Row, WeightsMissingError, Work
from allyouneed.lab.paper.remade_data import remade_data
from allyouneed.lab.paper.scales import Scale
from allyouneed.lab.paper.training_rows import require_validation, train_in
from allyouneed.preparation.prepared_data import PreparedData
from allyouneed.runs.loading import load_translator
from allyouneed.tasks.translation.translator import Translator

_BODY = ("[!b]*",)
"""Pattern of the names of all parameters but those of the heads (`training.frozen`)."""
_FROZEN: dict[str, tuple[str, ...]] = {"regular": _BODY, "distilled": _BODY, "tuned": (), "both": ()}
"""Column of the published table -> patterns of the parameters that are not trained."""
_FIRST = "regular_1"
_OF_ANOTHER_SEED = 1_000
_BLOCKS = 1, 2, 4, 6, 8, 10
_PUBLISHED: dict[str, dict[int, tuple[float, float]]] = {
    column: dict(zip(_BLOCKS[-len(bleu) :], zip(bleu, mean_block, strict=True), strict=True))
    for column, bleu, mean_block in (
        ("regular", (26.00, 25.81, 25.84, 26.08, 25.82, 25.69), (1.00, 1.51, 1.73, 1.76, 1.76, 1.74)),
        ("distilled", (26.41, 26.52, 26.31, 26.26, 26.25, 26.34), (1.00, 1.55, 1.85, 1.90, 1.91, 1.90)),
        ("tuned", (25.74, 25.05, 24.69, 24.27, 23.51), (1.78, 2.69, 2.98, 3.01, 2.87)),
        ("both", (26.58, 26.36, 26.18, 26.11, 25.60), (1.88, 3.27, 4.18, 4.69, 4.95)),
        ("both, top-2", (26.49, 26.22, 25.90, 25.71, 25.04), (1.92, 3.47, 4.59, 5.34, 5.67)),
    )
}
"""Column of the published table -> k -> BLEU and mean accepted block size. The last column is from section
7.1, where tokens among the two most probable are accepted."""
_WHAT = {
    "regular": "frozen model",
    "distilled": "frozen model, distilled targets",
    "tuned": "fine-tuned model",
    "both": "fine-tuned model, distilled targets",
}
_NOTES = [
    "The published figures are those of Table 1 of Stern et al. 2018 (newstest2013, after 1,000,000 updates "
    "of the base model and as many of the heads), and for top-2 of section 7.1. Our first proposal is the "
    "model's own, without a further layer, so that BLEU does not depend on k where the model is frozen.",
    "`distilled_1` is trained, with another seed, on what the model of the row `regular_1` writes by beam "
    "search; the other rows add heads to one of these two models and train as long again.",
    "Speed is that of each sentence alone, in float32, on the validation text. `same` ought to be 1.",
]


def distilled_data(work: Work) -> Path:
    """The given data, but with the targets that the model of the first row writes."""
    teacher = _start_of(work, _FIRST)

    def written(part: str, sources: Sequence[str], targets: Sequence[str]) -> tuple[Sequence[str], ...]:
        if part == "train":
            translator = load_translator(teacher, device=work.device)
            targets = [each.text for each in translator.translate(sources)]
        return sources, targets

    return remade_data(work, f"distilled/{work.directory.name}", written, tokenizer_from=teacher)


def _start_of(work: Work, row: str) -> Path:
    """The run of a row without heads."""
    run = work.beside(row) / "run"
    if not run.exists():
        raise WeightsMissingError(
            f"{work.directory}: begins with the weights of the row {row}, compute it first"
        )
    return run


def measure(translator: Translator, sources: Sequence[str], references: Sequence[str]) -> dict[str, float]:
    """BLEU, mean accepted block and speed of a translator with heads, each sentence alone."""
    greedy, seconds = _timed(translator, sources, beam_size=1)
    found = {"bleu": _bleu(greedy, references), "mean_block": 1.0, "speed": 1.0, "same": 1.0}
    if translator.config.model.block == 1:
        return found
    counts = translator.engine.block_counts
    blocks, faster = _timed(translator, sources, blockwise=True)
    num_same = sum(one == other for one, other in zip(greedy, blocks, strict=True))
    found |= {"mean_block": counts.mean_block, "speed": seconds / faster, "same": num_same / len(greedy)}
    of_top_2, _ = _timed(translator, sources, blockwise=True, accept_top=2)
    return found | {"bleu_top_2": _bleu(of_top_2, references), "mean_block_top_2": counts.mean_block}


def _timed(translator: Translator, sources: Sequence[str], **search: Any) -> tuple[list[str], float]:
    translator.engine.block_counts.clear()
    began = time.perf_counter()
    found = translator.translate(sources, batch_size=1, workers=1, **search)
    return [each.text for each in found], time.perf_counter() - began


def _bleu(found: Sequence[str], references: Sequence[str]) -> float:
    return bleu_of(choose_tokens("", references))(found, references).value


def _row(column: str, k: int) -> Row:
    """The row of a cell of the published table."""
    published = _PUBLISHED[column][k]
    paper = dict(zip(("bleu", "mean_block"), published, strict=True))
    if column == "both":
        paper |= zip(("bleu_top_2", "mean_block_top_2"), _PUBLISHED["both, top-2"][k], strict=True)
    is_distilled = column in ("distilled", "both")
    start = "distilled_1" if is_distilled else _FIRST

    def compute(work: Work) -> Mapping[str, Any]:
        data = distilled_data(work) if is_distilled else work.data
        config, seed = work.scale(base()), work.seed
        if k > 1:
            training = {
                "init_from": str(_start_of(work, start)),
                "frozen": _FROZEN[column],
            }
            config = config.replace(model={"block": k}, training=training)
        elif is_distilled:
            seed += _OF_ANOTHER_SEED
        run = train_in(replace(work, seed=seed), config, data)
        given = PreparedData(work.data)
        sources, references = (given.lines("valid", side) for side in ("source", "target"))
        return measure(load_translator(run, device=work.device), sources, references)

    name = f"{column}_{k}"
    made_of = () if name == _FIRST else (_FIRST,) if name == start else (start,)
    what = f"{_WHAT[column]}, k = {k}"
    return Row(name, what, compute, paper, every_seed=False, baselines=(), made_of=made_of)


def _rows(scale: Scale) -> Sequence[Row]:
    return [_row(column, k) for column in _WHAT for k in _PUBLISHED[column]]


BLOCKWISE = Experiment(
    "blockwise",
    "Less sequential generation (7): blockwise parallel decoding",
    _rows,
    {
        "bleu": Figure("BLEU", "sacreBLEU (13a) of greedy search"),
        "mean_block": Figure("accepted block", "mean number of tokens accepted at once"),
        "speed": Figure("speed", "time of greedy search, divided by that of blockwise decoding"),
        "same": Figure("same", "share of outputs that are those of greedy search"),
        "bleu_top_2": Figure("BLEU, top-2", "where one of the two most probable tokens is accepted"),
        "mean_block_top_2": Figure("accepted block, top-2", "mean number of tokens accepted at once there"),
    },
    require_validation,
    notes=_NOTES,
    timed=["speed"],
    num_seeds=1,
)
