"""Models from where they are kept, ready to use."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeVar

import torch

from allyouneed.config import RunConfig
from allyouneed.data.linearisation import TreeVocabulary
from allyouneed.data.tokenizer import Tokenizer
from allyouneed.errors import ModelError, UserError
from allyouneed.inference.shortlist import Shortlist
from allyouneed.model import EncoderDecoder
from allyouneed.parsing import Parser
from allyouneed.preparation import SOURCE_TOKENIZER, TARGET_TOKENIZER
from allyouneed.training.checkpoint import CONFIG, Checkpoint, load_checkpoint
from allyouneed.training.run_directory import resolve_model
from allyouneed.translation import Translator

Units = TypeVar("Units", Tokenizer, TreeVocabulary)
"""What the ids of outputs stand for."""

_COMMANDS = {"translation": "translate", "parsing": "parse"}


def load(path: Path | str, *others: Path | str, **options: Any) -> Any:
    """What is kept in a model directory, a checkpoint, or a run, whose latest checkpoint is taken.

    Args:
        path: Of it.
        *others: Of models that work with it, as an ensemble; the first one's settings hold for all.
        **options: `device`, `precision`, `threads`, and for a translator `shortlist`: see `load_translator`.

    Returns:
        A `Translator`, or a `Parser` where the model was trained on trees.

    Raises:
        ModelError: There is none, it is damaged, or another model or the shortlist has other vocabularies.
        UsageError: The precision is not to be had here.
    """
    load_for_task = load_parser if _task_of(Path(path)) == "parsing" else load_translator
    return load_for_task(path, *others, **options)


def load_translator(
    path: Path | str,
    *others: Path | str,
    device: torch.device | str = "cpu",
    precision: str = "float32",
    threads: int = 1,
    shortlist: Path | str | None = None,
) -> Translator:
    """The translator kept in a model directory, a checkpoint, or a run, whose latest checkpoint is taken.

    Args:
        path: Of it.
        *others: Of models that translate with it, as an ensemble; the first one's settings hold for all.
        device: Where to compute.
        precision: Of the matrix products: float32, bfloat16 or int8.
        threads: That share a product, on a CPU.
        shortlist: A directory that `allyouneed shortlist` has made: translate faster, with its tokens only.

    Raises:
        ModelError: There is none, it is damaged or for another task, or another model or the shortlist has
            other vocabularies.
        UsageError: The precision is not to be had here.
    """
    models, config, source, target = _load_members([path, *others], "translation", Tokenizer, device)
    chosen = None if shortlist is None else Shortlist.load(Path(shortlist), resolve_model(Path(path)))
    return Translator(models, config, source, target, precision=precision, threads=threads, shortlist=chosen)


def load_parser(
    path: Path | str,
    *others: Path | str,
    device: torch.device | str = "cpu",
    precision: str = "float32",
    threads: int = 1,
) -> Parser:
    """The parser kept in a model directory, a checkpoint, or a run; the arguments are `load_translator`'s.

    Raises:
        ModelError: There is none, it is damaged or for another task, or another model has other vocabularies.
        UsageError: The precision is not to be had here.
    """
    models, config, source, target = _load_members([path, *others], "parsing", TreeVocabulary, device)
    return Parser(models, config, source, target, precision=precision, threads=threads)


def _task_of(path: Path) -> str:
    try:
        return RunConfig.from_toml(resolve_model(path) / CONFIG).data.task
    except UserError as error:
        raise ModelError(error.messages) from None


def _load_members(
    paths: Sequence[Path | str], task: str, units: type[Units], device: torch.device | str
) -> tuple[list[EncoderDecoder], RunConfig, Tokenizer, Units]:
    """Models that are to work as one, the settings of the first, and the units of sources and outputs."""
    members = [_load_member(Path(path), task, units, device) for path in paths]
    _, config, source, target = members[0]
    for member, path in zip(members, paths, strict=True):
        if member[2:] != (source, target):
            fault = f"{path}: has other vocabularies than {paths[0]}"
            raise ModelError(f"{fault}; an ensemble is of models trained on the same prepared data")
    return [model for model, *_ in members], config, source, target


def load_for(path: Path, task: str) -> Checkpoint:
    """The checkpoint of a model for a task.

    Raises:
        ModelError: There is none, it is damaged or for another task.
    """
    checkpoint = load_checkpoint(resolve_model(path))
    its_task = checkpoint.config.data.task
    if its_task != task:
        raise ModelError(f"{path}: is a model for {its_task}; use it with `allyouneed {_COMMANDS[its_task]}`")
    return checkpoint


def _load_member(
    path: Path, task: str, units: type[Units], device: torch.device | str
) -> tuple[EncoderDecoder, RunConfig, Tokenizer, Units]:
    checkpoint = load_for(path, task)
    return (
        checkpoint.build_model().to(device),
        checkpoint.config,
        Tokenizer.load(checkpoint.directory / SOURCE_TOKENIZER),
        units.load(checkpoint.directory / TARGET_TOKENIZER),
    )
