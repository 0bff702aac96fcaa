"""Trains with text that has no translations: models that are trained first translate it, within the budget.

Target text is translated back by a model of the other direction (Sennrich et al., 2016), and the sources so
made begin with a tag (Caswell et al., 2019). Source text is translated by a model of the same direction
(self-training; He et al., 2020). Each step leaves ordinary runs, texts and data in RUN/monolingual, and is
not done again.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any, NamedTuple

import torch

from allyouneed.config.environment import num_processes
from allyouneed.config.run import RunConfig
from allyouneed.data.monolingual_text import MonolingualText
from allyouneed.data.vocabulary_file import read_json
from allyouneed.errors import DataError, ModelError, UsageError
from allyouneed.preparation.derived_data import add_synthetic, reverse
from allyouneed.preparation.prepared_data import PreparedData
from allyouneed.preparation.preparing import Watch
from allyouneed.runs.budgeting import Budget
from allyouneed.runs.loading import load_translator
from allyouneed.runs.pace import about
from allyouneed.runs.synthetic_pairs import SyntheticPairs
from allyouneed.storage.publish import disk_errors, write_text
from allyouneed.storage.publish.disk import require_local
from allyouneed.storage.run_directory import FIRST_MODELS, RunDirectory, require_run

_MODELS_SHARE, _TRANSLATIONS_SHARE = 0.3, 0.15
"""Shares of the budget for all models that are trained first and, at most, for all translations."""
_MOST_SYNTHETIC = 0.5
"""Greatest share of synthetic pairs in the target tokens of a batch."""
_SETTINGS = {"target": "monolingual", "source": "monolingual_source"}
"""Side of the pairs whose language a text has -> setting that names the text."""
_NAMES = {"target": "reverse", "source": "forward"}
"""Side of a text -> name of the model that translates it, and of the pairs."""


class Phase(NamedTuple):
    """One of the runs that a budget is spent on; the last one is the run that was asked for."""

    run: Path
    data: Path
    config: RunConfig | Budget | None
    resume: bool


def phases(
    run: Path,
    data: Path,
    config: RunConfig | Budget | None,
    *,
    resume: bool = False,
    device: torch.device | str = "cpu",
    say: Callable[[str], None] = lambda line: None,
    watch: Watch = lambda phase, total: nullcontext(lambda count: None),
    rehearsal: bool = False,
) -> Iterator[Phase]:
    """The runs to train, one after another: a single one, unless the budget has monolingual text.

    What lies between two runs, such as a translation, is done when the second one is asked for. The arguments
    are those of `train`; `watch` shows the progress of translations. In a `rehearsal`, nothing is written,
    and only the last run is returned, with the time that is left to it at least.

    Raises:
        UsageError: `run` exists and `resume` is not set, or was begun otherwise, or the text does not suit.
        DataError: A text is unusable, or `data` is not what `run` was begun with.
        ModelError: The record of what `run` was begun with is damaged.
    """
    directory, plan = RunDirectory(run), run / FIRST_MODELS / "plan.json"
    given = config if isinstance(config, Budget) else None
    if not plan.is_file() and not (given and _texts(given)):
        yield Phase(run, data, config, resume)
        return
    require_local(run)
    require_run(directory, resume)
    if not plan.is_file() and directory.config.is_file():
        raise _usage_error(f"{run}: was begun without monolingual text; leave it out, or train a new run")
    budget = _begun(run, plan, given) if plan.is_file() else given
    if directory.config.is_file():
        yield Phase(run, data, None if given else config, resume=True)
        return
    if budget is None or given is not config:
        raise UsageError(f"{run}: was begun with a budget; leave out other settings to go on")
    steps = _Steps(run, data, budget, device, say, watch)
    yield from [steps.rehearsed()] if rehearsal else steps.phases()


def _begun(run: Path, plan: Path, given: Budget | None) -> Budget:
    """The budget that a run was begun with; UsageError if another is given."""
    recorded = read_json(plan, "plan")
    try:
        found = dict(recorded["budget"])
        begun = found["begun"] and RunConfig.model_validate_json(found["begun"])
        budget = Budget(**found | {"begun": begun})
    except (KeyError, TypeError, ValueError):
        raise ModelError(f"{plan}: is damaged; train a new run") from None
    if given and found != _as_json(given):
        raise _usage_error(
            f"{run}: was begun with another budget, text or settings; give resume alone to go on, or train a "
            "new run"
        )
    return budget


@dataclass
class _Steps:
    """The steps of a budget with monolingual text, by the arguments of `phases`."""

    run: Path
    data: Path
    budget: Budget
    device: torch.device | str
    say: Callable[[str], None]
    watch: Watch

    def __post_init__(self) -> None:
        self._folder, self._prepared = self.run / FIRST_MODELS, PreparedData(self.data)
        seconds, self._num_texts = self.budget.seconds, len(_texts(self.budget))
        self._model_seconds = _MODELS_SHARE * seconds / self._num_texts
        self._most_seconds = _TRANSLATIONS_SHARE * seconds / self._num_texts  # for translations of a text

    def phases(self) -> Iterator[Phase]:
        """The runs, with the other steps between them."""
        found = self._checked()
        self._require_same_data()
        for side, pairs in found.items():
            yield from self._first_model(side)
            self._translate(side, pairs)
        settings = self._synthetic({side: pairs.file for side, pairs in found.items()})
        seconds = self._last_seconds(*[each for _, each in self._plan["chosen"].values()])
        yield Phase(self.run, self.data, _part(self.budget, seconds, settings), resume=True)

    def rehearsed(self) -> Phase:
        """The last run, after all checks, with the least time for it."""
        seconds = self._last_seconds(*[self._most_seconds for _ in self._checked()])
        return Phase(self.run, self.data, _part(self.budget, seconds), resume=True)

    def _checked(self) -> dict[str, SyntheticPairs]:
        """The pairs that are made of the text of each side, after all checks; says what the steps are."""
        if fault := self._fault():
            given = " and ".join(_SETTINGS[side] for side in _texts(self.budget))
            raise _usage_error(f"{given}: {fault}")
        self.budget.require_enough(_MODELS_SHARE / self._num_texts)
        found = {}
        for side, file in _texts(self.budget).items():
            text, pairs = MonolingualText(file), self._folder / f"{_NAMES[side]}.tsv"
            found[side] = SyntheticPairs(pairs, side, text, self._prepared)
            found[side].require_suitable()
            self.say(
                f"{self.run}: {file}: {text.num_lines:,} lines, and {text.num_repeats:,} repeats; a "
                f"{_NAMES[side]} model takes {about(self._model_seconds)}, its translations at most "
                f"{about(self._most_seconds)}"
            )
        left = about(self._last_seconds(*[self._most_seconds for _ in found]))
        self.say(f"{self.run}: {left} or more are for the model itself, on your pairs and these")
        return found

    def _fault(self) -> str:
        """The reason for which text cannot be used; "" if there is none."""
        training = self.budget.tried.training
        if not self._prepared.task.sides_are_alike:
            return f"is for sentence pairs, not for {self._prepared.task.name}; leave it out"
        if self._prepared.units.symbols:
            return f"is for one direction, but {self.data} has several; leave it out"
        if training.init_from or training.replay:
            return "trains new models; leave out init_from and replay"
        return "is for one process; start it without torchrun" if num_processes() > 1 else ""

    def _require_same_data(self) -> None:
        """Record which data the run is begun with, or require them if it was begun before."""
        with disk_errors(self._folder):
            self._folder.mkdir(parents=True, exist_ok=True)
        if self._plan.setdefault("facts", self._prepared.facts) != self._prepared.facts:
            raise DataError(
                f"{self.run}: was begun with other data than {self.data}; name the data it began with"
            )
        self._record()

    @cached_property
    def _plan(self) -> dict[str, Any]:
        """The beginning of the run, and the number of lines of each text to translate, with the seconds."""
        if (file := self._folder / "plan.json").is_file():
            return dict(read_json(file, "plan"))
        return {"budget": _as_json(self.budget), "chosen": {}}

    def _record(self) -> None:
        write_text(self._folder / "plan.json", json.dumps(self._plan, indent=1) + "\n")

    def _last_seconds(self, *translations: float) -> float:
        """The time for the last run, after translations that take so many seconds."""
        return self.budget.seconds - self._num_texts * self._model_seconds - sum(translations)

    def _first_model(self, side: str) -> Iterator[Phase]:
        """The run of the model that translates a text, unless it has ended."""
        run, data = self._folder / _NAMES[side], self.data
        if side == "target" and not (data := self._folder / "reverse-data").exists():
            reverse(self._prepared, data)
        if RunDirectory(run).end() is None:
            greedy = ["search.length_penalty=1.0"]  # has no effect, so none is chosen
            yield Phase(run, data, _part(self.budget, self._model_seconds, greedy), resume=True)

    def _translate(self, side: str, pairs: SyntheticPairs) -> None:
        """Write as many pairs as the time allows, or the rest of them."""
        if (self._folder / "data").exists():
            return
        translator = load_translator(self._folder / _NAMES[side], device=self.device)
        if side not in self._plan["chosen"]:
            self._plan["chosen"][side] = pairs.choose(translator, self._most_seconds)
            self._record()
        (number, seconds), text = self._plan["chosen"][side], pairs.text.file
        self.say(f"{self.run}: {number:,} lines of {text} are translated in {about(seconds)}")
        if too_long := number - pairs.write(translator, number, partial(self.watch, f"translating {text}")):
            self.say(f"{self.run}: {too_long:,} of them are too long, and left out")

    def _synthetic(self, files: Mapping[str, Path]) -> Sequence[str]:
        """The settings by which the last run learns files of pairs; none if no pair is of use."""
        data = self._folder / "data"
        tagged = [files["target"]] if "target" in files else []
        try:
            if not data.exists():
                add_synthetic(self._prepared, data, [*files.values()], tagged, self.say)
        except DataError as error:
            self.say(f"NOTICE: {self.run}: {error.messages[0]}; the model learns your pairs alone")
            return []
        stores = self._prepared.train, PreparedData(data).train
        own, synthetic = (float(store.target_lengths.sum()) + store.num_pairs for store in stores)
        share = max(0.001, min(_MOST_SYNTHETIC, synthetic / (own + synthetic)))
        self.say(f"{self.run}: {share:.0%} of what the model learns is in {data}")
        name = json.dumps(str(data), ensure_ascii=False)
        return f"training.replay={name}", f"training.replay_share={share:.3f}"


def _texts(budget: Budget) -> dict[str, Path]:
    """Side -> text in its language."""
    given = {side: getattr(budget, setting) for side, setting in _SETTINGS.items()}
    return {side: Path(file) for side, file in given.items() if file is not None}


def _part(budget: Budget, seconds: float, settings: Sequence[str] = ()) -> Budget:
    """A part of a budget, for one run, with more settings."""
    return Budget(seconds, budget.begun, [*budget.settings, *settings])


def _as_json(budget: Budget) -> dict[str, Any]:
    texts = _texts(budget)
    return {
        "seconds": budget.seconds,
        "begun": budget.begun and budget.begun.model_dump_json(),
        "settings": [*budget.settings],
        **{setting: str(texts[side]) for side, setting in _SETTINGS.items() if side in texts},
    }


def _usage_error(message: str) -> UsageError:
    return UsageError(message, settings=[*_SETTINGS.values(), "init_from", "replay", "resume"])
