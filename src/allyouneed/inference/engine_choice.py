"""Chooses the fastest engine that supports every part of a model."""

import copy
from collections.abc import Sequence
from typing import get_args

from allyouneed.config.run import DecodingPrecision
from allyouneed.config.settings import require_counts
from allyouneed.errors import UsageError
from allyouneed.hardware.processor import available_cores
from allyouneed.inference.engine import Engine
from allyouneed.inference.ensemble import Ensemble
from allyouneed.inference.native_engine import NativeEngine
from allyouneed.inference.native_layers import unknown_setting
from allyouneed.inference.stored_model import MisfitError, Model, StoredModel
from allyouneed.inference.vocabulary_shortlist import Shortlist
from allyouneed.native.library import available, found


def build_engine(
    model: Model,
    precision: DecodingPrecision = "float32",
    threads: int = 1,
    shortlist: Shortlist | None = None,
) -> Engine:
    """Build the fastest engine for a model on its device, the CPU if it is a stored one.

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
    unknown = unknown_part(model)
    if unknown is None and precision in available() and _is_on_cpu(model):
        try:
            return NativeEngine(model, precision, threads, shortlist)
        except MisfitError:
            if isinstance(model, StoredModel):
                _ = model.module  # raises an error that says all that is wrong
            raise
    if precision == "int8" and unknown is not None:
        raise UsageError(
            f"precision int8: the kernels do not support a part of this model ({unknown}); "
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
    from allyouneed.inference.stepwise import StepwiseEngine
    from allyouneed.inference.torch_engine import TorchEngine
    from allyouneed.model.encoder_decoder import StepwiseModel

    module = model.module if isinstance(model, StoredModel) else model
    module = copy.deepcopy(module).bfloat16() if precision == "bfloat16" else module
    if isinstance(module, StepwiseModel):
        return StepwiseEngine(module, shortlist)
    return TorchEngine(module, shortlist)


def build_engines(
    models: Sequence[Model],
    precision: DecodingPrecision,
    threads: int,
    shortlist: Shortlist | None = None,
) -> tuple[Engine, int]:
    """Build an engine, or an ensemble for several models, and count the workers that fit the CPU cores.

    The arguments are those of `build_engine`; the models have the same vocabularies.

    Raises:
        UsageError: This machine or model does not support the precision, or `threads` is out of range.
    """
    require_counts(threads=threads)
    engines = [build_engine(model, precision, threads, shortlist) for model in models]
    workers = available_cores() // threads if isinstance(engines[0], NativeEngine) else 1
    return Ensemble(engines) if len(engines) > 1 else engines[0], max(1, workers)


def unknown_part(model: Model) -> str | None:
    """A setting or a module that `NativeEngine` does not support; None if it supports all.

    Other models are decoded by `TorchEngine`, which uses the model's own modules.
    """
    if isinstance(model, StoredModel):
        return unknown_setting(model.config)
    from allyouneed.inference.torch_engine import unknown_module

    return unknown_setting(model.config) or unknown_module(model)


def _is_on_cpu(model: Model) -> bool:
    return isinstance(model, StoredModel) or next(model.parameters()).device.type == "cpu"
