"""Whatever the format: what is exported, from where, and what is refused before anything is written."""

import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from typing import get_args

import pytest

from allyouneed.config.model import ModelConfig
from allyouneed.errors import ModelError, UsageError
from allyouneed.interop.export_limits import OF_PIECES
from allyouneed.interop.exporting import FORMATS, export_model
from allyouneed.storage.checkpoint import store_rounded
from allyouneed.storage.publish import read_manifest, sha256_of

RandomModel = Callable[..., Path]


OF_ANY_SUB_WORDS = [name for name in FORMATS if name not in OF_PIECES]
"""Formats that models of the other tests can be exported to; the others have tests of their own."""


@pytest.fixture(params=OF_ANY_SUB_WORDS)
def name(request: pytest.FixtureRequest) -> str:
    """Of a format whose software is installed."""
    if importlib.util.find_spec(package := FORMATS[request.param].package) is None:
        pytest.skip(f"NOT RUN: needs {package}")
    return str(request.param)


@pytest.mark.parametrize("name", FORMATS)
def test_software_that_is_not_installed_is_told_with_how_to_get_it(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, package := FORMATS[name].package, None)
    with pytest.raises(UsageError, match=rf"^to {name}: needs {package}; install it with: pip"):
        export_model(tmp_path / "model", name, tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


def test_of_a_run_the_latest_checkpoint_is_exported_and_named(
    name: str, toy_run: Path, tmp_path: Path
) -> None:
    export_model(toy_run, name, tmp_path / "out")
    manifest = read_manifest(tmp_path / "out", name)
    assert manifest["exported_from"] == "step-00000120"
    weights = toy_run / "checkpoints" / "step-00000120" / "model.safetensors"
    assert manifest["weights_sha256"] == sha256_of(weights)


def test_a_model_in_8_bits_is_exported_in_float32(name: str, toy_model: Path, tmp_path: Path) -> None:
    store_rounded(toy_model, tmp_path / "small")
    export_model(tmp_path / "small", name, tmp_path / "out")  # which compares results
    before, after = (
        sum(file.stat().st_size for file in (tmp_path / folder).iterdir()) for folder in ("small", "out")
    )
    assert after > 2 * before


def test_heads_of_other_widths_are_refused(name: str, random_model: RandomModel, tmp_path: Path) -> None:
    for widths in ({"d_k": 4}, {"d_v": 4}, {"d_k": 4, "d_v": 4}):
        model = random_model(**widths)
        with pytest.raises(ModelError, match="has only heads with d_k = d_v = d_model / num_heads = 8"):
            export_model(model, name, tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    "variant",
    [
        {"autoregression": "ssru"},
        {"attention": "additive"},
        {"neighbourhood": 8},
        {"feed_forward": "parameters"},
        {"target_space": True},
    ],
)
def test_variants_of_the_architecture_are_refused_by_name(
    name: str, variant: dict[str, object], random_model: RandomModel, tmp_path: Path
) -> None:
    [(setting, value)] = variant.items()
    with pytest.raises(ModelError, match=rf"does not have this variant .* \(model.{setting} = {value}\)"):
        export_model(random_model(**variant), name, tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("activation", get_args(ModelConfig.model_fields["activation"].annotation))
def test_every_activation_is_exported_or_refused_by_name(
    name: str, activation: str, random_model: RandomModel, tmp_path: Path
) -> None:
    try:
        export_model(random_model(activation=activation), name, tmp_path / "out")
    except ModelError as error:
        assert f"(model.activation = {activation})" in str(error)  # noqa: PT017 - both are right
    else:
        assert read_manifest(tmp_path / "out", name)


def test_a_parser_is_refused(name: str, toy_parser: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is a model for parsing; only translators are exported"):
        export_model(toy_parser, name, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_folder_that_is_not_empty_is_left_alone(name: str, toy_model: Path, tmp_path: Path) -> None:
    (tmp_path / "kept").write_bytes(b"")
    with pytest.raises(UsageError, match="exists and is not empty"):
        export_model(toy_model, name, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["kept"]


def test_the_same_model_gives_the_same_files(name: str, toy_model: Path, tmp_path: Path) -> None:
    files = []
    for out in ("first", "second"):
        export_model(toy_model, name, tmp_path / out)
        files.append(read_manifest(tmp_path / out)["files"])
    assert files[0] == files[1]
