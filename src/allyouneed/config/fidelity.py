"""Recipes from the paper and from its authors' code, and a configuration's deviations from the paper."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from allyouneed.config.model import ModelConfig
from allyouneed.config.presets import PAPER_PRESETS, PRESETS
from allyouneed.config.run import RunConfig

_RELEASED_2017: dict[str, dict[str, Any]] = {
    "model": {"positions": "concatenated", "decoder_start": "zeros", "target_space": True},
    "training": {"label_smoothing_over": "others"},
}
_RELEASED_LATER: dict[str, dict[str, Any]] = {
    "model": {
        **_RELEASED_2017["model"],
        **{"norm": "pre", "attention_dropout": 0.1, "feed_forward_dropout": 0.1, "attention_bias": False},
    },
    "training": {
        **_RELEASED_2017["training"],
        **{"adam_beta2": 0.997, "learning_rate_factor": 2.0, "warmup_steps": 8_000},
    },
}

RECIPES: dict[str, Mapping[str, Mapping[str, Any]]] = {
    "paper": {},
    "released-2017": _RELEASED_2017,
    "released-later": _RELEASED_LATER,
}
"""Recipe -> settings that it changes: "released-2017" follows tensor2tensor's first release,
"released-later" its final defaults."""

_NOT_PART_OF_IT = {
    "data": {
        *("max_tokens", "max_length_ratio", "vocab_sample_bytes"),
        *("source_language", "target_language", "directions"),
    },
    "model": {*("source_vocab_size", "target_vocab_size", "ids_per_word", "max_positions")},
    "training": {
        *("micro_batch_tokens", "keep_checkpoints", "validate_every_steps", "precision"),
        *("packed_tokens", "compiled", "threads_share", "sharded", "block_pairs", "seed"),
        *("planned_seconds", "moved_end", "init_sha256"),
    },
    "search": {"alignments", "alignment_layer", "alignment_head", "temperature", "top_k", "top_p", "seed"},
}
"""Settings that do not affect the paper's results, or that depend on the data."""

_REMARKS = {
    "model.architecture": "a rival of Table 2",
    "model.norm": "3.1 normalises after the sum; normalising before costs about 1 BLEU with 6 layers",
    "model.activation": "3.3 has a ReLU",
    "model.attention": "3.2.1 divides by sqrt(d_k)",
    "model.neighbourhood": "section 4 leaves restricted self-attention to future work",
    "model.attention_dropout": "in the paper's source only, where 0.2 and 0.3 were tried",
    "model.symbol_dropout": "in the paper's source only, at 0.1",
    "model.guided_alignment": "not in the paper; as in Garg et al. 2019",
    "model.guided_layer": "not in the paper; as in Garg et al. 2019",
    "model.block": "section 7 names the aim; as in Stern et al. 2018",
    "model.feed_forward": "3.3; attention over parameters is in the paper's source only",
    "model.positions": "3.5; learned: Table 3 (E), concatenated: the 2017 code, others: later work",
    "model.decoder_start": "the 2017 code shifts in zeros",
    "model.target_space": "the 2017 code adds a learned vector to the source",
    "model.tied_embeddings": "3.4 shares one matrix among all three",
    "training.label_smoothing_over": "the 2017 code spreads it over the other entries",
    "training.optimizer": "5.3",
    "training.schedule": "5.3, equation 3",
    "training.adam_beta2": "5.3",
    "training.learning_rate_factor": "5.3 has no factor",
    "training.warmup_steps": "5.3",
    "training.batch_tokens": "5.1: about 25,000 per side, which 26,500 with padding hold",
    "search.length_normalization": "6.1 uses that of Wu et al. 2016",
}


@dataclass(frozen=True)
class Deviation:
    """A setting that differs from the paper's."""

    setting: str
    value: object
    paper: object
    """The paper's value; None if it has none."""
    remark: str


def with_recipe(recipe: str, config: RunConfig) -> RunConfig:
    """Apply a recipe of `RECIPES` to a configuration; presets already follow the paper's recipe."""
    return config.replace(**RECIPES[recipe])


def nearest_of_paper(config: RunConfig) -> str:
    """The name of the paper's preset for the same task and sizes that differs in the fewest settings.

    If no preset has these sizes, the first preset for the task; if the paper lacks the task, base.
    """
    names = [name for name in PAPER_PRESETS if PRESETS[name]().data.task == config.data.task]
    names = names or list(PAPER_PRESETS)
    same = [name for name in names if sizes(PRESETS[name]().model) == sizes(config.model)]
    return min(same or names[:1], key=lambda name: len(list(_differences(config, PRESETS[name]()))))


def sizes(model: ModelConfig) -> tuple[object, ...]:
    """The settings that distinguish the sizes of Table 3."""
    widths = model.d_model, model.d_ff, model.num_heads, *model.head_widths
    return model.architecture, model.num_layers, *widths


def deviations(config: RunConfig) -> list[Deviation]:
    """Every setting that differs from the nearest of the paper's presets."""
    found = list(_differences(config, PRESETS[nearest_of_paper(config)]()))
    if config.model.attention_bias and config.model.architecture == "transformer":
        remark = "the formula of 3.2.2 has no biases, the counts of Table 3 need them"
        return [Deviation("model.attention_bias", True, False, remark), *found]
    return found


def _differences(config: RunConfig, paper: RunConfig) -> Iterator[Deviation]:
    widths = zip(("d_k", "d_v"), config.model.head_widths, paper.model.head_widths, strict=True)
    same_widths = {name for name, width, of_paper in widths if width == of_paper}
    for group, left_out in _NOT_PART_OF_IT.items():
        passed_over = left_out | same_widths | _unused(config) | {"attention_bias"}
        given, printed = getattr(config, group), getattr(paper, group)
        for name, value in given:
            of_paper = getattr(printed, name)
            if name not in passed_over and value != of_paper:
                setting = f"{group}.{name}"
                yield Deviation(setting, value, of_paper, _REMARKS.get(setting, ""))


def _unused(config: RunConfig) -> set[str]:
    names = config.model.model_dump()
    over_parameters = {name for name in names if name.startswith("parameter_")}
    of_experts = {name for name in names if "expert" in name}
    unused = {"network": over_parameters | of_experts, "parameters": of_experts | {"d_ff"}}
    return {*unused.get(config.model.feed_forward, over_parameters), "kernel_width"}
