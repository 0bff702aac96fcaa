"""The weights with which a student begins: as many of its teacher's as it has places for.

A student that is as wide as its teacher takes over its embeddings, its encoder, and of its uppermost decoder
layers all but the self-attention that a recurrent unit replaces. With normalisation before the sub-layers,
and no fewer layers and units than its teacher, its encoder computes what the teacher's does at first.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from allyouneed.config.model import ModelConfig
from allyouneed.config.run import RunConfig
from allyouneed.model.architectures import build_model
from allyouneed.preparation.prepared_data import PreparedData
from allyouneed.storage.checkpoint import load_checkpoint, save_checkpoint
from allyouneed.storage.run_directory import resolve_model
from allyouneed.training.update import seed_generators

if TYPE_CHECKING:
    from torch import Tensor

_MAY_DIFFER = {
    *("num_layers", "num_decoder_layers", "d_ff", "autoregression", "guided_alignment", "guided_layer"),
    "block",
    *("dropout", "attention_dropout", "feed_forward_dropout", "symbol_dropout"),
}
_ADDED = "self_attention.output.weight", "self_attention.output.bias", "outer.weight", "outer.bias"
"""Ends of names of weights that are 0 in encoder layers that the teacher lacks, so that these add nothing."""


def is_alike(student: ModelConfig, teacher: ModelConfig) -> bool:
    """Whether both have the same sizes and variants, but for depths, d_ff, and what only training uses."""
    return all(
        getattr(student, name) == getattr(teacher, name)
        for name in ModelConfig.model_fields
        if name not in _MAY_DIFFER
    )


def write_start(
    out: Path,
    config: RunConfig,
    teacher: Path,
    prepared: PreparedData,
    say: Callable[[str], None] = lambda line: None,
) -> bool:
    """Write a model for a run of a complete configuration to continue; whether the teacher suits.

    It does not suit, and nothing is written, if it has other sub-words, or is not alike.
    """
    found = load_checkpoint(resolve_model(teacher), prepared.tokenizers)
    if found.attachments != prepared.tokenizers or not is_alike(config.model, found.config.model):
        return False
    config = config.replace(training={"init_from": None})
    seed_generators(config.training.seed, 0, 0)
    drawn = build_model(config.model).state_dict()
    weights = student_weights(drawn, config.model, found.weights, found.config.model)
    save_checkpoint(out, config, weights, found.attachments, {})
    say(f"{out}: begins with the embeddings, the encoder and the upper decoder of {teacher}")
    return True


def student_weights(
    drawn: "Mapping[str, Tensor]", student: ModelConfig, given: "Mapping[str, Tensor]", teacher: ModelConfig
) -> "dict[str, Tensor]":
    """Weights of a student: those of its teacher where there are such, else those that were `drawn`.

    Of a deeper teacher, evenly spaced encoder layers are taken. A layer of the student that is wider inside
    has further units, which add nothing at first; a narrower one has the first units of the teacher.
    """
    weights = {name: tensor.clone() for name, tensor in drawn.items()}
    for name, own in weights.items():
        source = _name_in_teacher(name, student, teacher)
        if source is None and name.endswith(_ADDED):
            own.zero_()
        elif source is not None and (taken := given.get(source)) is not None:
            if name.endswith("outer.weight"):
                own.zero_()
            places = tuple(slice(min(sizes)) for sizes in zip(own.shape, taken.shape, strict=True))
            own[places] = taken[places]
    return weights


def _name_in_teacher(name: str, student: ModelConfig, teacher: ModelConfig) -> str | None:
    """The name that the same weights have in the teacher, if it has them; None if it lacks the layer."""
    part, _, rest = name.partition(".")
    layer, _, rest = rest.partition(".")
    if part == "decoder":
        return f"decoder.{int(layer) + teacher.decoder_layers - student.decoder_layers}.{rest}"
    if part != "encoder":
        return name
    if student.num_layers > teacher.num_layers:
        return f"encoder.{layer}.{rest}" if int(layer) < teacher.num_layers else None
    return f"encoder.{int(layer) * teacher.num_layers // student.num_layers}.{rest}"
