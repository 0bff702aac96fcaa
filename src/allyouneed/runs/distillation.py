"""Makes a small fast model that learns what larger ones write (Kim and Rush 2016), within a time.

The steps leave ordinary files, data and a run in OUT.stages, and are not done again: what the teachers wrote
as `pairs.tsv` and `more.tsv`, `data` prepared from it, a `shortlist`, the model to `start` with, and a `run`.
"""

import json
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import torch

from allyouneed.config.environment import num_processes
from allyouneed.config.presets import student_of
from allyouneed.data.monolingual_text import MonolingualText
from allyouneed.data.vocabulary_file import read_json
from allyouneed.errors import ModelError, UsageError
from allyouneed.inference.alignment import alignment_heads
from allyouneed.inference.native_layers import unknown_setting
from allyouneed.model.sizes import count_parameters
from allyouneed.native.library import available
from allyouneed.preparation.derived_data import learn_shortlist, with_other_pairs
from allyouneed.preparation.prepared_data import PreparedData
from allyouneed.preparation.preparing import Watch
from allyouneed.runs.budgeting import Budget
from allyouneed.runs.distilled_pairs import DistilledPairs, SourceText, corpus_of
from allyouneed.runs.loading import config_of, load_translator
from allyouneed.runs.monolingual import Phase
from allyouneed.runs.pace import about
from allyouneed.runs.run_configuration import completed
from allyouneed.runs.starting import train_phase
from allyouneed.runs.student_start import write_start
from allyouneed.storage.checkpoint import WEIGHTS, store_rounded
from allyouneed.storage.publish import (
    MANIFEST,
    disk_errors,
    lock_output,
    read_manifest,
    require_free,
    write_text,
)
from allyouneed.storage.run_directory import RunDirectory, resolve_model
from allyouneed.training.trainer import Report

if TYPE_CHECKING:
    from allyouneed.tasks.translation.translator import Translator

_PAIRS_SHARE, _TRANSLATIONS_SHARE = 0.3, 0.45
"""Shares of the time that the teachers have, at most, for the training sources, and for all translations."""
_REST_SHARE = 0.05
"""Share of the time for everything but translations and the run."""
_DROPPED_SHARE = 0.05
"""Share of the translations that are left out, those with the lowest scores."""
_CANDIDATES = 4
_BYTES_PER_PARAMETER, _SAVES = 4, 11
"""Bytes of a parameter in a run, and the number of times that a run keeps it: seven checkpoints, and two
states with two moments each."""
_BYTES_PER_PAIR = 80
"""Bytes of a pair in prepared data besides its text, in ids of two bytes."""


class Stage(NamedTuple):
    """A step of the plan, as `--dry-run` shows it."""

    name: str
    what: str
    seconds: float
    num_bytes: float


@dataclass(frozen=True)
class Student:
    """A student to make.

    Args:
        out: Directory of the new model.
        teachers: Model, or models with the same vocabularies, which then translate as an ensemble.
        data: Prepared data, whose sources are translated, and whose sub-words the student has.
        shape: "small", "tiny" or "micro"; see `STUDENTS` of the presets.
        seconds: Wall time for everything.
        monolingual: More sentences in the source language, one per line.
        settings: Settings of the student's run, such as `training.seed=2`.
    """

    out: Path | str
    teachers: Sequence[Path | str]
    data: Path | str
    shape: str
    seconds: float
    monolingual: Path | str | None = None
    settings: Sequence[str] = ()

    @property
    def stages(self) -> Path:
        """Folder of what the steps leave."""
        if not (name := Path(self.out).name):
            raise UsageError(f"{self.out}: is no name; name a new folder")
        return Path(self.out).with_name(f"{name}.stages")


def make_student(
    student: Student,
    *,
    device: torch.device | str = "cpu",
    report: Report = lambda event: None,
    say: Callable[[str], None] = lambda line: None,
) -> signal.Signals | None:
    """Make a student, or go on where an earlier call stopped.

    Args:
        student: What to make.
        device: Device to compute on.
        report: Receives every event of the log of the student's run.
        say: Receives what is done, in a few lines.

    Returns:
        The signal that ended the run early, if any; another call goes on.

    Raises:
        UsageError: The student was begun with other arguments, `out` is not free, or a setting does not suit.
        DataError: A text is unusable, or has changed.
        ModelError: A teacher or the data are damaged, or a teacher is for another task.
        LockedError: Another process is making the student.
        DivergedError: Three updates in a row, or a weight, are not finite.
        ResourceError: There is not enough memory.
    """
    for phase in phases(student, device=device, say=say):
        if received := train_phase(phase, device=device, report=report, say=say):
            return received
    return None


def phases(
    student: Student,
    *,
    device: torch.device | str = "cpu",
    say: Callable[[str], None] = lambda line: None,
    watch: Watch = lambda phase, total: nullcontext(lambda count: None),
) -> Iterator[Phase]:
    """Yield the student's run if it has not ended; do the other steps before and after it.

    The arguments and errors are those of `make_student`; `watch` shows the progress of translations.
    """
    run = student.stages / "run"
    steps = _Steps(student, device, say, watch)
    with steps.begun():
        if not (data := student.stages / "data").exists():
            steps.translate()
            train = corpus_of([pairs.file for pairs in steps.texts], _DROPPED_SHARE)
            with_other_pairs(steps.prepared, data, train, say)
        if not (shortlist := student.stages / "shortlist").exists():
            learn_shortlist(PreparedData(data), shortlist, say=say)
        if RunDirectory(run).end() is None:
            budget = steps.budget()
            steps.forget()  # the memory is wanted for training
            yield Phase(run, data, budget, resume=True)
        _publish(run, Path(student.out), say)


def plan(
    student: Student, *, device: torch.device | str = "cpu", say: Callable[[str], None] = lambda line: None
) -> list[Stage]:
    """The steps with their times and disk space, after all checks and a measurement; writes nothing."""
    return _Steps(student, device, say).plan()


def load_teacher(
    teachers: Sequence[Path | str], prepared: PreparedData, device: torch.device | str = "cpu"
) -> "Translator":
    """The teachers as one translator, on a CPU in int8 if the kernels know all parts of them.

    A model of several languages translates between those of `prepared`.
    """
    options: dict[str, Any] = {"device": device}
    has_kernels = all(unknown_setting(config_of(Path(each)).model) is None for each in teachers)
    if str(device) == "cpu" and has_kernels and "int8" in available():
        options["precision"] = "int8"
    teacher, languages = load_translator(*teachers, **options), prepared.config
    if not teacher.languages:
        return teacher
    if not languages.target_language:
        raise UsageError(
            f"{prepared.directory}: does not say its languages, and {teachers[0]} knows several; prepare it "
            "with source_language and target_language",
            settings=["source_language", "target_language"],
        )
    return teacher.into(languages.target_language, languages.source_language)


def _publish(run: Path, out: Path, say: Callable[[str], None]) -> None:
    """Round the matrices of the run's last checkpoint to 8 bits, in a model of its own.

    Raises:
        UsageError: `out` is a model of another run.
    """
    checkpoint = resolve_model(run)
    if not (out / MANIFEST).is_file():
        store_rounded(checkpoint, out, say)
        return
    parents = read_manifest(out, "model").get("parents", [])
    if [each.get("sha256") for each in parents] != [_sha256(checkpoint)]:
        raise UsageError(f"{out}: is not the model of {run}; remove one of them")


def _sha256(model: Path | str) -> str:
    """The sha256 of a model's weights."""
    manifest = read_manifest(resolve_model(Path(model)), "model", [WEIGHTS])
    return str(manifest["files"][WEIGHTS]["sha256"])


class _Steps:
    """The steps of a student, by the arguments of `phases`."""

    def __init__(
        self,
        student: Student,
        device: torch.device | str,
        say: Callable[[str], None],
        watch: Watch = lambda phase, total: nullcontext(lambda count: None),
    ) -> None:
        self._student, self._device, self._say, self._watch = student, device, say, watch
        self._stages, self.prepared = student.stages, PreparedData(student.data)
        if fault := self._fault():
            raise UsageError(fault)
        self._teachers = [resolve_model(Path(each)) for each in student.teachers]  # a run goes on meanwhile
        self._weights = [*map(_sha256, self._teachers)]
        first = config_of(self._teachers[0]).model
        config = student_of(student.shape, first).with_settings(student.settings)
        layer = config.search.alignment_layer or config.model.guided_layer or config.model.decoder_layers
        self._config = config.replace(search={"alignment_layer": layer})
        alignment_heads(self._config.model, layer, self._config.search.alignment_head)  # refuses others
        if self._config.training.init_from or self._config.training.replay:
            raise UsageError("a student is a new model; leave out training.init_from and training.replay")
        continued = self._config.replace(training={"init_from": str(self._teachers[0])})
        self._completed = completed(continued, self.prepared, torch.device(device))
        Budget(student.seconds).require_enough(1 - _TRANSLATIONS_SHARE - _REST_SHARE)

    @contextmanager
    def begun(self) -> Iterator[None]:
        """The context in which no other process makes the student; records what it is begun with.

        If the student was begun before, the same is required.
        """
        self._require_same()
        if not (is_begun := (self._stages / "plan.json").is_file()):
            self._choose()  # after all checks, and before anything is written
        with disk_errors(self._stages):
            self._stages.mkdir(parents=True, exist_ok=True)
        with (self._stages / "lock").open("ab") as lock:
            lock_output(lock.fileno(), self._stages)
            if not is_begun:
                if (plan := self._stages / "plan.json").is_file():
                    raise UsageError(f"{self._stages}: was begun by another process; give the command again")
                write_text(plan, json.dumps(self._plan, indent=1) + "\n")
            yield

    def translate(self) -> None:
        """Write what the teachers make of the texts, or the rest of it."""
        self._tell()
        for pairs in self.texts:
            number = self._numbers[pairs.file.name]
            pairs.write(self._teacher, number, partial(self._watch, f"translating {pairs.text.file}"))

    def forget(self) -> None:
        """Give the memory of the teachers and texts back."""
        for name in ("_teacher", "texts"):
            self.__dict__.pop(name, None)

    def budget(self) -> Budget:
        """The rest of the time, for the run, which continues weights of the teacher if these suit."""
        config, start, teacher = self._config, self._stages / "start", self._teachers[0]
        if start.exists() or write_start(start, self._completed, teacher, self.prepared, self._say):
            config = config.replace(training={"init_from": str(start)})
        self._say(f"{self._student.out}: the student learns for {about(self._run_seconds)}")
        return Budget(self._run_seconds, config, self._student.settings)

    def plan(self) -> list[Stage]:
        """See the function of this name."""
        self._require_same()
        self._choose()
        self._tell()
        numbers = {pairs.text.file: self._numbers[pairs.file.name] for pairs in self.texts}
        pairs, rest = sum(numbers.values()), _REST_SHARE * self._student.seconds / 2
        lengths = [len(line) for each in self.texts for line, _ in each.text.first(1_000)]
        text = 2.5 * pairs * sum(lengths) / len(lengths)
        model = self._completed.model
        parameters = sum(count_parameters(model).values())
        what = f"{self._student.shape}, {model.d_model} wide, {parameters:,} parameters"
        lines = " and ".join(f"{number:,} lines of {file}" for file, number in numbers.items())
        saved = _BYTES_PER_PARAMETER * _SAVES * parameters
        return [
            Stage("translations", lines, self._teacher_seconds, text),
            Stage(
                "data", "the translations as sub-words, and a shortlist", rest, text + _BYTES_PER_PAIR * pairs
            ),
            Stage("run", what, self._run_seconds, saved),
            Stage("model", "its matrices in 8 bits, measured beside the teachers", rest, parameters),
        ]

    def _fault(self) -> str:
        """The reason why no student can be made; "" if there is none."""
        data = self._student.data
        if not self._student.teachers:
            return "teachers: name one or more: runs, checkpoints or model folders"
        if not self.prepared.task.sides_are_alike:
            return f"{data}: is for {self.prepared.task.name}; students translate"
        if self.prepared.units.symbols:
            return f"{data}: is for several languages; prepare it for two, with sub-words of its own"
        return "students are made by one process; start it without torchrun" if num_processes() > 1 else ""

    @cached_property
    def _begun(self) -> dict[str, Any]:
        """The arguments that the student is begun with, by name."""
        asked = self._student
        return {
            "teachers": self._weights,
            "data": self.prepared.facts,
            "shape": asked.shape,
            "budget": asked.seconds,
            "monolingual": asked.monolingual and str(Path(asked.monolingual).resolve()),
            "settings": [*asked.settings],
        }

    @cached_property
    def _plan(self) -> dict[str, Any]:
        """The recorded arguments and measured choices; empty for a new student."""
        file = self._stages / "plan.json"
        if not file.is_file():
            return {}
        found = read_json(file, "plan")
        if not isinstance(found, dict) or not found.keys() >= {"begun", "lines"}:
            raise ModelError(f"{file}: is damaged; remove its folder, and begin anew")
        return found

    def _require_same(self) -> None:
        """Refuse a directory that is not free, or what a student was not begun with."""
        if not self._plan:
            require_free(Path(self._student.out))
        begun = self._plan.setdefault("begun", self._begun)
        for name, value in self._begun.items():
            if begun.get(name) != value:
                raise UsageError(
                    f"{self._stages}: was begun with other {name}; give what it was begun with, or name "
                    "another model"
                )

    def _choose(self) -> None:
        """Choose the numbers of lines to translate, by the measured speed, unless they are known."""
        if "lines" in self._plan:
            return
        found, left = dict[str, tuple[int, float]](), self._student.seconds * _TRANSLATIONS_SHARE
        for pairs in self.texts:
            pace = pairs.seconds_per_line(self._teacher)
            most = left if found else min(left, self._student.seconds * _PAIRS_SHARE)
            number = min(pairs.text.num_lines, max(1, int(most / pace)))
            found[pairs.file.name] = number, pace * number
            left -= pace * number
        self._plan["lines"] = found

    def _tell(self) -> None:
        """Say how many lines are translated, and in which time."""
        for pairs in self.texts:
            number, seconds = self._plan["lines"][pairs.file.name]
            what = f"{number:,} of {pairs.text.num_lines:,} lines of {pairs.text.file}"
            self._say(f"{self._student.out}: {what} are translated in {about(seconds)}")

    @property
    def _numbers(self) -> dict[str, int]:
        return {name: number for name, (number, _) in self._plan["lines"].items()}

    @property
    def _teacher_seconds(self) -> float:
        return float(sum(seconds for _, seconds in self._plan["lines"].values()))

    @property
    def _run_seconds(self) -> float:
        return self._student.seconds * (1 - _REST_SHARE) - self._teacher_seconds

    @cached_property
    def texts(self) -> list[DistilledPairs]:
        """The texts to translate, each with the file of its translations."""
        own = SourceText.of_pairs(self.prepared)
        texts = [DistilledPairs(self._stages / "pairs.tsv", own, _CANDIDATES)]
        if self._student.monolingual is not None:
            more = SourceText.of_text(MonolingualText(Path(self._student.monolingual)), self.prepared)
            texts.append(DistilledPairs(self._stages / "more.tsv", more, _CANDIDATES))
        return texts

    @cached_property
    def _teacher(self) -> "Translator":
        return load_teacher(self._teachers, self.prepared, self._device)
