"""Attention over parameters in place of the feed-forward network (a table of the paper's source)."""

from collections.abc import Sequence

from allyouneed.lab.paper.experiment import Experiment, Figures, Row
from allyouneed.lab.paper.scales import Scale
from allyouneed.lab.paper.training_rows import FIGURES, preset_row, require_validation

_NOTES = [
    "`aop1` and `aop2`: the paper trains both for 16 hours instead of 12, that is, with steps 1.3 times as "
    "long as the base model's. Our step time ratio is the base model's median tokens per second divided by "
    "the row's; trust it only on an otherwise idle machine.",
]


def step_time_ratio(figures: Figures, of_base: Figures) -> Figures:
    """Time per token relative to base with the same seed; empty if either speed is unknown."""
    ours, base = (found.get("tokens_per_second") for found in (figures, of_base))
    return {"step_time_ratio": base / ours} if ours and base else {}


def _rows(scale: Scale) -> Sequence[Row]:
    return [
        preset_row("base", "feed-forward network", (4.92, 25.8), every_seed=True, step_time_ratio=1.0),
        preset_row("aop1", "h_p = 8, n_p = 1536", (4.92, 25.5), every_seed=True, step_time_ratio=1.3),
        preset_row("aop2", "h_p = 16, n_p = 512", (4.86, 25.9), every_seed=True, step_time_ratio=1.3),
    ]


AOP = Experiment(
    "aop",
    "Attention over parameters in place of the feed-forward networks",
    _rows,
    FIGURES | {"tokens_per_second": True, "step_time_ratio": False},
    require_validation,
    step_time_ratio,
    _NOTES,
    timed=["tokens_per_second"],
)
