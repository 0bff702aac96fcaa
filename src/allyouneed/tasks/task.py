"""What a task is: what models are trained to do, from the files it reads to the scores of its outputs."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from allyouneed.config.run import DataConfig, RunConfig
from allyouneed.data.corpus import Reader
from allyouneed.evaluation import Score
from allyouneed.tasks.training_text import TrainingText
from allyouneed.tasks.units import Units

if TYPE_CHECKING:
    from allyouneed.model import EncoderDecoder

Validate = Callable[["EncoderDecoder"], Mapping[str, float]]
"""Scores a model while it is trained: name of a score -> value."""


@dataclass(frozen=True)
class Task:
    """A task. Prepare, train, average, load and evaluate know nothing else of it."""

    name: str
    """The name in settings and for `--task`."""
    command: str
    """The command that uses its models."""
    default_preset: str
    """The preset of a run that names none."""
    score: str
    """Name of the validation score by which a run is best, in its log: higher is better."""
    score_label: str
    """The score's name in plots."""
    examples: str
    """What a corpus is made of, in messages: "pairs"."""
    target_units: str
    """What targets are made of, in messages: "sub-words"."""
    reader: type[Reader]
    """What reads its files."""
    training_options: str
    """Options of `prepare` that name training files, in messages."""
    validation_options: str
    """Options of `prepare` that name validation files, in messages."""
    data_settings: frozenset[str]
    """Settings of `DataConfig` that only this task heeds."""
    sides_are_alike: bool
    """Whether source and target have about as many tokens, so that pairs which differ much are dropped."""
    require_settings: Callable[[DataConfig], None]
    """Refuses settings that do not suit the task, by UsageError."""
    ids_per_word: Callable[[DataConfig], int | None]
    """Number of ids of every word on both sides; None where words differ in it."""
    learn_units: Callable[[TrainingText], Units]
    """Learns the units from the training text."""
    load_units: Callable[[Path, DataConfig, int, int], Units]
    """Loads the units from the directory of prepared data or of a model, given the settings of the data and
    the numbers of source and target entries. Files that are damaged or of other sizes raise ModelError."""
    build: Callable[..., Any]
    """Makes what users work with, such as a `Translator`: `build(models, config, units, directory=...)` with
    the models of an ensemble, and the directory of the first; further options are those of `load`."""
    validation: Callable[[Sequence[str], Sequence[str], Units, RunConfig], Validate]
    """Makes what scores a model on held-out sources and targets, as `prepare` has kept them."""
    evaluate: Callable[..., list[Score]]
    """Scores of what `build` has made, on sources and references; further options are the task's."""
