"""Matrices in 8 bits: the same steps on disk as in the kernels, float32 for all that reads them."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from safetensors.numpy import load_file, save_file
from tests.kernels import require_kernels

from allyouneed.config.run import RunConfig
from allyouneed.errors import ModelError, UsageError
from allyouneed.model.transformer import Transformer
from allyouneed.native.linear import Packed, layout_of, pack
from allyouneed.runs.loading import load_translator, model_of
from allyouneed.storage.checkpoint import load_checkpoint, save_checkpoint, store_rounded
from allyouneed.storage.publish import publish_directory, sha256_of
from allyouneed.storage.rounded_weights import map_weights, read_weights, rounded

Arrays = dict[str, NDArray[Any]]
TEXTS = ["sun sees moon", "wolf bear tree stone", "fish"]


@pytest.fixture(scope="module")
def small(toy_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The toy model with its matrices in 8 bits; not to be changed."""
    store_rounded(toy_model, out := tmp_path_factory.mktemp("rounded") / "small")
    return out


def rows(count: int, width: int, seed: int = 1) -> NDArray[np.float32]:
    """Random rows, of which each has another size."""
    draw = np.random.default_rng(seed)
    sizes = np.exp(draw.uniform(-40, 40, (count, 1)))
    return (draw.normal(size=(count, width)) * sizes).astype(np.float32)


def stored(folder: Path, arrays: Arrays, name: str = "w") -> Path:
    save_file(arrays, folder / f"{name}.safetensors")
    return folder / f"{name}.safetensors"


def restored(folder: Path, arrays: Arrays) -> Arrays:
    """The arrays after they were rounded, stored and read."""
    given = stored(folder, arrays, "given")
    return dict(map_weights(stored(folder, rounded(map_weights(given), given))))


def packed(matrix: NDArray[Any], *, pairs: bool = False) -> Packed:
    layout = layout_of("int8")
    layout.values, layout.pairs = 4, pairs
    return pack(matrix, np.zeros(len(matrix), np.float32), "int8", layout)


def test_a_matrix_by_hand(tmp_path: Path) -> None:
    matrix = np.array([[127, -63.4, 0.5, 1.5], [0, 0, 0, 0], [-2.54, 1.27, 0.01, 0]], np.float32)
    given = stored(tmp_path, {"m": matrix, "bias": matrix[0]}, "given")
    file = stored(tmp_path, rounded(map_weights(given), given))
    assert load_file(file)["m"].tolist() == [[127, -63, 0, 2], [0, 0, 0, 0], [-127, 64, 0, 0]]
    assert load_file(file)["m:scale"].tolist() == np.array([1, 0, 0.02], np.float32).tolist()
    assert {name: array.dtype for name, array in load_file(file).items()} == {
        **{"m": np.int8, "m:scale": np.float32, "bias": np.float32}
    }
    weights = map_weights(file)
    assert sorted(weights) == ["bias", "m"]
    assert len(weights) == 2
    np.testing.assert_array_equal(weights["bias"], matrix[0])
    expected = [[127, -63, 0, 2], [0, 0, 0, 0], [-2.54, 1.28, 0, 0]]
    np.testing.assert_allclose(weights["m"], np.array(expected, np.float32), rtol=1e-6)


def test_the_kernels_pack_the_same_bits_from_what_was_stored_and_from_what_it_was_rounded_from(
    tmp_path: Path,
) -> None:
    require_kernels()
    matrix = rows(20_000, 33)
    found = restored(tmp_path, {"m": matrix})["m"]
    assert (np.abs(found - matrix) <= np.abs(matrix).max(axis=1, keepdims=True) / 253).all()
    for before, after in zip(packed(matrix), packed(found), strict=True):
        np.testing.assert_array_equal(before, after)


def test_where_pairs_are_added_in_16_bits_the_kernels_pack_what_they_pack_from_the_same_float32(
    tmp_path: Path,
) -> None:
    """Their steps depend on sums of two weights, which rounding changes."""
    require_kernels()
    matrix = rows(50, 32)
    found = restored(tmp_path, {"m": matrix})["m"]
    np.testing.assert_array_equal(packed(found, pairs=True).weight, packed(found.copy(), pairs=True).weight)
    assert (packed(matrix, pairs=True).scale != packed(found, pairs=True).scale).any()


def test_rounding_again_changes_no_bit(tmp_path: Path) -> None:
    once = restored(tmp_path, {"m": rows(5_000, 33)})
    (tmp_path / "again").mkdir()
    np.testing.assert_array_equal(restored(tmp_path / "again", once)["m"], once["m"])


def test_only_matrices_are_rounded_and_of_whatever_size(tmp_path: Path) -> None:
    given = {
        "vector": rows(1, 9)[0],
        "cube": rows(4, 6).reshape(4, 2, 3),
        "none": rows(3, 0),
        "m": rows(3, 1),
    }
    found = restored(tmp_path, given)
    assert found.keys() == given.keys()
    for name, array in given.items():
        np.testing.assert_array_equal(found[name], array)


def test_float32_stays_mapped_and_tensors_are_the_same(tmp_path: Path, toy_model: Path, small: Path) -> None:
    weights = load_checkpoint(toy_model).arrays
    assert not weights.rounded
    assert not any(array.flags.owndata for array in weights.values())
    for path in (toy_model, small):
        checkpoint = load_checkpoint(path)
        assert checkpoint.weights.keys() == set(checkpoint.arrays)
        for name, tensor in checkpoint.weights.items():
            np.testing.assert_array_equal(tensor.numpy(), checkpoint.arrays[name])
            checkpoint.arrays.release(name)
            np.testing.assert_array_equal(tensor.numpy(), checkpoint.arrays[name])


def test_the_file_has_a_quarter_of_the_size(tmp_path: Path, config: RunConfig) -> None:
    wide = config.replace(model={"d_model": 256, "d_ff": 1024})
    save_checkpoint(tmp_path / "model", wide, Transformer(wide.model).state_dict(), {}, {})
    store_rounded(tmp_path / "model", tmp_path / "small")
    before, after = (
        load_checkpoint(tmp_path / name).weights_path.stat().st_size for name in ("model", "small")
    )
    assert 0.25 < after / before < 0.27


def test_its_copy_has_all_of_the_model_and_names_it(toy_run: Path, tmp_path: Path) -> None:
    store_rounded(toy_run, tmp_path / "small")
    model, copy = (
        load_checkpoint(toy_run / "checkpoints" / "step-00000120"),
        load_checkpoint(tmp_path / "small"),
    )
    assert (copy.config, copy.attachments) == (model.config, model.attachments)
    assert copy.manifest["parents"] == [
        {"checkpoint": "step-00000120", "sha256": sha256_of(model.weights_path)}
    ]
    assert copy.arrays.rounded == {name for name, array in model.arrays.items() if array.ndim == 2}


def test_it_translates_in_int8_with_the_bits_of_the_model_whose_tables_alone_are_rounded(
    toy_model: Path, small: Path, tmp_path: Path
) -> None:
    """Where pairs are added in 16 bits, the bits are those of all its values in float32."""
    require_kernels()
    model, copy = load_checkpoint(toy_model), load_checkpoint(small)
    is_table = {name: name.startswith("embeddings.") for name in copy.arrays}
    tables = {name: (copy if is_table[name] else model).arrays[name] for name in copy.arrays}
    for name, weights in (("whole", copy.arrays), ("tables", tables)):
        save_checkpoint(tmp_path / name, model.config, weights, model.attachments, {})
    chosen = ["whole"] if layout_of("int8").pairs else ["whole", "tables"]
    found = load_translator(small, precision="int8").translate(TEXTS)
    for name in chosen:
        assert load_translator(tmp_path / name, precision="int8").translate(TEXTS) == found
    assert load_translator(small).translate(TEXTS) == load_translator(tmp_path / "whole").translate(TEXTS)


def test_the_module_has_the_values_in_float32(small: Path) -> None:
    checkpoint = load_checkpoint(small)
    for name, tensor in model_of(checkpoint).state_dict().items():
        assert tensor.dtype == torch.float32
        np.testing.assert_array_equal(tensor.numpy(), checkpoint.arrays[name])


def test_a_model_that_is_rounded_already_is_refused(small: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=f"^{small}: has its matrices in int8 already; copy it as it is$"):
        store_rounded(small, tmp_path / "again")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize("name", ["embeddings.matrices.shared", "encoder.0.feed_forward.inner.bias"])
def test_weights_that_are_not_finite_are_not_rounded(
    toy_model: Path, tmp_path: Path, name: str, value: float
) -> None:
    model = load_checkpoint(toy_model)
    weights = {each: array.copy() for each, array in model.arrays.items()}
    weights[name].flat[7] = value
    save_checkpoint(tmp_path / "model", model.config, weights, {}, {})
    with pytest.raises(ModelError, match=f"{name} is not finite or not in float32; take another copy"):
        store_rounded(tmp_path / "model", tmp_path / "small")
    assert not (tmp_path / "small").exists()


M, SCALE = "encoder.0.feed_forward.inner.weight", "encoder.0.feed_forward.inner.weight:scale"
NO_MATRIX = f"{SCALE} belongs to no matrix in 8 bits"
NOT_ONE_EACH = f"{SCALE} is not one number in float32 for each of 128 rows"
OUT_OF_RANGE = f"{SCALE} holds values that are negative or not finite"
DAMAGE: dict[str, tuple[Callable[[Arrays], Any], str]] = {
    "missing": (lambda w: w.pop(SCALE), f"{M} is in 8 bits, but there is no {SCALE}"),
    "of nothing": (lambda w: w.pop(M), NO_MATRIX),
    "of float32": (lambda w: w.update({M: w[M].astype(np.float32)}), NO_MATRIX),
    "of a vector": (lambda w: w.update({M: w[M][0]}), NO_MATRIX),
    "of scales": (lambda w: w.update({f"{SCALE}:scale": w[SCALE]}), NO_MATRIX.replace(":", ":scale:")),
    "float64": (lambda w: w.update({SCALE: w[SCALE].astype(np.float64)}), NOT_ONE_EACH),
    "uint16": (lambda w: w.update({SCALE: w[SCALE].astype(np.uint16)}), NOT_ONE_EACH),
    "short": (lambda w: w.update({SCALE: w[SCALE][:-1]}), NOT_ONE_EACH),
    "a matrix": (lambda w: w.update({SCALE: w[SCALE][:, None]}), NOT_ONE_EACH),
    "a number": (lambda w: w.update({SCALE: np.ones((), np.float32)}), NOT_ONE_EACH),
    "infinite": (lambda w: w[SCALE].put(3, np.inf), OUT_OF_RANGE),
    "undefined": (lambda w: w[SCALE].put(3, np.nan), OUT_OF_RANGE),
    "negative": (lambda w: w[SCALE].put(3, -1), OUT_OF_RANGE),
}


@pytest.mark.parametrize("name", DAMAGE)
def test_a_damaged_file_is_refused_by_the_names_of_its_tensors(
    small: Path, tmp_path: Path, name: str
) -> None:
    change, fault = DAMAGE[name]
    arrays = {each: array.copy() for each, array in load_file(small / "model.safetensors").items()}
    change(arrays)
    with publish_directory(tmp_path / "model", "model") as aside:
        (aside / "config.toml").write_bytes((small / "config.toml").read_bytes())
        path = stored(aside, arrays, "model")
    path = tmp_path / "model" / path.name
    for read in (map_weights, read_weights, lambda path: load_checkpoint(path.parent)):
        with pytest.raises(ModelError) as error:
            read(path)
        assert error.value.messages == (f"{path}: {fault}; take another copy",)


def test_steps_that_no_rounding_gives_are_used_or_refused_as_what_they_are_worth(
    small: Path, tmp_path: Path
) -> None:
    arrays = {each: array.copy() for each, array in load_file(small / "model.safetensors").items()}
    arrays[M][0] = -128
    arrays[SCALE][0] = np.finfo(np.float32).max
    with publish_directory(tmp_path / "model", "model") as aside:
        (aside / "config.toml").write_bytes((small / "config.toml").read_bytes())
        stored(aside, arrays, "model")
    with pytest.raises(ModelError, match=f"{M} holds values that are not finite"):
        model_of(load_checkpoint(tmp_path / "model"))


def test_tensors_of_other_types_are_named_as_in_other_models(small: Path, tmp_path: Path) -> None:
    """The matrices in 8 bits are no faults."""
    arrays = load_file(small / "model.safetensors")
    arrays["encoder_norm.bias"] = np.zeros(3, np.float16)
    with publish_directory(tmp_path / "model", "model") as aside:
        (aside / "config.toml").write_bytes((small / "config.toml").read_bytes())
        stored(aside, arrays, "model")
    with pytest.raises(ModelError) as error:
        model_of(load_checkpoint(tmp_path / "model"))
    (message,) = error.value.messages
    assert "has a tensor encoder_norm.bias that the configuration does not know" in message
