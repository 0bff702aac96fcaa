"""Not one flipped bit and no truncation is ever loaded, and a damaged checkpoint costs one interval only."""

import random
import signal
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from allyouneed.config.run import RunConfig
from allyouneed.errors import ModelError
from allyouneed.runs.loading import model_of
from allyouneed.storage.checkpoint import load_checkpoint
from allyouneed.storage.run_directory import RunDirectory
from allyouneed.storage.training_state import load_training_state
from allyouneed.training.optimizer import build_optimizer

if TYPE_CHECKING:
    from tests.reliability.conftest import Laboratory

Record = Callable[[str, object], None]


def flipped(content: bytes, draw: random.Random) -> bytes:
    bit = draw.randrange(8 * len(content))
    changed = bytearray(content)
    changed[bit // 8] ^= 1 << bit % 8
    return bytes(changed)


def truncated(content: bytes, draw: random.Random) -> bytes:
    return content[: draw.randrange(len(content))]


def newest_files(run: Path) -> Sequence[Path]:
    """All files of the newest checkpoint and of its state, manifests included."""
    directory = RunDirectory(run)
    step = directory.resumable_steps()[-1]
    return sorted([*directory.checkpoint(step).iterdir(), *directory.state(step).iterdir()])


def load_newest(run: Path) -> None:
    directory = RunDirectory(run)
    step = directory.resumable_steps()[-1]
    model = model_of(load_checkpoint(directory.checkpoint(step)))
    config = RunConfig.from_toml(directory.config)
    load_training_state(directory.state(step), build_optimizer(model, config.training))


@pytest.mark.parametrize(
    ("damage", "count"),
    [
        (flipped, 40),
        (truncated, 10),
        pytest.param(flipped, 300, marks=pytest.mark.release),
        pytest.param(truncated, 50, marks=pytest.mark.release),
    ],
)
def test_every_damage_is_refused_and_its_file_named(
    laboratory: "Laboratory",
    damage: Callable[[bytes, random.Random], bytes],
    count: int,
    record_property: Record,
) -> None:
    """Promise: Damage."""
    draw = random.Random(1)
    files = newest_files(laboratory.whole)
    assert len(files) == 8
    for number in range(count):
        path = files[number % len(files)]
        sound = path.read_bytes()
        try:
            path.write_bytes(damage(sound, draw))
            with pytest.raises(ModelError) as error:
                load_newest(laboratory.whole)
            assert str(path) in error.value.messages[0]
        finally:
            path.write_bytes(sound)
    load_newest(laboratory.whole)
    record_property(f"files {damage.__name__}, all of them refused", count)


@pytest.mark.parametrize("count", [2, pytest.param(24, marks=pytest.mark.release)])
def test_a_run_whose_newest_checkpoint_is_damaged_goes_on_from_the_one_before_to_the_same_bits(
    laboratory: "Laboratory", tmp_path: Path, count: int, record_property: Record
) -> None:
    """Promise: Damage."""
    draw = random.Random(2)
    for number in range(count):
        run = tmp_path / f"run-{number}"
        program = laboratory.start(run)
        laboratory.wait_for(run, "checkpoint", 20)
        program.signal(signal.SIGKILL)
        program.wait()
        before = RunDirectory(run).resumable_steps()[-2]
        damaged = newest_files(run)[number * 5 % 8]
        damaged.write_bytes(draw.choice([flipped, truncated])(damaged.read_bytes(), draw))
        resumed = laboratory.start(run)
        assert resumed.wait() == 0
        said = resumed.said()
        assert f"NOTICE: {damaged}: " in said
        assert f"{run}: resumed at step {before}" in said
        laboratory.finish(run)
    record_property("damaged newest checkpoints", count)
