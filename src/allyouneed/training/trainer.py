"""The training loop (paper 5): updates, validations, checkpoints. On a CPU it resumes bit for bit."""

import json
import math
import signal
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

import torch

from allyouneed.config.run import RunConfig, SearchConfig, TrainingConfig
from allyouneed.data.batch_plans import PlannedBatch
from allyouneed.data.schedule import BatchSchedule, ReplaySchedule
from allyouneed.data.store import PairStore
from allyouneed.errors import DataError, DivergedError, say
from allyouneed.hardware.machine import environment, measured_peak
from allyouneed.hardware.memory import memory_bytes
from allyouneed.model.dropout import evaluation_mode
from allyouneed.storage.checkpoint import Attachments
from allyouneed.storage.publish import write_text
from allyouneed.storage.run_directory import RunDirectory
from allyouneed.storage.run_log import Event, RunLog
from allyouneed.training.deadline import LEAST_TO_SEARCH, MOST_EPOCHS, Deadline
from allyouneed.training.distributed import Processes
from allyouneed.training.flops import batch_flops
from allyouneed.training.learner import Learner
from allyouneed.training.meters import (
    LOSS_ALONE,
    Best,
    CostMeter,
    Interval,
    Validation,
    perplexity_of,
    validation_loss,
)
from allyouneed.training.optimizer import learning_rate
from allyouneed.training.saves import Saves
from allyouneed.training.stop_signals import StopSignals

_LOG_EVERY_STEPS = 50
_LOG_EVERY_SECONDS = 10.0
_COMPARE_EVERY_STEPS = 1_000
_PENALTIES = 0.2, 0.6, 1.0, 1.4, 1.8
"""Length penalties that are tried at the end of a budget."""
_ENOUGH = 1
"""Reason to stop: out of patience or budget. Other reasons are signal numbers, none of them 1."""
Schedule = BatchSchedule | ReplaySchedule
Report = Callable[[Event], None]
"""Receives every logged event."""


@dataclass(frozen=True)
class Corpus:
    """The data of a run."""

    train: PairStore
    valid: PairStore | None
    tokenizers: Attachments
    """Tokeniser files that every checkpoint includes, so that a model reads and writes raw text."""
    facts: Mapping[str, Any]
    """Identity of the data: SHA-256 of corpus and tokenisers."""


class Trainer:
    """One run: a model, its optimizer and its position in the data, saved in a run directory.

    Under `torchrun` every process has a trainer. All make the same updates; only the first process validates,
    logs and saves.

    Args:
        config: Complete configuration: vocabulary sizes of the corpus, precision and micro-batches resolved.
        corpus: Training and validation data.
        run: Run directory; the caller holds its lock.
        device: Device to compute on.
        processes: This process and the others of the run; default: this process alone.
        validation: Scores to compute in a validation besides loss and perplexity.
        report: Function that receives every event, in the first process.
        is_resumed: Whether weights will be loaded before `train`; if so, no initial ones are drawn.
    """

    def __init__(
        self,
        config: RunConfig,
        corpus: Corpus,
        run: RunDirectory,
        device: torch.device,
        *,
        processes: Processes | None = None,
        validation: Validation = LOSS_ALONE,
        report: Report = lambda event: None,
        is_resumed: bool = False,
    ) -> None:
        self.config, self.corpus, self.run, self._device = config, corpus, run, device
        self.processes = processes or Processes()
        self._validation, self._report = validation, report
        self.step = self._saved_step = self._validated_step = 0
        draw = self.processes.is_first and not is_resumed  # the others receive the first one's weights
        self._learner = Learner(config, corpus.train, device, self.processes, self._notice, draw=draw)
        self.model, self.optimizer = self._learner.model, self._learner.optimizer
        self.schedule = schedule_of(corpus.train, config.training)
        facts = {"corpus": dict(corpus.facts), "environment": environment(device)}
        self._saves = Saves(run, config, corpus.tokenizers, facts)
        self.best = Best(convention=validation.convention)
        self._cost = CostMeter(device, self.processes.size)
        self._saved_at, self._deadline = time.monotonic(), Deadline()
        # A batch system may signal both the launcher, which passes the signal on, and each process.
        self._stop = StopSignals(ignore_repeated=self.processes.size > 1)
        self._log: RunLog | None = None
        self._num_processes_before = self.processes.size

    def resume(self, step: int) -> None:
        """Restore the checkpoint and the state of `step`; in the first process only.

        Raises:
            ModelError: The checkpoint or the state is damaged.
            DataError: The run was trained on other data.
        """
        progress = self._saves.load(step, self.model, self.optimizer)
        if progress["corpus"] != self.corpus.facts or progress["position"] != self._position(step):
            raise DataError(
                f"{self.run.path}: was trained on other data than is given now; "
                "name the data it began with, or train a new run"
            )
        self._go_to(progress)
        self._num_processes_before = progress["processes"]
        # A run killed right after a save may not have marked it yet.
        self.run.mark("latest", step)
        if self.best.step and self.best.step in self.run.checkpoint_steps():
            self.run.mark("best", self.best.step)

    def train(self) -> signal.Signals | None:
        """Train to the last step, or until a signal, patience or a budget ends the run; then save everything.

        Returns:
            The signal that ended the run early, if any.

        Raises:
            DivergedError: Three updates in a row, or a validation, were not finite.
            ResourceError: Memory cannot hold one sentence pair, or a process of the run was lost.
        """
        self._log = RunLog(self.run.log) if self.processes.is_first else None
        try:
            self._write(
                "start",
                step=self.step,
                num_steps=self.config.training.num_steps,
                budgets=self._cost.budgets(self.config.training),
                parameters=sum(p.numel() for p in self.model.parameters()),
                processes=self.processes.size,
                environment=environment(self._device),
            )
            with self._stop:
                return self._train()
        except DivergedError as error:
            raise DivergedError(
                f"{self.run.path}: {error.messages[0]}; all checkpoints are from before: train a new run "
                "with a lower training.learning_rate_factor or a higher training.warmup_steps"
            ) from None
        finally:
            if self._log:
                self._log.close()

    def _train(self) -> signal.Signals | None:
        self._share_state()
        # All processes measure at the same time and are assumed equally fast.
        self._peak = self.processes.size * measured_peak(self._device, self.config.training.precision)
        self._notice_processes()
        if self.step == 0 and self.config.training.init_from is not None:
            self._save()  # the run no longer needs the model that it continues
        if self._is_validation_due() and self._validated_step != self.step:
            self._validate_and_save()  # a signal had interrupted the validation
        self._interval = Interval(self._device)
        stopped_by = 0
        for batch in self.schedule.batches_from(self.step):
            if self.step >= self.config.training.num_steps:
                break
            if stopped_by := self._learner.update(batch, self.step + 1, self._reason_to_stop):
                break
            self.step += 1
            self._after_update(batch)
        if self.step != self._saved_step:
            self._save()
        if self.processes.is_first and self._is_validation_due() and self._validated_step != self.step:
            stopped_by = self._reason_to_stop()  # a signal interrupted the last validation
        return signal.Signals(stopped_by - _ENOUGH) if stopped_by > _ENOUGH else None

    def _share_state(self) -> None:
        """Copy what the first process has drawn or loaded to every process."""
        told = self.processes.told_by_first(lambda: json.dumps(self._progress() | self._cost.read()))
        progress = json.loads(told)
        here = dict(self.corpus.facts), self._position(progress["step"])
        if (progress["corpus"], progress["position"]) != here:
            raise DataError(f"process {self.processes.rank} has other data than process 0; give all the same")
        self._go_to(progress)
        self._learner.spread()

    def _notice_processes(self) -> None:
        """Report unexpected consequences of the number of processes."""
        before, now = self._num_processes_before, self.processes.size
        if self.processes.is_first and before != now:
            self._notice(f"goes on in {now} processes after {before}: the same batches, with other rounding")
        if self.processes.is_first and now > (
            most := max(len(self._planned(step).micro_batches) for step in (self.step + 1, self.step + 2))
        ):
            self._notice(
                f"only {most} of {now} processes have work, as a batch has so many micro-batches; "
                "with a smaller training.micro_batch_tokens a new run has more"
            )

    def _reason_to_stop(self) -> int:
        if self._stop.received:
            return _ENOUGH + self._stop.received
        training = self.config.training
        is_over_budget = self.step > 0 and self._cost.is_over(training)  # the first update is always made
        return _ENOUGH * (self.best.is_out_of(training.patience) or is_over_budget)

    def _after_update(self, batch: PlannedBatch) -> None:
        flops = batch_flops(self.config.model, self.corpus.train, batch)
        self._cost.add(flops)
        self._interval.add(self._learner.loss, batch.num_target_tokens, flops)
        logs = self.step % _LOG_EVERY_STEPS == 0 or self._is_validation_due()
        if logs or self._device.type == "cpu":  # on other devices the check would block
            self._learner.require_finite(self._planned)
        if self.processes.is_first and (logs or self._interval.seconds > _LOG_EVERY_SECONDS):
            self._log_training()
        if self.step % _COMPARE_EVERY_STEPS == 0:
            self._learner.require_same_weights(self.step)
        began = time.monotonic()
        self._validate_and_save()
        self._interval.leave_out(time.monotonic() - began)

    def _validate_and_save(self) -> None:
        is_best = False
        if self._is_validation_due():
            self._learner.gather()
            is_best = self.processes.first_alone(self._validate_now) is True
        if self.processes.most(is_best or self._is_checkpoint_due()):
            self._save()
        if is_best:
            self.run.mark("best", self.step)

    def _is_validation_due(self) -> bool:
        is_last = self.step == self.config.training.num_steps
        return self.step > 0 and (is_last or self.step % self.config.training.validate_every_steps == 0)

    def _is_checkpoint_due(self) -> bool:
        training = self.config.training
        is_scheduled = training.checkpoint_every_steps and self.step % training.checkpoint_every_steps == 0
        is_overdue = time.monotonic() - self._saved_at >= 60 * training.checkpoint_every_minutes
        return is_scheduled or is_overdue or self.step == training.num_steps

    def _log_training(self) -> None:
        reading = self._interval.read()
        if reading.loss is None:
            return
        self._write(
            "train",
            step=self.step,
            loss=reading.loss,
            perplexity=perplexity_of(reading.loss),
            learning_rate=learning_rate(self.step, self.config),
            updates_per_second=reading.updates_per_second,
            target_tokens_per_second=reading.tokens_per_second,
            share_of_peak=reading.flops_per_second / self._peak,
            memory_bytes=memory_bytes(self._device),
            **self._cost.read(),
        )

    def _validate_now(self) -> bool:
        """Validate and log; return whether it is the best so far. After a signal the validation stays due."""
        began, cost = time.monotonic(), self._cost.read()
        scores = self._stop.interruptible(self._validation_scores)
        if scores is None:
            return False
        self._validated_step = self.step
        if not scores:
            return False
        if (penalty := scores.pop("length_penalty", None)) is not None:
            self._take(search={"length_penalty": penalty})
        if not math.isfinite(scores["loss"]):
            raise DivergedError(f"the validation loss is {scores['loss']} at step {self.step:,}")
        self._write("validate", step=self.step, **scores, **cost, validation_seconds=time.monotonic() - began)
        return self.best.update(self.step, scores["loss"], scores.get(self._validation.best_by))

    def _validation_scores(self) -> dict[str, float]:
        """Loss, perplexity and the other scores; empty without validation data."""
        if self.corpus.valid is None:
            return {}
        loss = validation_loss(self.model, self.corpus.valid)
        with evaluation_mode(self.model.modules()):
            scores = {"loss": loss, "perplexity": perplexity_of(loss), **self._validation.scores(self.model)}
            return scores | self._best_penalty()

    def _best_penalty(self) -> dict[str, float]:
        """The length penalty that a budget's last validation prefers.

        Nothing if an unusual one was given, or search is greedy, which it does not change.
        """
        score, training, given = self._validation.penalised, self.config.training, self.config.search
        is_last = self.step == training.num_steps and (training.planned_seconds or 0.0) >= LEAST_TO_SEARCH
        is_chosen = given.length_penalty != SearchConfig().length_penalty or given.beam_size == 1
        if score is None or not is_last or is_chosen:
            return {}
        found = {penalty: score(self.model, penalty) for penalty in _PENALTIES}
        best = max(_PENALTIES, key=lambda penalty: found[penalty])
        told = ", ".join(f"{found[penalty]:.2f} with {penalty:g}" for penalty in _PENALTIES)
        self._notice(f"length penalty {best:g}, by {self._validation.best_by} on the validation data: {told}")
        return {"length_penalty": best}

    def _keep_deadline(self) -> None:
        """Move the end of the run, once, if it would miss its time."""
        seconds, before = self._cost.read()["seconds"] or 0.0, self.config.training
        most_steps = MOST_EPOCHS * self.schedule.num_batches
        end = self._deadline.fitting_end(self.step, seconds, before, most_steps)
        end = int(self.processes.told_by_first(lambda: str(end)))
        if end == before.num_steps:
            return
        self._take(training={"num_steps": end, "moved_end": (self.step, before.num_steps)})
        pace, rate = ("slower", "faster") if end < before.num_steps else ("faster", "more slowly")
        self._notice(
            f"{pace} than planned: the run ends after {end:,} updates instead of {before.num_steps:,}, "
            f"and the learning rate falls {rate}",
            num_steps=end,
        )

    def _take(self, **sections: Mapping[str, Any]) -> None:
        """Change settings of the run, and record them."""
        self.config = self.config.replace(**sections)
        self._learner.config, self._saves = self.config, replace(self._saves, config=self.config)
        if self.processes.is_first:
            write_text(self.run.config, self.config.to_toml())

    def _save(self) -> None:
        self._learner.require_finite(self._planned)
        self._learner.require_same_weights(self.step)
        self._learner.gather()
        if self.config.training.planned_seconds is not None:
            self._keep_deadline()
        self.processes.first_alone(self._save_now)
        self._saved_step, self._saved_at = self.step, time.monotonic()

    def _save_now(self) -> None:
        # The cost comes first: a run killed after its last save writes nothing more when resumed.
        cost = self._cost.read()
        self._write("cost", step=self.step, **cost, peak=self._peak)
        began = time.monotonic()
        self._saves.save(self.model, self.optimizer, self._progress() | cost)
        self._write("checkpoint", step=self.step, seconds=time.monotonic() - began)

    def _progress(self) -> dict[str, Any]:
        """The state of the run, apart from weights, moments and cost."""
        return {
            "step": self.step,
            "corpus": dict(self.corpus.facts),
            "position": self._position(self.step),
            "best": asdict(self.best),
            "validated_step": self._validated_step,
            "skipped": self._learner.skipped,
            "processes": self.processes.size,
        }

    def _go_to(self, progress: Mapping[str, Any]) -> None:
        self.step = self._saved_step = progress["step"]
        self.best, self._validated_step = Best(**progress["best"]), progress["validated_step"]
        self._learner.restore(progress["skipped"])
        self._cost.restore(progress)
        self._deadline = Deadline(self.step, self._cost.read()["seconds"] or 0.0)

    def _position(self, step: int) -> dict[str, Any]:
        return asdict(self.schedule.position(step))

    def _planned(self, step: int) -> PlannedBatch:
        return next(self.schedule.batches_from(step - 1))

    def _notice(self, text: str, **fields: int) -> None:
        if self.processes.is_first:
            self._write("notice", step=self.step, text=text, **fields)
        else:
            say(f"allyouneed: process {self.processes.rank}: {text}")

    def _write(self, event: str, **fields: Any) -> None:
        if self._log is not None:
            self._log.write(event, **fields)
            self._report({"event": event, **fields})


def schedule_of(store: PairStore, training: TrainingConfig) -> Schedule:
    """The batches of a run; the last pairs of `store` are the replayed ones.

    Raises:
        UsageError: A pair does not fit into a micro-batch, or these not into a batch.
        DataError: There are no pairs.
    """
    names = ("batch_tokens", "micro_batch_tokens", "block_pairs", "seed")
    budgets = {name: getattr(training, name) for name in names}
    lengths = store.source_lengths, store.target_lengths
    if not store.num_replayed:
        return BatchSchedule(*lengths, **budgets)
    return ReplaySchedule(*lengths, num_replayed=store.num_replayed, share=training.replay_share, **budgets)
