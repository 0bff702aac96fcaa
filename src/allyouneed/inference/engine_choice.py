"""Chooses the fastest engine that supports every part of a model."""

import copy
from collections.abc import Sequence
from typing import TypeGuard, get_args

from torch import nn

from allyouneed.config.run import DecodingPrecision
from allyouneed.config.settings import require_counts
from allyouneed.errors import UsageError
from allyouneed.hardware.processor import available_cores
from allyouneed.inference.engine import Engine
from allyouneed.inference.ensemble import Ensemble
from allyouneed.inference.native_engine import NativeEngine
from allyouneed.inference.stepwise import StepwiseEngine
from allyouneed.inference.vocabulary_shortlist import Shortlist
from allyouneed.model import EncoderDecoder, Transformer
from allyouneed.model.attention import CrossAttention, SelfAttention, SoftmaxAttention, scaled_dot_products
from allyouneed.model.dropout import Dropout, SymbolDropout
from allyouneed.model.embedding import Embeddings
from allyouneed.model.encoder_decoder import StepwiseModel
from allyouneed.model.feed_forward import FeedForward
from allyouneed.model.guided_alignment import GuidedAttention
from allyouneed.model.layers import AddAndNorm, DecoderLayer, EncoderLayer, NormAndAdd
from allyouneed.model.positional_encoding import (
    LearnedPositions,
    NoEncodings,
    SinusoidalPositions,
    TargetSpace,
)
from allyouneed.model.relative_positions import ExactFloats, LinearBiases, RotaryPositions
from allyouneed.model.ssru import SSRU
from allyouneed.native.library import available, found
from allyouneed.native.stack import ACTIVATIONS

_KNOWN: set[type] = {
    Transformer,
    EncoderLayer,
    DecoderLayer,
    AddAndNorm,
    NormAndAdd,
    SelfAttention,
    CrossAttention,
    SoftmaxAttention,
    GuidedAttention,
    SSRU,
    RotaryPositions,
    LinearBiases,
    ExactFloats,
    FeedForward,
    Embeddings,
    SinusoidalPositions,
    LearnedPositions,
    NoEncodings,
    TargetSpace,
    Dropout,
    SymbolDropout,
    nn.Linear,
    nn.LayerNorm,
    nn.Identity,
    nn.ModuleList,
    nn.ParameterDict,
}
"""The module types that `NativeEngine` supports."""


def build_engine(
    model: EncoderDecoder,
    precision: DecodingPrecision = "float32",
    threads: int = 1,
    shortlist: Shortlist | None = None,
) -> Engine:
    """Build the fastest engine for a model on its current device.

    Args:
        model: The model, in float32.
        precision: Precision of the matrix products: float32, bfloat16 or int8.
        threads: Number of threads per matrix product (CPU only).
        shortlist: Shortlist of target tokens; default: the whole vocabulary.

    Raises:
        UsageError: This machine or model does not support the precision, or it is unknown.
    """
    if precision not in (known := get_args(DecodingPrecision)):
        raise UsageError(f"precision {precision}: take {', '.join(known)}", settings=["precision"])
    if next(model.parameters()).device.type == "cpu" and precision in available() and knows(model):
        return NativeEngine(model, precision, threads, shortlist)
    if precision == "int8" and not knows(model):
        raise UsageError(
            f"precision int8: the kernels do not support a part of this model ({_unknown_part(model)}); "
            "take float32 or bfloat16",
            settings=["precision"],
        )
    if precision == "int8" and precision in available():
        raise UsageError(
            "precision int8: is for the CPU; add device cpu, or take bfloat16",
            settings=["precision", "device"],
        )
    if precision == "int8":
        raise UsageError(
            f"precision int8: needs the C kernels, which are not available ({found().origin}); "
            "take float32 or bfloat16",
            settings=["precision"],
        )
    model = copy.deepcopy(model).bfloat16() if precision == "bfloat16" else model
    return StepwiseEngine(model, shortlist) if isinstance(model, StepwiseModel) else Engine(model, shortlist)


def build_engines(
    models: Sequence[EncoderDecoder],
    precision: DecodingPrecision,
    threads: int,
    shortlist: Shortlist | None = None,
) -> tuple[Engine | Ensemble, int]:
    """Build an engine, or an ensemble for several models, and count the workers that fit the CPU cores.

    The arguments are those of `build_engine`; the models have the same vocabularies.

    Raises:
        UsageError: This machine or model does not support the precision, or `threads` is out of range.
    """
    require_counts(threads=threads)
    engines = [build_engine(model, precision, threads, shortlist) for model in models]
    workers = available_cores() // threads if isinstance(engines[0], NativeEngine) else 1
    return Ensemble(engines) if len(engines) > 1 else engines[0], max(1, workers)


def knows(model: EncoderDecoder) -> TypeGuard[Transformer]:
    """Whether `NativeEngine` supports every part of the model.

    Other models are decoded by `Engine`, which uses the model's own modules.
    """
    return _unknown_part(model) is None


def _unknown_part(model: EncoderDecoder) -> str | None:
    """A part of the model that `NativeEngine` does not support; None if it supports all."""
    for module in model.modules():
        if type(module) not in _KNOWN:
            return type(module).__name__
        if isinstance(module, SoftmaxAttention) and module.compatibility is not scaled_dot_products:
            return f"attention = {model.config.attention}"
        if isinstance(module, FeedForward) and model.config.activation not in ACTIVATIONS:
            return f"activation = {model.config.activation}"
    return None if model.config.neighbourhood is None else "neighbourhood"
