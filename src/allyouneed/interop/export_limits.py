"""The models that each format of `export` can represent: their settings and their sub-words."""

from collections.abc import Container, Mapping
from types import MappingProxyType

from allyouneed.config.model import ModelConfig
from allyouneed.config.run import RunConfig
from allyouneed.tasks.catalogue import task_named

_OF_PAPER = (
    "front",
    *("architecture", "attention", "neighbourhood", "feed_forward", "activation", "norm", "autoregression"),
    *("num_decoder_layers", "scaled_embeddings", "output_bias", "positions", "decoder_start", "source_end"),
    *("target_space", "layer_norm_epsilon", "block"),
)
"""Settings that must have the paper's values, unless a format supports others."""


class _Any:
    """Every value."""

    def __contains__(self, value: object) -> bool:
        return True


Supported = Mapping[str, Container[object]]
"""Setting -> the values that a format can represent."""
_COMMON: dict[str, Container[object]] = {
    **dict.fromkeys(("num_decoder_layers", "output_bias"), _Any()),
    "activation": {"relu", "gelu", "swish"},
}
_CTRANSLATE2: Supported = {
    **_COMMON,
    **dict.fromkeys(("scaled_embeddings", "layer_norm_epsilon", "norm", "source_end"), _Any()),
    "positions": {"sinusoidal", "concatenated", "learned", "rotary"},
    "decoder_start": {"symbol", "zeros"},
}
_HUGGING_FACE: Supported = {
    **_COMMON,
    **dict.fromkeys(("scaled_embeddings", "layer_norm_epsilon"), _Any()),
    "positions": {"sinusoidal"},
    "decoder_start": {"symbol", "zeros"},
}
_MARIAN: Supported = {
    **_COMMON,
    "autoregression": _Any(),
    "positions": {"concatenated"},
    "decoder_start": {"zeros"},
}
SUPPORTED: Mapping[str, Supported] = MappingProxyType(
    {
        "ctranslate2": _CTRANSLATE2,
        "huggingface": _HUGGING_FACE,
        "marian": _MARIAN,
        "bergamot": _MARIAN,
        "web": _MARIAN,
        "argos": _CTRANSLATE2,
    }
)
"""Name of a format -> the supported values of settings in `_OF_PAPER`; other values are the paper's."""

FORMS = {"marian": {"positions": "concatenated", "decoder_start": "zeros", "norm": "post"}}
"""Form that `train --for` names -> the settings of a model in it."""
SUB_WORDS = "sentencepiece"
"""Value of `DataConfig.tokenizer` that the formats of `OF_PIECES` need."""
OF_PIECES = {"marian", "bergamot", "web", "argos"}
"""Formats with SentencePiece's sub-words only."""
_INT8_DIVISORS = {"d_model": 64, "d_ff": 64, "target_vocab_size": 8}
"""Setting of a model -> the number that must divide it for Bergamot's products in int8."""


def differences(to: str, config: ModelConfig) -> dict[str, object]:
    """The settings of a model that a format does not support, with their values."""
    paper = ModelConfig()
    given = {name: getattr(config, name) for name in _OF_PAPER}
    return {
        name: value
        for name, value in given.items()
        if value not in SUPPORTED[to].get(name, (getattr(paper, name),))
    }


def int8_misfits(config: ModelConfig) -> dict[str, int]:
    """The settings of a model that rule out int8 in Bergamot, and the number that must divide each."""
    return {name: by for name, by in _INT8_DIVISORS.items() if getattr(config, name) % by}


def has_plain_heads(config: ModelConfig) -> bool:
    """Whether d_k = d_v = d_model / num_heads, the only widths of heads in other software."""
    return {*config.head_widths} == {config.d_model / config.num_heads}


def possible_exports(config: RunConfig) -> list[str]:
    """The formats that a model trained with a configuration can be exported to."""
    return [to for to in SUPPORTED if _fits(to, config) and (to not in OF_PIECES or _has_pieces(config))]


def _fits(to: str, config: RunConfig) -> bool:
    """Whether a format supports the task, the architecture, and the number of languages of a model."""
    from allyouneed.tasks.translation.task import TRANSLATION

    model = config.model
    if task_named(config.data.task) is not TRANSLATION:
        return False
    if to == "huggingface" and model.decoder_start != "symbol":
        return False  # training changes the vector of the start symbol, with which its decoder would begin
    if (to in OF_PIECES and config.data.directions) or (to == "argos" and not config.data.joint_vocabulary):
        return False
    return has_plain_heads(model) and not differences(to, model)


def _has_pieces(config: RunConfig) -> bool:
    return config.data.tokenizer == SUB_WORDS


def exports_line(config: RunConfig) -> str:
    """One line: the formats that a trained model can be exported to, and what those of Marian require."""
    possible, needs, remarks = possible_exports(config), list[str](), list[str]()
    if differences("marian", config.model):
        needs.append("`allyouneed train --for marian`")
    if not _has_pieces(config):
        needs.append(f"`allyouneed prepare --tokenizer {SUB_WORDS}`")
    if needs and _fits("marian", config.replace(model=FORMS["marian"])):
        remarks.append(f" (marian, bergamot, web: {', '.join(needs)})")
    if "bergamot" in possible and int8_misfits(config.model):
        remarks.append(" (bergamot and web in float32 only)")
    return "".join([", ".join(possible) or "none", *remarks])
