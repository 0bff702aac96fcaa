"""The training loop (paper 5): updates, validations, checkpoints; on a CPU it resumes bit for bit."""

import math
import signal
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import torch

from allyouneed.config import RunConfig
from allyouneed.data.batching import BatchSchedule, PlannedBatch, make_batch
from allyouneed.data.store import PairStore
from allyouneed.errors import DataError, DivergedError
from allyouneed.model import Transformer
from allyouneed.model.evaluation_mode import evaluation_mode
from allyouneed.training.checkpoint import (
    Attachments,
    load_checkpoint,
    load_training_state,
    save_checkpoint,
    save_training_state,
)
from allyouneed.training.meters import Best, Interval, perplexity_of
from allyouneed.training.optimizer import build_optimizer, learning_rate
from allyouneed.training.run_directory import RunDirectory
from allyouneed.training.run_log import Event, RunLog
from allyouneed.training.stop_signals import StopSignals
from allyouneed.training.update import accumulate_gradient, seed_generators, use_fastest_attention
from allyouneed.training.validation import validation_loss

_LOG_EVERY_STEPS = 50
_LOG_EVERY_SECONDS = 10.0

Validate = Callable[[Transformer], Mapping[str, float]]
"""Scores of a model on the validation data, such as its BLEU, by name."""
Report = Callable[[Event], None]
"""Is told every event that is logged."""


@dataclass(frozen=True)
class Corpus:
    """What a run is trained on."""

    train: PairStore
    valid: PairStore | None
    tokenizers: Attachments
    """The files that every checkpoint carries so that raw text goes in and comes out."""
    facts: Mapping[str, Any]
    """What identifies the data: sha256 of corpus and tokenisers."""


class Trainer:
    """One run: a model, its optimizer and its place in the data, kept in a run directory.

    Args:
        config: Complete: vocabulary sizes as in the corpus, precision and micro-batches resolved.
        corpus: What to train on.
        run: Where to keep it; the caller holds its lock.
        device: Where to compute.
        validate: More scores for a validation, besides loss and perplexity.
        report: Is told every event.
    """

    def __init__(
        self,
        config: RunConfig,
        corpus: Corpus,
        run: RunDirectory,
        device: torch.device,
        *,
        validate: Validate = lambda model: {},
        report: Report = lambda event: None,
    ) -> None:
        self.config, self.corpus, self.run = config, corpus, run
        self._validate, self._report = validate, report
        self.step = self._saved_step = 0
        training = config.training
        seed_generators(training.seed, 0, 0)
        self.model = Transformer(config.model).to(device).train()
        use_fastest_attention(self.model, training.precision)
        self.optimizer = build_optimizer(self.model, training)
        assert training.micro_batch_tokens is not None
        self.schedule = BatchSchedule(
            corpus.train.source_lengths,
            corpus.train.target_lengths,
            batch_tokens=training.batch_tokens,
            micro_batch_tokens=training.micro_batch_tokens,
            seed=training.seed,
        )
        self.best = Best()
        self._interval = Interval(device)
        self._seconds_before = 0.0
        self._began = self._saved_at = time.monotonic()

    def resume(self, step: int) -> None:
        """Go back to what the checkpoint and the state of `step` hold.

        Raises:
            ModelError: They are damaged.
            DataError: They are of other data.
        """
        self.model.load_state_dict(load_checkpoint(self.run.checkpoint(step)).build_model().state_dict())
        progress = load_training_state(self.run.state(step), self.optimizer)
        if progress["corpus"] != self.corpus.facts or progress["position"] != self._position(step):
            raise DataError(
                f"{self.run.path}: was trained on other data than is given now; "
                "name the data it began with, or train a new run"
            )
        self.step = self._saved_step = step
        self.best = Best(**progress["best"])
        self._seconds_before = progress["seconds"]
        # A run killed after a save may not have said so yet.
        self.run.mark("latest", step)
        if self.best.step in self.run.checkpoint_steps():
            self.run.mark("best", self.best.step)

    def train(self) -> signal.Signals | None:
        """Train to the last step, or until a signal or lost patience ends it; everything is saved then.

        Returns:
            The signal that ended the run early, if one did.

        Raises:
            DivergedError: The loss or a weight is not finite.
        """
        self._log = RunLog(self.run.log)
        try:
            self._write(
                "start",
                step=self.step,
                num_steps=self.config.training.num_steps,
                parameters=sum(p.numel() for p in self.model.parameters()),
            )
            with StopSignals() as stop:
                for batch in self.schedule.batches_from(self.step):
                    if self._finished() or not self._update(batch, stop):
                        break
                    self._after_update()
            if self.step != self._saved_step:
                self._save()
            return stop.received
        finally:
            self._log.close()

    def _finished(self) -> bool:
        training = self.config.training
        out_of_patience = training.patience is not None and self.best.since >= training.patience
        return self.step >= training.num_steps or out_of_patience

    def _update(self, planned: PlannedBatch, stop: StopSignals) -> bool:
        """One step of Adam; False, and nothing has changed, where the program was asked to stop meanwhile."""
        training = self.config.training
        step = self.step + 1
        loss = torch.zeros((), device=next(self.model.parameters()).device)
        for number, pairs in enumerate(planned.micro_batches):
            if stop.received:
                self.optimizer.zero_grad()
                return False
            seed_generators(training.seed, step, number)
            batch = make_batch(self.corpus.train, pairs)
            loss += accumulate_gradient(
                self.model, batch, planned.num_target_tokens, training.label_smoothing, training.precision
            )
        for group in self.optimizer.param_groups:
            group["lr"] = self._learning_rate(step)
        self.optimizer.step()
        self.optimizer.zero_grad()
        self._interval.add(loss, planned.num_target_tokens)
        self.step = step
        return True

    def _after_update(self) -> None:
        training = self.config.training
        validate = self.step % training.validate_every_steps == 0 or self.step == training.num_steps
        if self.step % _LOG_EVERY_STEPS == 0 or self._interval.seconds > _LOG_EVERY_SECONDS or validate:
            self._log_training()
        began = time.monotonic()
        is_best = validate and self.corpus.valid is not None and self._validate_now(self.corpus.valid)
        if is_best or self._checkpoint_is_due():
            self._save()
        if is_best:
            self.run.mark("best", self.step)
        self._interval.leave_out(time.monotonic() - began)

    def _checkpoint_is_due(self) -> bool:
        training = self.config.training
        by_steps = training.checkpoint_every_steps
        return (
            (by_steps is not None and self.step % by_steps == 0)
            or time.monotonic() - self._saved_at >= 60 * training.checkpoint_every_minutes
            or self.step == training.num_steps
        )

    def _log_training(self) -> None:
        loss, speed = self._interval.read()
        if not math.isfinite(loss):
            raise self._diverged(f"the loss is {loss}")
        self._write(
            "train",
            step=self.step,
            loss=loss,
            perplexity=perplexity_of(loss),
            learning_rate=self._learning_rate(self.step),
            target_tokens_per_second=speed,
            seconds=self._seconds(),
        )

    def _validate_now(self, store: PairStore) -> bool:
        """Log a validation; whether it is the best so far."""
        loss = validation_loss(self.model, store)
        if not math.isfinite(loss):
            raise self._diverged(f"the validation loss is {loss}")
        with evaluation_mode(self.model):
            scores = self._validate(self.model)
        self._write("validate", step=self.step, loss=loss, perplexity=perplexity_of(loss), **scores)
        return self.best.update(self.step, loss, scores.get("bleu"))

    def _save(self) -> None:
        """Publish checkpoint, then state, then say that they are the latest, then delete old ones."""
        began = time.monotonic()
        weights = {name: tensor.detach().cpu() for name, tensor in self.model.state_dict().items()}
        for name, tensor in weights.items():
            if not tensor.isfinite().all():
                raise self._diverged(f"{name} is not finite")
        facts = {"step": self.step, "corpus": dict(self.corpus.facts)}
        self.run.forget(self.step)
        save_checkpoint(self.run.checkpoint(self.step), self.config, weights, self.corpus.tokenizers, facts)
        progress = {
            "step": self.step,
            "corpus": dict(self.corpus.facts),
            "position": self._position(self.step),
            "best": asdict(self.best),
            "seconds": self._seconds(),
        }
        save_training_state(self.run.state(self.step), self.optimizer, progress)
        self.run.mark("latest", self.step)
        training = self.config.training
        self.run.prune(self.step, training.keep_checkpoints, training.checkpoint_every_steps)
        self._saved_step, self._saved_at = self.step, time.monotonic()
        self._write("checkpoint", step=self.step, seconds=self._saved_at - began)

    def _diverged(self, what: str) -> DivergedError:
        return DivergedError(
            f"{self.run.path}: {what} at step {self.step}; all checkpoints are from before: train a new run "
            "with a lower training.learning_rate_factor or a higher training.warmup_steps"
        )

    def _position(self, step: int) -> dict[str, Any]:
        return asdict(self.schedule.position(step))

    def _learning_rate(self, step: int) -> float:
        training = self.config.training
        return learning_rate(
            step, self.config.model.d_model, training.warmup_steps, training.learning_rate_factor
        )

    def _seconds(self) -> float:
        return self._seconds_before + time.monotonic() - self._began

    def _write(self, event: str, **fields: Any) -> None:
        self._log.write(event, **fields)
        self._report({"event": event, **fields})
