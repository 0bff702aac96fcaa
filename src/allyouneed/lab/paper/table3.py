"""Table 3 (6.2): variations of the base model, on the development set, without averaging."""

from collections.abc import Sequence
from dataclasses import replace

from allyouneed.config.presets import PRESETS
from allyouneed.config.run import RunConfig
from allyouneed.lab.paper.experiment import Experiment, Row
from allyouneed.lab.paper.scales import Scale
from allyouneed.lab.paper.training_rows import FIGURES, preset_row, require_validation

_NOTES = [
    "The paper's BLEU is measured on newstest2013 with its own tokenisation, ours on the validation text "
    "with sacreBLEU's 13a: compare the columns by their differences from the base row.",
    "Perplexities are per sub-word of the vocabulary in use.",
    "`big`: the paper trains it three times as long as the others; ours, below the paper's scale, as long.",
]


_ROWS = (
    ("base", "-", (4.92, 25.8)),
    ("table3_heads_1", "(A) h = 1", (5.29, 24.9)),
    ("table3_heads_4", "(A) h = 4", (5.00, 25.5)),
    ("table3_heads_16", "(A) h = 16", (4.91, 25.8)),
    ("table3_heads_32", "(A) h = 32", (5.01, 25.4)),
    ("table3_dk_16", "(B) d_k = 16", (5.16, 25.1)),
    ("table3_dk_32", "(B) d_k = 32", (5.01, 25.4)),
    ("table3_layers_2", "(C) N = 2", (6.11, 23.7)),
    ("table3_layers_4", "(C) N = 4", (5.19, 25.3)),
    ("table3_layers_8", "(C) N = 8", (4.88, 25.5)),
    ("table3_d_model_256", "(C) d_model = 256", (5.75, 24.5)),
    ("table3_d_model_1024", "(C) d_model = 1024", (4.66, 26.0)),
    ("table3_d_ff_1024", "(C) d_ff = 1024", (5.12, 25.4)),
    ("table3_d_ff_4096", "(C) d_ff = 4096", (4.75, 26.2)),
    ("table3_dropout_00", "(D) P_drop = 0.0", (5.77, 24.6)),
    ("table3_dropout_02", "(D) P_drop = 0.2", (4.95, 25.5)),
    ("table3_smoothing_00", "(D) eps_ls = 0.0", (4.67, 25.3)),
    ("table3_smoothing_02", "(D) eps_ls = 0.2", (5.47, 25.7)),
    ("table3_learned_positions", "(E) learned positions", (4.92, 25.7)),
)
"""Preset, difference from the first row, perplexity and BLEU in the paper."""
_WITH_BIG = ("tiny", "paper")
"""Scales with the big row."""


def _rows(scale: Scale) -> Sequence[Row]:
    """All rows. If several coincide at a small scale, only the last, in proportion, is there."""
    rows: list[Row] = []
    configs: list[RunConfig] = []
    for preset, what, scores in _ROWS:
        row, config = preset_row(preset, what, scores, every_seed=True), scale(PRESETS[preset]())
        if config in configs:
            place = configs.index(config)
            del configs[place]
            before = rows.pop(place)
            same = f"{row.what}; the same at this scale: {before.what}"
            row = replace(row, what=same, same=[*before.same, before.name, *row.same])
        rows.append(row)
        configs.append(config)
    # At most scales, the big row would be the largest by far.
    return [*rows, preset_row("big", "big", (4.33, 26.4))] if scale.name in _WITH_BIG else rows


TABLE3 = Experiment(
    "table3",
    "Table 3: variations on the Transformer architecture",
    _rows,
    FIGURES,
    require_validation,
    notes=_NOTES,
)
