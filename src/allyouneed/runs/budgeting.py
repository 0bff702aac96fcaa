"""Chooses what to train within a time: a size, a recipe and a number of updates, by measured speed."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from allyouneed.config.presets import SIZES, modern, warm_up
from allyouneed.config.run import RunConfig, SearchConfig
from allyouneed.errors import UsageError
from allyouneed.hardware.devices import fast_precisions
from allyouneed.model.sizes import count_parameters
from allyouneed.preparation.prepared_data import PreparedData
from allyouneed.runs.pace import about, timed_updates, updates_of
from allyouneed.runs.run_configuration import completed, longest_sentence, training_pairs
from allyouneed.storage.run_directory import RunDirectory
from allyouneed.storage.run_log import read_log
from allyouneed.training.accumulation import Say
from allyouneed.training.deadline import LEAST_TO_SEARCH, MOST_EPOCHS, SHARE_OF_UPDATES
from allyouneed.training.flops import training_flops
from allyouneed.training.trainer import schedule_of

_LEAST_SECONDS = 20.0
_MEASURED_SHARE, _MOST_MEASURED = 0.008, 8.0
"""Seconds of one measurement, which computes everything twice: their share of the budget, and at most."""
_TOKENS_PER_PARAMETER = 4.0
"""Least number of target tokens to see for each parameter of the layers."""
_BATCH_PER_ROOT, _SMALLEST_BATCH, _LARGEST_BATCH = 0.65, 1_024, 26_500
"""Tokens of a batch for each square root of all tokens to see, and its bounds."""
_FEWEST_PARTS, _MOST_PARTS = 2, 4
"""Least and greatest number of micro-batches in a batch on a CPU; between them, each thread has one."""
_RATE_BY_WIDTH, _RATE_OF_CONTINUED, _RATE_OF_POST_NORM = 0.75, 0.3, 0.4
"""Highest learning rate, times d_model; its shares in a run that continues a model, and with normalisation
after the sums, which diverges at such rates."""
_WARM_UP_SHARE, _LONGEST_WARM_UP = 0.2, 4_000
_DROPOUTS = {0.1: 25.0, 0.2: 80.0, 0.3: math.inf}
"""Rate of dropout -> number of epochs up to which it is taken."""
_BY_HEART, _GAP = 1.01, 0.3
"""Share of the least validation loss, and nats below the validation loss, that tell what a run lacks."""
_ENTRIES = "source_vocab_size", "target_vocab_size"
_SECONDS_PER_CHECKPOINT, _FEWEST_CHECKPOINTS, _MOST_CHECKPOINTS = 60.0, 4, 40
_CHECKPOINTS_PER_VALIDATION = 4


@dataclass(frozen=True)
class _Pace:
    """Measured speed of a complete configuration."""

    config: RunConfig
    tokens_per_second: float
    """Target tokens per second."""
    updates_per_second: float


@dataclass(frozen=True)
class Budget:
    """A time to train in; the configuration that uses it best is chosen when the run starts."""

    seconds: float
    """Wall time of the whole run, from measurements to the last checkpoint."""
    begun: RunConfig | None = None
    """Configuration whose model is trained, such as one of `continue_from`; by default a size is chosen."""
    settings: Sequence[str] = ()
    """Settings, such as `training.seed=2`, that are not chosen."""
    monolingual: Path | str | None = None
    """Target sentences without translations, one per line; see `runs.monolingual`."""
    monolingual_source: Path | str | None = None
    """Source sentences without translations."""

    def config(
        self,
        prepared: PreparedData,
        device: torch.device,
        num_processes: int = 1,
        say: Say = lambda line: None,
    ) -> RunConfig:
        """The complete configuration of the run.

        Args:
            prepared: Data to train on.
            device: Device of the run, whose speed is measured.
            num_processes: Number of processes that share the work, each with such a device.
            say: Receives what was chosen and why, in a few lines.

        Raises:
            UsageError: The budget is too small, or a setting is wrong.
        """
        self.require_enough()
        tried = self.tried
        own_share = 1 - tried.training.replay_share
        longest = longest_sentence(prepared, training_pairs(prepared, tried).store)
        given = self.seconds, prepared, device, num_processes, say, self.settings
        choices = _Choices(*given, own_share, longest)
        pace = choices.pace(choices.fitted(tried))
        sized = tried if self.begun else choices.sized(pace).with_settings(self.settings)
        return choices.recipe(choices.fastest(sized, pace)).with_settings(self.settings)

    @property
    def tried(self) -> RunConfig:
        """The configuration whose speed is measured first."""
        return (self.begun or modern(next(iter(SIZES)))).with_settings(self.settings)

    def require_enough(self, share: float = 1.0) -> None:
        """Raise UsageError if a share of the time, by default all, is too short for a run."""
        if not share * self.seconds >= _LEAST_SECONDS:
            least = math.ceil(_LEAST_SECONDS / share)
            raise UsageError(f"budget: give {least:g} seconds or more", settings=["budget"])


@dataclass(frozen=True)
class _Choices:
    """The choices of `Budget.config`, by its arguments."""

    seconds: float
    prepared: PreparedData
    device: torch.device
    num_processes: int
    say: Say
    settings: Sequence[str] = ()
    own_share: float = 1.0
    """Share of the target tokens that comes from the corpus; the others are replayed."""
    longest: int = 1
    """Number of tokens of the longest sentence, which a micro-batch holds."""

    def fitted(self, config: RunConfig) -> RunConfig:
        """The configuration with a batch that holds the longest sentence."""
        batch = max(self.longest, config.training.batch_tokens)
        return config.replace(training={"batch_tokens": batch}).with_settings(self.settings)

    def sized(self, pace: _Pace) -> RunConfig:
        """The largest model that sees enough tokens for its parameters, by the pace of another."""
        sizes = {name: modern(name) for name in SIZES}
        (chosen, *larger), reason = sizes, "no larger one is known"
        for name in larger:
            wanted, seen = _tokens_wanted(sizes[name]), self._tokens(pace, sizes[name])
            if wanted > seen:
                takes = f"takes {about(self.seconds * wanted / seen)}"
                reason = f"{name}, the next, {'wants more text' if wanted > self._most_tokens else takes}"
                break
            chosen = name
        self.say(f"size: {chosen}, {sizes[chosen].model.d_model} wide; {reason}")
        return sizes[chosen]

    def fastest(self, config: RunConfig, pace: _Pace) -> _Pace:
        """The configuration in the fastest precision, with a batch for its tokens, and its speed."""
        batch = round(_BATCH_PER_ROOT * math.sqrt(self._tokens(pace, config)))
        batch = min(max(batch, _SMALLEST_BATCH), _LARGEST_BATCH)
        config = self.fitted(config.replace(training={"batch_tokens": batch}))
        if self._has_part_per_thread and config.training.micro_batch_tokens is None:
            parts = max(_FEWEST_PARTS, torch.get_num_threads())
            batch = config.training.batch_tokens
            micro_batch = min(batch, max(self.longest, -(-batch // parts)))
            config = config.replace(training={"micro_batch_tokens": micro_batch})
        given = config.training.precision
        precisions = fast_precisions(self.device) if given == "auto" else [given]
        paces = [self.pace(config.replace(training={"precision": each})) for each in precisions]
        speeds = (f"{each.tokens_per_second:,.0f} in {each.config.training.precision}" for each in paces)
        self.say(f"speed: {' and '.join(speeds)}, in target tokens per second")
        return max(paces, key=lambda each: each.tokens_per_second)

    @property
    def _has_part_per_thread(self) -> bool:
        """Whether each thread gets one micro-batch, which has to be as large then as it can be."""
        return self.device.type == "cpu" and self.num_processes == 1 and torch.get_num_threads() < _MOST_PARTS

    def recipe(self, pace: _Pace) -> RunConfig:
        """The rest of the settings, which follow from the speed."""
        model, training = pace.config.model, pace.config.training
        tokens = self._tokens(pace, pace.config)
        num_steps = int(tokens / pace.tokens_per_second * pace.updates_per_second) or 1
        epochs = MOST_EPOCHS * tokens / self._most_tokens
        warmup_steps = max(1, min(round(_WARM_UP_SHARE * num_steps), _LONGEST_WARM_UP))
        highest, dropout = _RATE_BY_WIDTH / model.d_model, model.dropout
        if training.init_from is not None:
            highest *= _RATE_OF_CONTINUED
        else:
            highest *= _RATE_OF_POST_NORM if model.norm == "post" else 1.0
            dropout = next(rate for rate, most in _DROPOUTS.items() if epochs <= most)
        enough = ""
        if tokens == self._most_tokens:
            enough = f", which is enough: it takes {about(num_steps / pace.updates_per_second)}"
        self.say(
            f"updates: {num_steps:,} of {training.batch_tokens:,} tokens; each pair is seen {epochs:.3g} "
            f"times{enough}"
        )
        self.say(
            f"learning rate: {highest:.2g} after {warmup_steps:,} updates, then down to 0; "
            f"dropout: {dropout:g}"
        )
        minutes = self.seconds / _SECONDS_PER_CHECKPOINT
        checkpoints = min(max(minutes, _FEWEST_CHECKPOINTS), _MOST_CHECKPOINTS)
        usual = {"length_penalty": SearchConfig().length_penalty}  # the last validation chooses another
        return pace.config.replace(
            model={"dropout": dropout},
            search=usual if self.prepared.valid and self.seconds >= LEAST_TO_SEARCH else {},
            training={
                "num_steps": num_steps,
                **warm_up(warmup_steps, highest=highest, d_model=model.d_model),
                "schedule": "linear_decay",
                "planned_seconds": self.seconds,
                "checkpoint_every_steps": math.ceil(num_steps / checkpoints),
                "validate_every_steps": math.ceil(_CHECKPOINTS_PER_VALIDATION * num_steps / checkpoints),
            },
        )

    def _tokens(self, pace: _Pace, config: RunConfig) -> float:
        """Number of target tokens that a configuration sees, by the pace of this one or of another."""
        entries = {name: getattr(pace.config.model, name) for name in _ENTRIES}
        config = config.replace(model=entries)
        share = self._flops_per_token(pace.config) / self._flops_per_token(config)
        return min(SHARE_OF_UPDATES * self.seconds * pace.tokens_per_second * share, self._most_tokens)

    @property
    def _most_tokens(self) -> float:
        """Number of target tokens after which nothing more is learned from the corpus."""
        store = self.prepared.train
        return MOST_EPOCHS * (float(store.target_lengths.sum()) + store.num_pairs) / self.own_share

    def _flops_per_token(self, config: RunConfig) -> float:
        """FLOPs for a target token, of a pair of mean length."""
        store = self.prepared.train
        lengths = store.source_lengths, store.target_lengths
        source, target = (1 + round(float(side.mean())) for side in lengths)
        return training_flops(config.model, 1, source, target, target) / target

    def pace(self, config: RunConfig) -> _Pace:
        """The speed of a configuration, by some updates of a throw-away model."""
        config = completed(config, self.prepared, self.device, self.num_processes)
        store = training_pairs(self.prepared, config).store
        update = updates_of(config, store, self.device, self.say)
        least = min(_MEASURED_SHARE * self.seconds, _MOST_MEASURED)
        batches, seconds = timed_updates(update, schedule_of(store, config.training), least)
        tokens = sum(batch.num_target_tokens for batch in batches)
        share = self.num_processes / seconds
        return _Pace(config, share * tokens, share * len(batches))


def advice(run: RunDirectory) -> str:
    """The greatest remedy for the translations of a run, by its losses; "" if it was never validated."""
    events = list(read_log(run.log))
    validated = [event["loss"] for event in events if event["event"] == "validate"]
    trained = [event["loss"] for event in events if event["event"] == "train"]
    if not (validated and trained):
        return ""
    if validated[-1] > _BY_HEART * min(validated):
        return "more text would help most: it has begun to learn this text by heart, so more time would not"
    if trained[-1] < validated[-1] - _GAP:
        return "more text would help most, then more time, which would allow a larger model"
    return "more time would help most, as it would allow a larger model, then more text"


def _tokens_wanted(config: RunConfig) -> float:
    """Least number of target tokens that a model should see; its embeddings do not count."""
    parts = count_parameters(config.model)
    return _TOKENS_PER_PARAMETER * (parts["encoder"] + parts["decoder"])
