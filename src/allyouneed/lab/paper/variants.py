"""Variants of the model that are in no table of the paper: one of the paper's source, and others."""

from collections.abc import Mapping, Sequence
from typing import Any

from allyouneed.config.fidelity import with_recipe
from allyouneed.config.presets import base
from allyouneed.lab.paper.experiment import Experiment, Figure, Figures, Row
from allyouneed.lab.paper.scales import Scale
from allyouneed.lab.paper.training_rows import FIGURES, preset_row, require_validation, training_row

_AOP_NOTES = [
    "`aop1` and `aop2`: the paper trains both for 16 hours instead of 12, that is, with steps 1.3 times as "
    "long as the base model's. Our step time ratio is the base model's median tokens per second divided by "
    "the row's; trust it only on an otherwise idle machine.",
]


def step_time_ratio(figures: Figures, of_base: Figures) -> Figures:
    """Time per token relative to base with the same seed; empty if either speed is unknown."""
    ours, base = (found.get("tokens_per_second") for found in (figures, of_base))
    return {"step_time_ratio": base / ours} if ours and base else {}


def _aop_rows(scale: Scale) -> Sequence[Row]:
    return [
        preset_row("base", "feed-forward network", (4.92, 25.8), every_seed=True, step_time_ratio=1.0),
        preset_row("aop1", "h_p = 8, n_p = 1536", (4.92, 25.5), every_seed=True, step_time_ratio=1.3),
        preset_row("aop2", "h_p = 16, n_p = 512", (4.86, 25.9), every_seed=True, step_time_ratio=1.3),
    ]


AOP = Experiment(
    "aop",
    "Attention over parameters in place of the feed-forward networks",
    _aop_rows,
    FIGURES
    | {
        "tokens_per_second": Figure(
            "tokens per second", "median target tokens per second in training", judged=True
        ),
        "step_time_ratio": Figure(
            "step time ratio", "time per target token divided by that of the first row"
        ),
    },
    require_validation,
    step_time_ratio,
    _AOP_NOTES,
    timed=["tokens_per_second"],
)


_NOTES = [
    "The paper has no figures for these variants.",
    "`pre_norm`: others report about 1 BLEU less than with post-norm, with 6 layers.",
    "`attention_dropout`, `attention_dropout_03`: the paper's source tried 0.2 and 0.3 and says that they "
    "helped, in a draft more than any other regulariser. `both_dropouts` is that draft's base model, "
    "`d_ff_8192` its larger one; `no_dropout` and `no_smoothing` leave out the others.",
    "`experts` has 8 experts as wide as the feed-forward network, 2 of which compute each token.",
    "`neighbourhood` has 16 keys per query: 8 before it and 7 after it, in the decoder 15 before it.",
    "`released_later`: if a scale sets the warm-up and the factor of the learning rate, these replace the "
    "recipe's.",
]
_MODELS: dict[str, Mapping[str, Any]] = {
    "additive": {"attention": "additive"},
    "unscaled": {"attention": "unscaled"},
    "neighbourhood": {"neighbourhood": 16},
    "over_parameters": {"feed_forward": "parameters"},
    "experts": {"feed_forward": "experts", "num_experts": 8},
    "gelu": {"activation": "gelu"},
    "swish": {"activation": "swish"},
    "pre_norm": {"norm": "pre"},
    "d_ff_8192": {"d_ff": 8_192},
    "attention_dropout": {"attention_dropout": 0.2},
    "attention_dropout_03": {"attention_dropout": 0.3},
    "symbol_dropout": {"symbol_dropout": 0.1},
    "both_dropouts": {"attention_dropout": 0.2, "symbol_dropout": 0.1},
    "no_dropout": {"dropout": 0.0},
    "concatenated": {"positions": "concatenated"},
    "learned_positions": {"positions": "learned"},
    "rotary": {"positions": "rotary"},
    "alibi": {"positions": "alibi"},
    "relative": {"positions": "relative"},
    "no_bias": {"attention_bias": False},
    "zeros": {"decoder_start": "zeros"},
    "target_space": {"target_space": True},
}


def _rows(scale: Scale) -> Sequence[Row]:
    rows = [training_row("base", "-", base(), {})]
    for name, model in _MODELS.items():
        settings = " ".join(f"{k} = {v}" for k, v in model.items())
        rows.append(training_row(name, settings, base().replace(model=model), {}, every_seed=False))
    no_smoothing = base().replace(training={"label_smoothing": 0.0})
    rows.append(training_row("no_smoothing", "label_smoothing = 0", no_smoothing, {}, every_seed=False))
    for recipe in ("released-2017", "released-later"):
        config = with_recipe(recipe, base())
        rows.append(training_row(recipe.replace("-", "_"), recipe, config, {}, every_seed=False))
    return rows


VARIANTS = Experiment(
    "variants",
    "Variants of the model, beside the base model",
    _rows,
    FIGURES,
    require_validation,
    notes=_NOTES,
)
