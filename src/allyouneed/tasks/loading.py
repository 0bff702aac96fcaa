"""Models from where they are kept, ready to use."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

import torch

from allyouneed.config.run import RunConfig
from allyouneed.data.tokenizer import Tokenizer
from allyouneed.errors import ModelError, UsageError, UserError
from allyouneed.inference.shortlist import Shortlist
from allyouneed.model import EncoderDecoder
from allyouneed.model.weights import model_from_weights
from allyouneed.storage.checkpoint import CONFIG, Checkpoint, load_checkpoint
from allyouneed.storage.run_directory import resolve_model
from allyouneed.tasks.parsing.parser import Parser
from allyouneed.tasks.parsing.tree_vocabulary import TreeVocabulary
from allyouneed.tasks.prepared_data import (
    SOURCE_TOKENIZER,
    TARGET_TOKENIZER,
    SourceTokenizer,
    load_source_tokenizer,
)
from allyouneed.tasks.translation.translator import Translator

Sources = TypeVar("Sources")
Targets = TypeVar("Targets")
"""What the ids of sources, and of outputs, stand for."""

_COMMANDS = {"translation": "translate", "parsing": "parse"}


def load(
    path: Path | str,
    *others: Path | str,
    device: torch.device | str = "cpu",
    precision: str = "float32",
    threads: int = 1,
    shortlist: Path | str | None = None,
) -> Translator | Parser:
    """What is kept in a model directory, a checkpoint, or a run, whose latest checkpoint is taken.

    Args:
        path: Of it.
        *others: Of models that work with it, as an ensemble; the first one's settings hold for all.
        device: As for `load_translator`, like those that follow.
        precision: See there.
        threads: See there.
        shortlist: See there; for a translator only.

    Returns:
        A `Translator`, or a `Parser` where the model was trained on trees. Where it is known which, use
        `load_translator` or `load_parser`, whose types say it too.

    Raises:
        ModelError: There is none, it is damaged, or another model or the shortlist has other vocabularies.
        UsageError: The precision is not to be had here, or a parser was given a shortlist.
    """
    if _task_of(Path(path)) != "parsing":
        return load_translator(
            path, *others, device=device, precision=precision, threads=threads, shortlist=shortlist
        )
    if shortlist is not None:
        raise UsageError("shortlist: is for translators only; leave it out", settings=["shortlist"])
    return load_parser(path, *others, device=device, precision=precision, threads=threads)


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
    models, config, source, target = _load_members([path, *others], "translation", _text_units, device)
    sizes = config.model.source_vocab_size, config.model.target_vocab_size
    chosen = None if shortlist is None else Shortlist.load(Path(shortlist), resolve_model(Path(path)), sizes)
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
    models, config, source, target = _load_members([path, *others], "parsing", _tree_units, device)
    return Parser(models, config, source, target, precision=precision, threads=threads)


def _task_of(path: Path) -> str:
    try:
        return RunConfig.from_toml(resolve_model(path) / CONFIG).data.task
    except UserError as error:
        raise ModelError(error.messages) from None


def _text_units(checkpoint: Checkpoint) -> tuple[Tokenizer, Tokenizer]:
    directory, model = checkpoint.directory, checkpoint.config.model
    source = Tokenizer.load(directory / SOURCE_TOKENIZER, model.source_vocab_size)
    return source, Tokenizer.load(directory / TARGET_TOKENIZER, model.target_vocab_size)


def _tree_units(checkpoint: Checkpoint) -> tuple[SourceTokenizer, TreeVocabulary]:
    directory, model = checkpoint.directory, checkpoint.config.model
    source = load_source_tokenizer(directory, checkpoint.config.data, model.source_vocab_size)
    return source, TreeVocabulary.load(directory / TARGET_TOKENIZER, model.target_vocab_size)


def _load_members(
    paths: Sequence[Path | str],
    task: str,
    load_units: Callable[[Checkpoint], tuple[Sources, Targets]],
    device: torch.device | str,
) -> tuple[list[EncoderDecoder], RunConfig, Sources, Targets]:
    """Models that are to work as one, the settings of the first, and the units of sources and outputs."""
    checkpoints = [load_for(Path(path), task) for path in paths]
    models = [model_of(checkpoint).to(device) for checkpoint in checkpoints]
    units = [load_units(checkpoint) for checkpoint in checkpoints]
    for path, others in zip(paths, units, strict=True):
        if others != units[0]:
            fault = f"{path}: has other vocabularies than {paths[0]}"
            raise ModelError(f"{fault}; an ensemble is of models trained on the same prepared data")
    return models, checkpoints[0].config, *units[0]


def model_of(checkpoint: Checkpoint) -> EncoderDecoder:
    """The model of a checkpoint, on the CPU and in evaluation mode.

    Raises:
        ModelError: The weights are not those of the architecture.
    """
    return model_from_weights(checkpoint.config.model, checkpoint.weights, checkpoint.weights_path)


def load_for(path: Path, task: str) -> Checkpoint:
    """The checkpoint of a model for a task.

    Raises:
        ModelError: There is none, it is damaged or for another task.
    """
    checkpoint = load_checkpoint(resolve_model(path), (SOURCE_TOKENIZER, TARGET_TOKENIZER))
    its_task = checkpoint.config.data.task
    if its_task != task:
        raise ModelError(f"{path}: is a model for {its_task}; use it with `allyouneed {_COMMANDS[its_task]}`")
    return checkpoint
