"""Options of `train` that say how long a run lasts, and text to score the model of a budget with."""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from allyouneed.cli.shared_options import (
    AtLeastOne,
    ContinuationOptions,
    Device,
    Positive,
    device_kind,
)
from allyouneed.config.environment import number_given
from allyouneed.data.lines import read_aligned
from allyouneed.errors import UsageError, notice

if TYPE_CHECKING:
    from allyouneed.config.run import RunConfig

_SECONDS = {"s": 1.0, "m": 60.0, "h": 3_600.0, "d": 86_400.0, "w": 604_800.0}
_DURATION = re.compile(rf"([0-9]{{1,9}}(?:\.[0-9]{{1,9}})?)([{''.join(_SECONDS)}])")


def duration_in_seconds(_: type, tokens: Sequence[Any]) -> float:
    """Convert a time such as `90s` or `2h`; raises ValueError for anything else."""
    written = str(tokens[0].value)
    if (found := _DURATION.fullmatch(written)) is None:
        raise ValueError(f"{written!r} is no time; write 90s, 60m, 8h, 2d or 1w")
    return float(found[1]) * _SECONDS[found[2]]


@Parameter(name="*")
@dataclass(frozen=True)
class Length:
    """When the run ends; by default after the updates of its preset."""

    budget: Annotated[float | None, Parameter(converter=duration_in_seconds)] = None
    """Time that the whole run may take, such as 90s, 60m, 8h or 2d. Size, recipe and number of updates are
    chosen for it, by the measured speed of this machine and the size of the data. A preset or `--init-from`
    decides the size instead, and `--set` any setting."""
    steps: AtLeastOne | None = None
    """Number of updates of the whole run; short for `--set training.num_steps=N`. If they are too few for the
    warm-up of the preset, it takes a fifth of them."""
    minutes: Positive | None = None
    """Wall time in minutes after which a run stops, wherever it is; short for
    `--set training.budget_seconds=S`."""

    def settings(self) -> list[str]:
        """The settings that `steps` and `minutes` are short for; UsageError if there is a budget as well."""
        given = {"num_steps": self.steps, "budget_seconds": self.minutes and 60 * self.minutes}
        settings = [f"training.{name}={value}" for name, value in given.items() if value is not None]
        if settings and self.budget is not None:
            raise UsageError("--steps, --minutes: the budget decides when the run ends; leave them out")
        return settings

    def fitted(self, config: "RunConfig") -> "RunConfig":
        """The configuration of a new run, with a shorter warm-up if its `steps` are too few."""
        from allyouneed.training.optimizer import fitting_warm_up

        if self.steps is None or (found := fitting_warm_up(config.training, self.steps)) is None:
            return config
        warmup_steps, factor = found
        return config.replace(training={"warmup_steps": warmup_steps, "learning_rate_factor": factor})

    def require_same(self, run: Path, recorded: "RunConfig") -> None:
        """Reject another budget than the run was begun with."""
        planned = recorded.training.planned_seconds
        if planned != self.budget:
            begun = f"a budget of {planned:g} seconds" if planned else "none"
            raise UsageError(
                f"--budget: {run} was begun with {begun}; leave --budget out, or train a new run"
            )


@Parameter(name="*")
@dataclass(frozen=True)
class MonolingualOptions:
    """Text without translations, for a run with `--budget`; see docs/budget.md."""

    monolingual: Path | None = None
    """Sentences in the target language, one per line. For a part of the budget, a model of the other
    direction is trained and translates them; the pairs are learned beside yours."""
    monolingual_source: Path | None = None
    """Sentences in the source language, which a first model of the same direction translates."""

    def require_budget(self, length: Length, continuation: ContinuationOptions) -> None:
        """Reject text without a budget, and with a model to continue."""
        for name, file in vars(self).items():
            flag = f"--{name.replace('_', '-')}"
            if file is not None and length.budget is None:
                raise UsageError(f"{flag}: is part of a budget; give a time, such as --budget 60m")
            if file is not None and continuation != ContinuationOptions():
                raise UsageError(f"{flag}: trains new models; leave out --init-from and --replay")


@Parameter(name="*")
@dataclass(frozen=True)
class TestOptions:
    """Held-out text to score the model of a budget with, at the end; it has no influence on training."""

    test_source: Path | None = None
    """Source sentences, one per line, for a run with `--budget`. The scores are also in RUN/test.json."""
    test_reference: Path | None = None
    """Their reference translations, line by line."""

    def texts(self, length: Length) -> list[list[str]]:
        """Sources and references; nothing if they are not given."""
        if self.test_source is None and self.test_reference is None:
            return []
        if self.test_source is None or self.test_reference is None:
            raise UsageError("give both --test-source and --test-reference, or neither")
        if length.budget is None:
            raise UsageError("--test-source: is for --budget; score another run with `evaluate`")
        return read_aligned(self.test_source, self.test_reference)


def print_scores(run: Path, texts: Sequence[Sequence[str]], device: Device) -> None:
    """Print the scores of a run's model on held-out text, if any, and write them to RUN/test.json."""
    if not texts or number_given("RANK", 0):  # the first process of `torchrun` prints
        return
    from allyouneed.evaluation.scores import format_scores, headline, scores_to_json
    from allyouneed.runs.loading import load, task_of
    from allyouneed.storage.publish import write_text

    evaluate = task_of(run).evaluate
    assert evaluate is not None
    scores = evaluate(load(run, device=device_kind(device)), *texts, target_language=None, say=notice)
    print(f"{headline(scores[0])}\n{format_scores(scores)}")
    write_text(run / "test.json", json.dumps(scores_to_json(scores), indent=1) + "\n")
