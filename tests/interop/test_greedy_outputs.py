"""Imported models write what they write in their own software: greedy outputs of 200 sentences.

Those of Marian are trained here by itself, which needs `pip install pymarian`; so were those in `fixtures`.
"""

import importlib.util
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from tests.interop.foreign_models import (
    SENTENCES,
    SSRU,
    TIED,
    argos_package,
    convert_to_ctranslate2,
    fine_tune,
    make_marian_folder,
    marian,
    run_marian,
)
from tests.packages import require_packages

from allyouneed import RunConfig, load_translator, train
from allyouneed.interop.exporting import export_model
from allyouneed.interop.importing import FORMATS, import_model

pytestmark = pytest.mark.release
require_packages("sentencepiece", "transformers", "ctranslate2", "yaml")

TEXTS = SENTENCES[:200]
MOST = 40
"""Number of tokens of an output that are compared."""


def transformers(folder: Path, **settings: Any) -> Path:
    path = make_marian_folder(folder / "opus", **settings)
    fine_tune(path, num_updates=400)
    return path


def ctranslate2(folder: Path, quantization: str | None = None) -> Path:
    return convert_to_ctranslate2(transformers(folder), folder / "ct2", quantization)


def argos(folder: Path) -> Path:
    return argos_package(transformers(folder), folder)


def guided(folder: Path) -> Path:
    return marian(folder, *TIED, "--guided-alignment", str(folder / "words"))


def bergamot(folder: Path) -> Path:
    """The same in the container of Bergamot, as floats."""
    model = marian(folder, *TIED)
    run_marian("convert", "--from", model, "--to", model.with_suffix(".bin"), "--gemm-type", "float32")
    return model.with_suffix(".bin")


SWISH = "--transformer-ffn-activation", "swish"
GELU = "--transformer-ffn-activation", "gelu"
UNTIED: dict[str, Any] = {"tie_word_embeddings": False, "share_encoder_decoder_embeddings": False}
MODELS: dict[str, Callable[[Path], Path]] = {
    "transformers": transformers,
    "transformers, ReLU, one layer": partial(transformers, activation_function="relu", decoder_layers=1),
    "transformers, GELU": partial(transformers, activation_function="gelu", scale_embedding=False),
    "transformers, untied": partial(transformers, **UNTIED),
    "CTranslate2": ctranslate2,
    "CTranslate2, int8": partial(ctranslate2, quantization="int8"),
    "CTranslate2, float16": partial(ctranslate2, quantization="float16"),
    "Argos": argos,
}
MARIAN: dict[str, Callable[[Path], Path]] = {
    "tied": lambda folder: marian(folder, *TIED),
    "target tied, GELU": lambda folder: marian(folder, "--tied-embeddings", "--dec-depth", "2", *GELU),
    "untied, Swish, one layer": lambda folder: marian(folder, "--dec-depth", "1", *SWISH),
    "guided": guided,
    "SSRU": lambda folder: marian(folder, *TIED, *SSRU),
    "Bergamot": bergamot,
}


@pytest.mark.parametrize("name", MODELS)
def test_models_of_transformers_and_ctranslate2(name: str, tmp_path: Path) -> None:
    require_same_outputs(MODELS[name](tmp_path), tmp_path / "model")


@pytest.mark.skipif(importlib.util.find_spec("pymarian") is None, reason="NOT RUN: needs pymarian")
@pytest.mark.parametrize("name", MARIAN)
def test_models_of_marian(name: str, tmp_path: Path) -> None:
    require_same_outputs(MARIAN[name](tmp_path), tmp_path / "model")


@pytest.mark.parametrize("source_end", [True, False])
def test_pre_norm_in_ctranslate2(toy_data: Path, source_end: bool, tmp_path: Path) -> None:
    sizes = {
        "d_model": 64,
        "d_ff": 128,
        "num_heads": 2,
        "num_layers": 2,
        "norm": "pre",
        "source_end": source_end,
    }
    steps = {"num_steps": 100, "warmup_steps": 50, "batch_tokens": 800, "micro_batch_tokens": 800}
    train(tmp_path / "run", toy_data, RunConfig().replace(model=sizes, training=steps))
    export_model(tmp_path / "run", "ctranslate2", tmp_path / "ct2")
    require_same_outputs(tmp_path / "ct2", tmp_path / "model")


def require_same_outputs(foreign: Path, model: Path) -> None:
    """Import a model; log-probabilities agree within 1e-4, and all greedy outputs."""
    proof = import_model(foreign, model)
    assert proof.difference is not None
    assert proof.difference < 1e-4
    original = FORMATS[proof.format].read(foreign)
    theirs = original.load().greedy([original.source.encode(text) for text in TEXTS], MOST)
    ours = load_translator(model).translate(TEXTS, beam_size=1, max_length=MOST)
    assert [each.text for each in ours] == [original.target.decode(ids) for ids in theirs]
    assert len({each.text for each in ours}) > 50
