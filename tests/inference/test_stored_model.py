"""A model as it is stored keeps what was loaded, whatever happens to its folder."""

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.kernels import require_kernels

from allyouneed.errors import ModelError
from allyouneed.inference.engine_choice import build_engine
from allyouneed.inference.native_engine import NativeEngine
from allyouneed.inference.stored_model import StoredModel
from allyouneed.runs.loading import load_translator
from allyouneed.storage.tensor_files import map_tensors


@pytest.fixture
def copy_of_model(toy_model: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(toy_model, tmp_path / "model"))


@pytest.mark.parametrize("shortened", [False, True])
def test_a_loaded_model_translates_and_aligns_when_its_folder_is_gone(
    copy_of_model: Path, shortened: bool
) -> None:
    require_kernels()
    expected = load_translator(copy_of_model).translate(["sun sees moon"], alignments=True)
    translator = load_translator(copy_of_model)
    if shortened:  # in place, as `cp` does; what is computed without PyTorch has been copied
        (copy_of_model / "model.safetensors").write_bytes(b"")
        assert translator.translate(["sun sees moon"])[0].text == expected[0].text
        return
    shutil.rmtree(copy_of_model)
    assert translator.translate(["sun sees moon"], alignments=True) == expected


def test_arrays_are_the_same_after_their_memory_was_given_back(toy_model: Path) -> None:
    arrays = map_tensors(toy_model / "model.safetensors")
    for name, array in arrays.items():
        before = array.copy()
        arrays.release(name)
        assert (arrays[name] == before).all()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda weights: weights.popitem(), "has no tensor"),
        (lambda weights: weights.update(more=np.zeros(2, np.float32)), "has a tensor more"),
        (lambda weights: next(iter(weights.values())).fill(np.nan), "holds values that are not finite"),
    ],
)
def test_weights_that_do_not_fit_are_refused_by_name(tiny_model: Any, change: Any, message: str) -> None:
    require_kernels()
    model = tiny_model().eval()
    weights = {name: array.copy() for name, array in StoredModel.of(model).weights.items()}
    assert isinstance(build_engine(StoredModel(model.config, weights, Path("w"))), NativeEngine)
    change(weights)
    with pytest.raises(ModelError, match=message):
        build_engine(StoredModel(model.config, weights, Path("w")))
    assert torch.isfinite(next(model.parameters())).all()
