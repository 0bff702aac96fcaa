"""Variants of the base model other than its sizes, to see whether each learns as well."""

from collections.abc import Mapping, Sequence
from typing import Any

from allyouneed.config.fidelity import with_recipe
from allyouneed.config.presets import base
from allyouneed.lab.paper.experiment import Experiment, Row
from allyouneed.lab.paper.scales import Scale
from allyouneed.lab.paper.training_rows import FIGURES, require_validation, training_row

_NOTES = [
    "The paper has no figures for these variants.",
    "`pre_norm`: others report about 1 BLEU less than with post-norm, with 6 layers.",
    "`attention_dropout`: the paper's source says that it helped.",
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
    "attention_dropout": {"attention_dropout": 0.2},
    "symbol_dropout": {"symbol_dropout": 0.1},
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
