"""What the tests of reliability share: real training programs, a run that nothing disturbed, the counts."""

import hashlib
import json
import signal
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import pytest
from tests.forking.forker import Forker, Program
from tests.patience import wait_until

from allyouneed.config.run import DataConfig, RunConfig
from allyouneed.data.corpus_files import CorpusFiles
from allyouneed.preparation.preparing import prepare
from allyouneed.runs.loading import model_of
from allyouneed.storage.checkpoint import load_checkpoint
from allyouneed.storage.run_directory import RunDirectory, resolve_model
from allyouneed.storage.run_log import read_log

LAST_STEP = 50
MOST_UPDATES_AFTER_A_SIGNAL = 1
"""One may have been made when the signal came, and not yet been logged."""
CONFIG = RunConfig().replace(
    model={"d_model": 16, "d_ff": 32, "num_layers": 1, "num_heads": 2, "dropout": 0.2},
    training={
        "batch_tokens": 160,
        "micro_batch_tokens": 40,
        "num_steps": LAST_STEP,
        "warmup_steps": 20,
        "checkpoint_every_steps": 10,
        "validate_every_steps": 1,  # without validation data: every step is logged
        "precision": "float32",
    },
)


@dataclass(frozen=True)
class Laboratory:
    """Starts runs of one configuration on one corpus, each of which has to end as `whole` did."""

    forker: Forker
    folder: Path

    @classmethod
    def build(
        cls, forker: Forker, folder: Path, train: CorpusFiles, valid: CorpusFiles, config: RunConfig
    ) -> Self:
        """Prepare the corpus, and train the run that nothing disturbs."""
        prepare(folder / "data", train, valid, config=DataConfig(tokenizer="byte"))
        (folder / "config.toml").write_text(config.to_toml())
        laboratory = cls(forker, folder)
        program = laboratory.start(laboratory.whole)
        assert program.wait() == 0, program.said()
        return laboratory

    @property
    def whole(self) -> Path:
        """The run that nothing has disturbed; not to be changed."""
        return self.folder / "whole"

    def arguments(self, run: Path, *options: str | Path) -> list[str | Path]:
        """Those with which `allyouneed` begins the run."""
        chosen = ("--data", self.folder / "data", "--config", self.folder / "config.toml", "--device", "cpu")
        return ["train", run, *chosen, *options]

    def start(
        self, run: Path, *options: str | Path, output: Path | None = None, paused: bool = False
    ) -> Program:
        """Begin the run, or go on with it."""
        return self.forker.start(*self.arguments(run, "--resume", *options), output=output, paused=paused)

    def finish(self, run: Path) -> None:
        """Let the run go on to its end, which has to be the same bits."""
        program = self.start(run)
        assert program.wait() == 0, program.said()
        assert final_state(run) == final_state(self.whole), program.said()

    def bits(self, run: Path) -> str:
        """What a run has ended with."""
        return final_state(run)

    def require_sound(self, run: Path) -> None:
        """Whatever has happened to a run: what it names as its latest checkpoint is whole, and of a model."""
        if (run / "latest").exists():
            model_of(load_checkpoint(resolve_model(run)))

    def logged(self, run: Path, event: str) -> list[int]:
        """The steps of which the run has logged the event."""
        log = run / "log.jsonl"
        return [e["step"] for e in read_log(log) if e["event"] == event] if log.exists() else []

    def wait_for(self, run: Path, event: str, step: int) -> None:
        """Return as soon as the run has logged the event of that step, or of a later one."""
        wait_until(
            lambda: max(self.logged(run, event), default=-1) >= step,
            lambda: f"{run}: logs no {event} of step {step}",
        )

    def stop(self, program: Program, run: Path, number: int) -> int:
        """Send a signal to a program that trains; its exit code, once it is seen to make no more updates.

        It is held while it is looked how far it has come, so that a busy machine changes nothing.
        """
        program.signal(signal.SIGSTOP)
        before = len(self.logged(run, "train"))
        program.signal(number)
        program.signal(signal.SIGCONT)
        code = program.wait()
        assert len(self.logged(run, "train")) - before <= MOST_UPDATES_AFTER_A_SIGNAL, program.said()
        return code


def final_state(run: Path) -> str:
    """One sha256 over weights, Adam's moments and progress, the seconds that it took left out."""
    directory = RunDirectory(run)
    model, state = directory.checkpoint(LAST_STEP), directory.state(LAST_STEP)
    progress = json.loads((state / "state.json").read_bytes())
    del progress["seconds"]
    parts = [
        (model / "model.safetensors").read_bytes(),
        (state / "state.safetensors").read_bytes(),
        json.dumps(progress, sort_keys=True).encode(),
    ]
    return hashlib.sha256(b"".join(hashlib.sha256(part).digest() for part in parts)).hexdigest()


@pytest.fixture(scope="session")
def laboratory(tmp_path_factory: pytest.TempPathFactory, forker: Forker, toy_text: Path) -> Laboratory:
    """The toy language as bytes, dropout on, four micro-batches an update, a little more than an epoch."""
    files = CorpusFiles(toy_text / "train.en", toy_text / "train.toy")
    return Laboratory.build(forker, tmp_path_factory.mktemp("laboratory"), files, CorpusFiles(), CONFIG)
