import copy
import json
import pickle
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from torch.nn.modules.module import register_module_parameter_registration_hook

from allyouneed.config.run import RunConfig
from allyouneed.errors import ModelError
from allyouneed.model.transformer import Transformer
from allyouneed.model.weights import Weights, load_weights
from allyouneed.runs.loading import model_of
from allyouneed.storage.checkpoint import load_checkpoint, save_checkpoint, write_checkpoint
from allyouneed.storage.publish import publish_directory
from allyouneed.storage.tensor_files import read_tensors
from allyouneed.storage.training_state import load_training_state, save_training_state
from allyouneed.training.optimizer import build_optimizer

ATTACHMENTS = {"source_tokenizer.json": b'{"a": 1}', "target_tokenizer.json": b"\x00\xff"}
FILES = ["MANIFEST.json", "config.toml", "model.safetensors", *ATTACHMENTS]
STATE_FILES = ["MANIFEST.json", "state.json", "state.safetensors"]


@pytest.fixture
def weights(config: RunConfig) -> Weights:
    torch.manual_seed(1)
    return Transformer(config.model).state_dict()


@pytest.fixture
def directory(tmp_path: Path, config: RunConfig, weights: Weights) -> Path:
    save_checkpoint(tmp_path / "model", config, weights, ATTACHMENTS, {"step": 7})
    return tmp_path / "model"


def trained(config: RunConfig, updates: int) -> tuple[Transformer, torch.optim.Optimizer]:
    torch.manual_seed(1)
    model = Transformer(config.model)
    optimizer = build_optimizer(model, config.training)
    update(model, optimizer, updates)
    return model, optimizer


def update(model: Transformer, optimizer: torch.optim.Optimizer, times: int) -> None:
    generator = torch.Generator().manual_seed(times)
    for _ in range(times):
        optimizer.param_groups[0]["lr"] = 0.01
        for parameter in model.parameters():
            parameter.grad = torch.randn(parameter.shape, generator=generator)
        optimizer.step()


def faults_of(directory: Path) -> list[str]:
    """What building the model complains of, without the name of the file and what to do."""
    with pytest.raises(ModelError) as error:
        model_of(load_checkpoint(directory))
    assert all(message.endswith("; take another copy") for message in error.value.messages)
    return [
        message.removeprefix(f"{directory / 'model.safetensors'}: ").removesuffix("; take another copy")
        for message in error.value.messages
    ]


def flip_a_bit(path: Path, place: float) -> None:
    content = bytearray(path.read_bytes())
    content[int(place * (len(content) - 1))] ^= 1 << 4
    path.write_bytes(content)


def test_a_checkpoint_is_read_back_bit_for_bit(directory: Path, config: RunConfig, weights: Weights) -> None:
    checkpoint = load_checkpoint(directory)
    assert checkpoint.config == config
    assert checkpoint.attachments == ATTACHMENTS
    assert checkpoint.manifest["step"] == 7
    model = model_of(checkpoint)
    assert not model.training
    assert model.state_dict().keys() == weights.keys()
    assert all(torch.equal(tensor, weights[name]) for name, tensor in model.state_dict().items())


def test_a_checkpoint_holds_no_other_files_and_lists_them_all(directory: Path) -> None:
    assert sorted(path.name for path in directory.iterdir()) == sorted(FILES)
    assert sorted(load_checkpoint(directory).manifest["files"]) == sorted(FILES[1:])


@pytest.mark.parametrize("place", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("name", FILES)
def test_a_flipped_bit_in_any_file_is_refused_with_the_files_name(
    directory: Path, name: str, place: float
) -> None:
    flip_a_bit(directory / name, place)
    with pytest.raises(ModelError, match=f"{directory / name}: is damaged"):
        load_checkpoint(directory)


@pytest.mark.parametrize("name", FILES)
def test_a_truncated_file_is_refused_with_its_name(directory: Path, name: str) -> None:
    content = (directory / name).read_bytes()
    (directory / name).write_bytes(content[: len(content) // 2])
    with pytest.raises(ModelError, match=f"{directory / name}: "):
        load_checkpoint(directory)


@pytest.mark.parametrize("name", FILES)
def test_a_missing_file_is_refused_with_its_name(directory: Path, name: str) -> None:
    (directory / name).unlink()
    with pytest.raises(ModelError, match=f"{directory}.*{name}"):
        load_checkpoint(directory)


def test_all_tensors_that_do_not_fit_are_named_at_once(
    tmp_path: Path, config: RunConfig, weights: Weights
) -> None:
    missing, misshapen, mistyped, infinite, undefined = list(weights)[:5]
    del weights[missing]
    weights[misshapen] = torch.zeros(3, 5)
    weights[mistyped] = weights[mistyped].half()
    weights[infinite][..., -1] = torch.inf
    weights[undefined][..., 0] = torch.nan
    weights["spare"] = torch.zeros(1)
    save_checkpoint(tmp_path / "model", config, weights, {}, {})
    shape = tuple(Transformer(config.model).state_dict()[misshapen].shape)
    assert sorted(faults_of(tmp_path / "model")) == sorted(
        [
            f"has no tensor {missing}",
            f"{misshapen} is (3, 5), {shape} expected",
            f"{mistyped} is torch.float16, torch.float32 expected",
            f"{infinite} holds values that are not finite",
            f"{undefined} holds values that are not finite",
            "has a tensor spare that the configuration does not know",
        ]
    )


def test_weights_of_another_configuration_are_refused(
    tmp_path: Path, config: RunConfig, weights: Weights
) -> None:
    save_checkpoint(tmp_path / "wide", config.replace(model={"d_ff": 40}), weights, {}, {})
    assert "encoder.0.feed_forward.inner.weight is (32, 16), (40, 16) expected" in faults_of(
        tmp_path / "wide"
    )
    save_checkpoint(tmp_path / "deep", config.replace(model={"num_layers": 2}), weights, {}, {})
    assert all(fault.startswith("has no tensor ") for fault in faults_of(tmp_path / "deep"))


@pytest.mark.parametrize("text", [b"[model]\nd_modle = 16\n", b"[model\n", b"\xff"])
def test_a_configuration_that_cannot_be_read_is_a_fault_of_the_model(tmp_path: Path, text: bytes) -> None:
    with publish_directory(tmp_path / "model", "model") as aside:
        (aside / "config.toml").write_bytes(text)
        save_file({}, aside / "model.safetensors")
    with pytest.raises(ModelError, match=f"{tmp_path / 'model' / 'config.toml'}"):
        load_checkpoint(tmp_path / "model")


class Payload:
    """What runs a program when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self.path,)


@pytest.mark.parametrize(
    "entry",
    [
        {"dtype": "XX", "shape": [2], "data_offsets": [0, 8]},
        {"dtype": "F32", "shape": [3], "data_offsets": [0, 8]},
        {"dtype": "F32", "shape": [2], "data_offsets": [8, 0]},
    ],
)
def test_a_header_that_does_not_fit_its_data_is_a_fault_of_the_model(
    tmp_path: Path, entry: dict[str, Any]
) -> None:
    header = json.dumps({"a": entry, "b": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}}).encode()
    (tmp_path / "w.safetensors").write_bytes(len(header).to_bytes(8, "little") + header + bytes(8))
    with pytest.raises(ModelError, match=r"w\.safetensors: is not a valid tensor file"):
        read_tensors(tmp_path / "w.safetensors")


@pytest.mark.parametrize("zipped", [True, False])
def test_a_pickle_under_the_weights_name_is_refused_and_never_run(
    tmp_path: Path, config: RunConfig, zipped: bool
) -> None:
    payload = Payload(tmp_path / "it-ran")
    with publish_directory(tmp_path / "model", "model") as aside:
        (aside / "config.toml").write_bytes(config.to_toml().encode())
        if zipped:
            torch.save(payload, aside / "model.safetensors")
        else:
            (aside / "model.safetensors").write_bytes(pickle.dumps(payload))
    with pytest.raises(ModelError, match="is not a valid tensor file"):
        load_checkpoint(tmp_path / "model")
    assert not payload.path.exists()


def test_a_training_state_goes_on_bit_for_bit(tmp_path: Path, config: RunConfig) -> None:
    model, optimizer = trained(config, updates=3)
    save_training_state(tmp_path / "state", optimizer, {"step": 3, "best": {"value": float("-inf")}})
    resumed = copy.deepcopy(model)
    resumed_optimizer = build_optimizer(resumed, config.training)
    progress = load_training_state(tmp_path / "state", resumed_optimizer)
    assert progress == {"step": 3, "best": {"value": float("-inf")}}
    for pair in ((model, optimizer), (resumed, resumed_optimizer)):
        update(*pair, times=2)
    assert all(torch.equal(a, b) for a, b in zip(model.parameters(), resumed.parameters(), strict=True))


@pytest.mark.parametrize("name", STATE_FILES)
def test_a_damaged_training_state_is_refused_with_the_files_name(
    tmp_path: Path, config: RunConfig, name: str
) -> None:
    _, optimizer = trained(config, updates=1)
    save_training_state(tmp_path / "state", optimizer, {})
    assert sorted(path.name for path in (tmp_path / "state").iterdir()) == sorted(STATE_FILES)
    flip_a_bit(tmp_path / "state" / name, 0.5)
    with pytest.raises(ModelError, match=f"{tmp_path / 'state' / name}: is damaged"):
        load_training_state(tmp_path / "state", optimizer)


def test_a_training_state_is_no_model_and_a_model_no_training_state(
    directory: Path, config: RunConfig
) -> None:
    _, optimizer = trained(config, updates=1)
    save_training_state(directory.with_name("state"), optimizer, {})
    with pytest.raises(ModelError, match="is a state directory; a model directory is needed"):
        load_checkpoint(directory.with_name("state"))
    with pytest.raises(ModelError, match="is a model directory; a state directory is needed"):
        load_training_state(directory, optimizer)


@pytest.mark.parametrize("layers", [100, 500])
def test_a_model_with_more_layers_than_its_file_is_not_built(
    tmp_path: Path, config: RunConfig, weights: Weights, layers: int
) -> None:
    """Promise: Contents."""
    save_checkpoint(tmp_path / "deep", config.replace(model={"num_layers": layers}), weights, {}, {})
    num_built = 0

    def count(*_: object) -> None:
        nonlocal num_built
        num_built += 1

    with register_module_parameter_registration_hook(count):
        (fault,) = faults_of(tmp_path / "deep")
    assert fault.startswith(
        f"has {len(weights)} tensors, and is smaller than the model of its configuration "
        f"(num_layers = {layers}, "
    )
    assert num_built <= 2 * len(weights) + 101
    assert len(load_checkpoint_of(tmp_path / "sound", config, weights)) == len(weights)  # no count is left


def load_checkpoint_of(directory: Path, config: RunConfig, weights: Weights) -> Weights:
    save_checkpoint(directory, config, weights, {}, {})
    return model_of(load_checkpoint(directory)).state_dict()


def test_a_model_much_wider_than_its_file_takes_no_memory_to_refuse(
    tmp_path: Path, config: RunConfig, weights: Weights
) -> None:
    wide = config.replace(model={"d_model": 1 << 16, "d_ff": 1 << 16})  # over 50 GB
    save_checkpoint(tmp_path / "wide", wide, weights, {}, {})
    assert any("65536) expected" in fault for fault in faults_of(tmp_path / "wide"))


def test_weights_are_put_only_into_a_model_of_their_shapes(directory: Path, config: RunConfig) -> None:
    wider = Transformer(config.replace(model={"d_ff": 40}).model)
    before = {name: tensor.clone() for name, tensor in wider.state_dict().items()}
    checkpoint = load_checkpoint(directory)
    with pytest.raises(ModelError, match=r"model\.safetensors: .* \(40, 16\) expected"):
        load_weights(wider, checkpoint.weights, checkpoint.weights_path)
    assert all(torch.equal(tensor, before[name]) for name, tensor in wider.state_dict().items())


def test_weights_of_a_type_that_cannot_be_compared_are_refused_by_name(
    tmp_path: Path, config: RunConfig, weights: Weights
) -> None:
    name = next(iter(weights))
    with publish_directory(tmp_path / "model", "model", {}) as aside:
        write_checkpoint(aside, config, weights, {})
        save_file(weights | {name: weights[name].to(torch.float8_e4m3fn)}, aside / "model.safetensors")
    assert faults_of(tmp_path / "model") == [f"{name} is torch.float8_e4m3fn, torch.float32 expected"]


def test_a_file_that_is_larger_than_any_vocabulary_is_not_carried(
    tmp_path: Path, config: RunConfig, weights: Weights, monkeypatch: pytest.MonkeyPatch
) -> None:
    save_checkpoint(tmp_path / "model", config, weights, {"source_tokenizer.json": b"x" * 1_001}, {})
    monkeypatch.setattr("allyouneed.storage.publish.file._MAX_READ_BYTES", 1_000)
    with pytest.raises(ModelError, match=r"source_tokenizer\.json: has 1,001 bytes, more than the 1,000"):
        load_checkpoint(tmp_path / "model")
