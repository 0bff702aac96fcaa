import itertools
from pathlib import Path
from typing import Protocol

import pytest
import torch

from allyouneed.config.run import RunConfig
from allyouneed.errors import ModelError, UsageError
from allyouneed.model.transformer import Transformer
from allyouneed.model.weights import Weights
from allyouneed.runs.loading import model_of
from allyouneed.storage.checkpoint import load_checkpoint, save_checkpoint
from allyouneed.storage.publish import sha256_of
from allyouneed.storage.run_directory import RunDirectory
from allyouneed.training.averaging import average, last_checkpoints

TOKENIZERS = {"source_tokenizer.json": b"{}", "target_tokenizer.json": b"[]"}


class Save(Protocol):
    def __call__(self, name: str, weights: Weights | None = None, **model: object) -> Path: ...


@pytest.fixture
def save(tmp_path: Path, config: RunConfig) -> Save:
    """Publishes a model, of random weights if none are given."""

    def publish(name: str, weights: Weights | None = None, **model: object) -> Path:
        changed = config.replace(model=model)
        weights = weights or Transformer(changed.model).state_dict()
        save_checkpoint(tmp_path / name, changed, weights, TOKENIZERS, {"step": 1})
        return tmp_path / name

    torch.manual_seed(1)
    return publish


def filled(config: RunConfig, value: float) -> Weights:
    return {name: torch.full_like(w, value) for name, w in Transformer(config.model).state_dict().items()}


def weights_of(directory: Path) -> Weights:
    return model_of(load_checkpoint(directory)).state_dict()


def are_equal(one: Weights, other: Weights) -> bool:
    return one.keys() == other.keys() and all(torch.equal(w, other[name]) for name, w in one.items())


def test_the_average_is_the_mean_weight_by_weight(tmp_path: Path, config: RunConfig, save: Save) -> None:
    average([save(str(value), filled(config, value)) for value in (1.0, 2.0, 6.0)], tmp_path / "out")
    assert are_equal(weights_of(tmp_path / "out"), filled(config, 3.0))


def test_settings_are_those_of_the_last_checkpoint(tmp_path: Path, save: Save, config: RunConfig) -> None:
    penalties = {}
    for penalty in (0.6, 1.4):
        penalties[penalty] = tmp_path / str(penalty)
        changed = config.replace(search={"length_penalty": penalty})
        save_checkpoint(penalties[penalty], changed, filled(config, 1.0), TOKENIZERS, {"step": 1})
    average([*penalties.values()], tmp_path / "out")
    assert RunConfig.from_toml(tmp_path / "out" / "config.toml").search.length_penalty == 1.4


def test_sums_are_made_in_float64(tmp_path: Path, config: RunConfig, save: Save) -> None:
    # In float32 1 vanishes beside 2^25, and the mean of the three would be 0.
    directories = [save(str(value), filled(config, value)) for value in (2.0**25, 1.0, -(2.0**25))]
    average(directories, tmp_path / "out")
    assert are_equal(weights_of(tmp_path / "out"), filled(config, torch.tensor(1 / 3).item()))


def test_the_average_of_random_weights_is_numpys(tmp_path: Path, save: Save) -> None:
    directories = [save(str(number)) for number in range(5)]
    average(directories, tmp_path / "out")
    parents = [weights_of(directory) for directory in directories]
    for name, found in weights_of(tmp_path / "out").items():
        expected = torch.stack([parent[name] for parent in parents]).numpy().astype("f8").mean(axis=0)
        torch.testing.assert_close(found.double().numpy(), expected, rtol=1e-7, atol=1e-12)


@pytest.mark.parametrize("copies", [1, 2, 3, 7, 20])
def test_the_average_of_equal_checkpoints_is_the_same_bit_for_bit(
    tmp_path: Path, save: Save, copies: int
) -> None:
    first = save("0")
    others = [save(str(number), weights_of(first)) for number in range(1, copies)]
    average([first, *others], tmp_path / "out")
    assert sha256_of(tmp_path / "out" / "model.safetensors") == sha256_of(first / "model.safetensors")


def test_the_order_of_checkpoints_does_not_matter(tmp_path: Path, save: Save) -> None:
    """To the bit: sums of four float32 of like size are exact in float64."""
    directories = [save(str(number)) for number in range(4)]
    for number, order in enumerate(itertools.islice(itertools.permutations(directories), 0, None, 5)):
        average(order, tmp_path / f"out{number}")
    found = {sha256_of(out / "model.safetensors") for out in tmp_path.glob("out*")}
    assert len(found) == 1


def test_an_average_is_a_model_that_names_its_parents(tmp_path: Path, config: RunConfig, save: Save) -> None:
    directories = [save("step-00000001"), save("step-00000002")]
    average(directories, tmp_path / "out")
    checkpoint = load_checkpoint(tmp_path / "out")
    assert checkpoint.config == config
    assert checkpoint.attachments == TOKENIZERS
    assert checkpoint.manifest["parents"] == [
        {"checkpoint": path.name, "sha256": sha256_of(path / "model.safetensors")} for path in directories
    ]


def test_checkpoints_that_do_not_go_together_are_refused_and_nothing_is_written(
    tmp_path: Path, config: RunConfig, save: Save
) -> None:
    first, wider, deeper = save("first"), save("wider", d_ff=40), save("deeper", num_layers=2)
    of_other_text = tmp_path / "of-other-text"
    weights = weights_of(first)
    save_checkpoint(of_other_text, config, weights, TOKENIZERS | {"source_tokenizer.json": b"{ }"}, {})
    for other in (wider, deeper, of_other_text):
        with pytest.raises(ModelError, match=f"{other}: has another architecture or vocabulary than {first}"):
            average([first, other], tmp_path / "out")
    assert not list(tmp_path.glob("out*"))


def test_a_checkpoint_that_is_not_finite_or_damaged_is_refused(
    tmp_path: Path, config: RunConfig, save: Save
) -> None:
    sound, infinite, damaged = save("sound"), save("infinite", filled(config, torch.inf)), save("damaged")
    (damaged / "config.toml").write_bytes(b"")
    for other, fault in (
        (infinite, "holds values that are not finite"),
        (damaged, "config.toml: has 0 bytes"),
    ):
        for directories in ([sound, other], [other, sound]):
            with pytest.raises(ModelError, match=fault):
                average(directories, tmp_path / "out")
    assert not list(tmp_path.glob("out*"))


def test_none_and_duplicates_are_refused(tmp_path: Path, save: Save) -> None:
    first = save("first")
    (tmp_path / "link").symlink_to(first)
    for directories in ([], [first, first], [first, tmp_path / "link"]):
        with pytest.raises(UsageError, match="one or more checkpoints, each once"):
            average(directories, tmp_path / "out")


def test_a_folder_in_use_is_refused(tmp_path: Path, save: Save) -> None:
    first = save("first")
    with pytest.raises(UsageError, match="exists and is not empty"):
        average([first], first)


def test_the_last_checkpoints_of_a_run_are_its_newest(run: Path) -> None:
    directory = RunDirectory(run)
    for step in (900, 1_000, 800):
        directory.checkpoint(step).mkdir(parents=True)
    directory.config.write_text(RunConfig().to_toml())
    assert last_checkpoints(run, 2) == [directory.checkpoint(900), directory.checkpoint(1_000)]
    assert len(last_checkpoints(run, 3)) == 3
    for last in (-1, 0, 4):
        with pytest.raises(UsageError, match=f"^last {last}: {run} has 3 checkpoints; ask for 1 to 3"):
            last_checkpoints(run, last)


def test_checkpoints_of_an_interruption_are_not_averaged(run: Path) -> None:
    directory = RunDirectory(run)
    for step in (500, 750, 777, 1_000):
        directory.checkpoint(step).mkdir(parents=True)
    directory.config.write_text(RunConfig().replace(training={"checkpoint_every_steps": 250}).to_toml())
    assert last_checkpoints(run, 2) == [directory.checkpoint(750), directory.checkpoint(1_000)]


@pytest.mark.parametrize(("average_last", "found"), [(2, 2), (9, 3)])
def test_by_default_they_are_as_many_as_the_run_is_set_to_average_and_has(
    run: Path, config: RunConfig, average_last: int, found: int
) -> None:
    directory = RunDirectory(run)
    for step in (1, 2, 3):
        directory.checkpoint(step).mkdir(parents=True)
    directory.config.write_text(config.replace(training={"average_last": average_last}).to_toml())
    assert len(last_checkpoints(run)) == found


def test_a_run_without_checkpoints_has_none_to_average(run: Path) -> None:
    with pytest.raises(ModelError, match=f"{run}: has no checkpoints; train it first"):
        last_checkpoints(run, 1)
