"""No file of a published directory is used unless its manifest lists it, so that it has been checked."""

import hashlib
import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from tests.packages import require_packages

import allyouneed
from allyouneed.cli.program import main
from allyouneed.data.store import PairStore
from allyouneed.errors import ModelError
from allyouneed.inference.vocabulary_shortlist import Shortlist
from allyouneed.interop.exporting import export_model
from allyouneed.preparation.prepared_data import PreparedData
from allyouneed.storage.publish import MANIFEST
from allyouneed.storage.run_directory import resolve_model
from allyouneed.storage.training_state import load_training_state, save_training_state


def unlist(directory: Path, name: str) -> None:
    """Take a file, or all of them, from a manifest that is sealed anew, as somebody would who means harm."""
    manifest = json.loads((directory / MANIFEST).read_bytes())
    del manifest["manifest_sha256"]
    manifest["files"] = {} if name == "*" else {k: v for k, v in manifest["files"].items() if k != name}
    seal = hashlib.sha256(json.dumps(manifest).encode()).hexdigest()
    (directory / MANIFEST).write_bytes(json.dumps({**manifest, "manifest_sha256": seal}, indent=1).encode())


def require_refused(directory: Path, name: str, load: Callable[[Path], object]) -> None:
    load(directory)
    assert main(["verify", str(directory)]) == 0
    unlist(directory, name)
    assert main(["verify", str(directory)]) == 4
    with pytest.raises(ModelError) as caught:
        load(directory)
    unlisted = [message.partition(": is not listed in ")[0] for message in caught.value.messages]
    assert str(directory / name) in unlisted or name == "*"


@pytest.mark.parametrize(
    "name", ["*", "model.safetensors", "config.toml", "source_tokenizer.json", "target_tokenizer.json"]
)
@pytest.mark.parametrize("task", ["translation", "parsing"])
def test_a_model_with_an_unlisted_file_is_refused(
    request: pytest.FixtureRequest, tmp_path: Path, task: str, name: str
) -> None:
    """Promise: Unlisted files."""
    given = request.getfixturevalue({"translation": "toy_model", "parsing": "toy_parser"}[task])
    model = Path(shutil.copytree(resolve_model(given), tmp_path / "model"))
    require_refused(model, name, allyouneed.load)


def test_a_model_with_an_unlisted_tokeniser_is_not_exported(toy_model: Path, tmp_path: Path) -> None:
    """Promise: Unlisted files."""
    require_packages("transformers")
    model = Path(shutil.copytree(toy_model, tmp_path / "model"))
    unlist(model, "source_tokenizer.json")
    with pytest.raises(ModelError, match=r"source_tokenizer\.json: is not listed"):
        export_model(model, "huggingface", tmp_path / "out")


@pytest.mark.parametrize(
    "name",
    [
        "*",
        "source_tokenizer.json",
        "report.json",
        "train/header.json",
        "train/source-00000.bin",
        "valid/target_offsets.bin",
        "text/train.source",
    ],
)
def test_prepared_data_with_an_unlisted_file_is_refused(toy_data: Path, tmp_path: Path, name: str) -> None:
    """Promise: Unlisted files."""
    require_refused(Path(shutil.copytree(toy_data, tmp_path / "data")), name, PreparedData)


@pytest.mark.parametrize("name", ["*", "shortlist.safetensors"])
def test_a_shortlist_with_an_unlisted_file_is_refused(toy_data: Path, tmp_path: Path, name: str) -> None:
    """Promise: Unlisted files."""

    def learn() -> Shortlist:
        return Shortlist.learn(PairStore(toy_data / "train"), (290, 290), {})

    Shortlist.publish(tmp_path / "shortlist", learn, print)
    require_refused(tmp_path / "shortlist", name, Shortlist.load)


@pytest.mark.parametrize("name", ["*", "state.safetensors", "state.json"])
def test_a_state_with_an_unlisted_file_is_refused(tmp_path: Path, name: str) -> None:
    """Promise: Unlisted files."""
    optimizer = torch.optim.Adam(torch.nn.Linear(1, 1).parameters())
    save_training_state(tmp_path / "state", optimizer, {})
    require_refused(tmp_path / "state", name, lambda state: load_training_state(state, optimizer))
