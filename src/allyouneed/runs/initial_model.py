"""The model that a run continues, or whose tokenisers other data are prepared with."""

from dataclasses import dataclass
from pathlib import Path
from typing import Self

from allyouneed.config.run import DataConfig, RunConfig, TrainingConfig
from allyouneed.errors import DataError, ModelError, UsageError, UserError
from allyouneed.preparation.prepared_data import PreparedData
from allyouneed.storage.checkpoint import CONFIG, WEIGHTS
from allyouneed.storage.publish import read_manifest
from allyouneed.storage.run_directory import RunDirectory, resolve_model, step_of
from allyouneed.tasks.catalogue import task_named
from allyouneed.tasks.task import SOURCE_TOKENIZER, TARGET_TOKENIZER, Units

_OF_ANOTHER_START = (
    *("init_from", "init_sha256", "init_moments", "replay", "replay_share", "frozen", "sharded"),
    *("precision", "micro_batch_tokens", "packed_tokens", "compiled", "threads_share", "block_pairs"),
    *("budget_flops", "budget_seconds", "planned_seconds", "moved_end"),
)
"""Training settings of a model that are not those of a run that continues it."""
_MAY_DIFFER = {
    *("dropout", "attention_dropout", "feed_forward_dropout", "symbol_dropout", "expert_balance"),
    *("guided_alignment", "guided_layer"),
}
"""Settings of a model that act only while it is trained."""
_OF_TOKENIZERS = (
    *("task", "tokenizer", "vocab_size", "joint_vocabulary", "vocab_sample_bytes", "tags", "brackets"),
)
_OPTIONS = {"joint_vocabulary": "separate_vocabularies"}
"""Setting -> name of the option that changes it, where it has another name."""
_VALUES = {("joint_vocabulary", True): "one vocabulary", ("joint_vocabulary", False): "two"}
"""Setting and value -> words for messages, where the value alone says too little."""


def continue_from(model: Path | str) -> RunConfig:
    """The configuration of a run that continues a model: its architecture, and its settings for a new start.

    `model` is a model directory, a checkpoint, or a run; raises ModelError if it is missing or damaged.
    """
    config, default = InitialModel.read(model).config, TrainingConfig().model_dump()
    fresh = {name: default[name] for name in _OF_ANOTHER_START}
    return config.replace(training=fresh | {"init_from": str(model)})


@dataclass(frozen=True)
class InitialModel:
    """A model on disk, all of whose files are intact."""

    path: Path
    """The path that the user gave: a model directory, a checkpoint, or a run."""
    directory: Path
    config: RunConfig
    units: Units
    weights_sha256: str

    @classmethod
    def read(cls, path: Path | str) -> Self:
        """Read all of a model but its weights; raises ModelError if it is missing or damaged."""
        directory = resolve_model(Path(path))
        files = (WEIGHTS, CONFIG, SOURCE_TOKENIZER, TARGET_TOKENIZER)
        manifest = read_manifest(directory, "model", files)
        try:
            config = RunConfig.from_toml(directory / CONFIG)
            task = task_named(config.data.task)
        except UserError as error:
            raise ModelError(error.messages) from None
        units = task.load_units(directory, config.data, *config.model.vocab_sizes)
        return cls(Path(path), directory, config, units, manifest["files"][WEIGHTS]["sha256"])

    @property
    def state(self) -> Path:
        """The training state that was saved with the model; raises UsageError if there is none any more."""
        step, folder = step_of(self.directory.name), self.directory.absolute().parent
        state = None if step is None else RunDirectory(folder.parent).state(step)
        if state is None or not state.is_dir():
            raise UsageError(
                f"{self.path}: has no saved moments, which only the two newest checkpoints of a run have; "
                "leave out init_moments, or name one of those",
                settings=["init_moments"],
            )
        return state

    def require_like(self, config: RunConfig, prepared: PreparedData) -> None:
        """Check that a run with this complete configuration and data can start with the weights.

        Raises:
            DataError: The data have other tokenisers.
            UsageError: The configuration has another architecture, or wants moments that are not there.
            ModelError: The model is for another task, or has other weights than the configuration names.
        """
        if prepared.config.task != self.config.data.task:
            raise ModelError(
                f"{self.path}: is a model for {self.config.data.task}, but {prepared.directory} is for "
                f"{prepared.config.task}; name a model and data of one task"
            )
        if prepared.units != self.units:
            raise DataError(
                f"{prepared.directory}: has other tokenisers than {self.path}; prepare the data with "
                f"tokenizer_from {self.path}",
                settings=["tokenizer_from"],
            )
        own, wanted = self.config.model.model_dump(), config.model.model_dump()
        may_differ = {*_MAY_DIFFER, *(["block"] if self.config.model.block == 1 else [])}
        if others := [name for name in own if own[name] != wanted[name] and name not in may_differ]:
            raise UsageError(
                [
                    f"model.{name} = {wanted[name]}: {self.path} has {own[name]}, and its architecture is "
                    "kept; leave it out"
                    for name in others
                ]
            )
        if config.training.init_sha256 not in (None, self.weights_sha256):
            raise ModelError(
                f"{self.path}: has other weights than when the run began; name the model that it was then, "
                "or train a new run"
            )
        if config.training.init_moments:
            read_manifest(self.state, "state")

    def require_tokenizers_of(self, config: DataConfig) -> None:
        """Raise UsageError if settings of data contradict the tokenisers, or the model cannot be trained."""
        if self.config.data.language_symbols == "both":
            raise UsageError(
                f"tokenizer_from: {self.path} is told both languages, as M2M-100 and NLLB are, and such "
                "models cannot be trained further; name another model",
                settings=["tokenizer_from"],
            )
        own, wanted = self.config.data.model_dump(), config.model_dump()
        for name in _OF_TOKENIZERS:
            if own[name] != wanted[name]:
                option = _OPTIONS.get(name, name)
                has, given = (_VALUES.get((name, value), value) for value in (own[name], wanted[name]))
                raise UsageError(
                    f"{option}: the tokenisers of {self.path} have {has}, not {given}; leave it out, or "
                    "learn others without tokenizer_from",
                    settings=[option, "tokenizer_from"],
                )
