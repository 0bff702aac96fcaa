"""Runs: what starts or resumes training on prepared data, and validates it by translating."""

import signal
from collections.abc import Callable, Mapping
from pathlib import Path

import torch

from allyouneed.config import RunConfig
from allyouneed.data.tokenizer import Tokenizer
from allyouneed.errors import ModelError, UsageError
from allyouneed.evaluation import bleu_13a
from allyouneed.model import Transformer
from allyouneed.preparation import SOURCE_TOKENIZER, TARGET_TOKENIZER, PreparedData
from allyouneed.presets import base
from allyouneed.publish import require_free, write_text
from allyouneed.training.run_directory import RunDirectory
from allyouneed.training.trainer import Corpus, Report, Trainer
from allyouneed.training.update import resolve_precision
from allyouneed.translation import Translator

_MICRO_BATCHES = 4
"""Micro-batches of a global batch where the user does not say: so many different lengths are mixed."""
_MAY_CHANGE = {
    "num_steps",
    "checkpoint_every_steps",
    "checkpoint_every_minutes",
    "keep_checkpoints",
    "average_last",
    "validate_every_steps",
    "patience",
}
"""Settings of training that a resumed run may have otherwise; the updates do not depend on them."""


def train(
    run: Path | str,
    data: Path | str,
    config: RunConfig | None = None,
    *,
    resume: bool = False,
    device: torch.device | str = "cpu",
    report: Report = lambda event: None,
    say: Callable[[str], None] = lambda line: None,
) -> signal.Signals | None:
    """Train a model in `run` on prepared data, or go on where an earlier call stopped.

    Args:
        run: The run directory. It is made; where it is there, `resume` must be set.
        data: What `prepare` has made.
        config: A preset, perhaps changed; by default the run's own if it is there, else the base model.
        resume: Go on from the last checkpoint; begin if there is none; do nothing if all steps are done.
        device: Where to compute.
        report: Is told every event of the log.
        say: Is told what is begun or resumed, in a line.

    Returns:
        The signal that ended the run early, if one did; all is saved then, and the run can be resumed.

    Raises:
        UsageError: `run` is there and `resume` is not set, or a setting does not fit or has changed.
        DataError: The run was begun with other data.
        ModelError: A directory is damaged.
        LockedError: Another process is training in `run`.
        DivergedError: The loss is not finite.
    """
    directory, device = RunDirectory(Path(run)), torch.device(device)
    if not resume:
        _require_new(directory.path)
    with directory.locked():
        prepared = PreparedData(Path(data))
        config = _run_config(directory, config, prepared, device)
        corpus = Corpus(prepared.train, prepared.valid, prepared.tokenizers, prepared.facts)
        validate = _bleu_on_validation(prepared, config)
        trainer = Trainer(config, corpus, directory, device, validate=validate, report=report)
        _resume(trainer, say)
        write_text(directory.config, config.to_toml())
        received = trainer.train()
        _write_exit(trainer, received)
    return received


def _require_new(run: Path) -> None:
    try:
        require_free(run)
    except UsageError:
        raise UsageError(f"{run}: exists; go on with --resume, or name a new folder") from None


def _run_config(
    directory: RunDirectory, given: RunConfig | None, prepared: PreparedData, device: torch.device
) -> RunConfig:
    """The complete configuration: what is given, or the run's own, fitted to the data and the device."""
    recorded = RunConfig.from_toml(directory.config) if directory.config.is_file() else None
    if recorded is None:
        return _completed(given or base(), prepared, device)
    if given is None:
        return recorded
    # What was chosen at the start stays, unless it is asked for by name.
    training = given.training
    kept = {
        name: getattr(recorded.training, name)
        for name, unset in (("precision", "auto"), ("micro_batch_tokens", None))
        if getattr(training, name) == unset
    }
    config = _completed(given.replace(training=kept), prepared, device)
    _require_same(directory.path, recorded, config)
    return config


def _completed(config: RunConfig, prepared: PreparedData, device: torch.device) -> RunConfig:
    """`config` with the vocabularies of the data, a precision and a size of micro-batches."""
    training = config.training
    longest = int(max(prepared.train.source_lengths.max(), prepared.train.target_lengths.max())) + 1
    model = {"source_vocab_size": prepared.source_vocab_size, "target_vocab_size": prepared.target_vocab_size}
    if not prepared.config.joint_vocabulary and config.model.tied_embeddings == "all":
        model["tied_embeddings"] = "target"  # type: ignore[assignment]
    return config.replace(
        model=model,
        data=prepared.config.model_dump(),
        training={
            "precision": resolve_precision(training.precision, device),
            "micro_batch_tokens": training.micro_batch_tokens
            or min(training.batch_tokens, max(longest, training.batch_tokens // _MICRO_BATCHES)),
        },
    )


def _require_same(run: Path, recorded: RunConfig, given: RunConfig) -> None:
    """Refuse to resume with other settings than a run began with, as far as its updates depend on them."""
    old, new = recorded.model_dump(), given.model_dump()
    changed = [
        f"{run}: began with {group}.{name} = {old[group][name]}, now {value} is given; "
        "leave it out to go on, or train a new run"
        for group in ("model", "training")
        for name, value in new[group].items()
        if value != old[group][name] and name not in _MAY_CHANGE
    ]
    if changed:
        raise UsageError(changed)


def _resume(trainer: Trainer, say: Callable[[str], None]) -> None:
    """Load the newest state that is sound; none, where the run has none yet."""
    for step in reversed(steps := trainer.run.resumable_steps()):
        try:
            trainer.resume(step)
        except ModelError as error:
            say(f"NOTICE: {error.messages[0]}; the checkpoint before it is tried")
            continue
        say(f"{trainer.run.path}: resumed at step {step:,}")
        return
    if steps:
        raise ModelError(
            f"{trainer.run.path}: every checkpoint with a state is damaged; `verify` names the files"
        )


def _bleu_on_validation(
    prepared: PreparedData, config: RunConfig
) -> Callable[[Transformer], Mapping[str, float]]:
    """A function that scores a model by translating the validation text greedily, which is fast."""
    if prepared.valid is None:
        return lambda model: {}
    sources, references = prepared.lines("valid", "source"), prepared.lines("valid", "target")
    tokenizers = (Tokenizer.load(prepared.directory / name) for name in (SOURCE_TOKENIZER, TARGET_TOKENIZER))
    source_tokenizer, target_tokenizer = tokenizers

    def validate(model: Transformer) -> Mapping[str, float]:
        translator = Translator(model, config, source_tokenizer, target_tokenizer)
        texts = [translation.text for translation in translator.translate(sources, beam_size=1)]
        return {"bleu": bleu_13a(texts, references).value}

    return validate


def _write_exit(trainer: Trainer, received: signal.Signals | None) -> None:
    if received is not None:
        trainer.run.write_exit(128 + received, trainer.step, received.name)
    elif trainer.step < trainer.config.training.num_steps:
        trainer.run.write_exit(0, trainer.step, "out of patience")
    else:
        trainer.run.write_exit(0, trainer.step, "finished")
