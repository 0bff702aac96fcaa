"""Loads models from disk, ready to use."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from allyouneed.config.run import DecodingPrecision, RunConfig
from allyouneed.config.settings import require_counts
from allyouneed.errors import ModelError, UsageError, UserError
from allyouneed.inference.stored_model import StoredModel
from allyouneed.storage.checkpoint import CONFIG, Checkpoint, load_checkpoint
from allyouneed.storage.publish import require_regular
from allyouneed.storage.run_directory import resolve_model
from allyouneed.tasks.catalogue import task_named
from allyouneed.tasks.task import SOURCE_TOKENIZER, TARGET_TOKENIZER, Task

if TYPE_CHECKING:
    import torch

    from allyouneed.model.encoder_decoder import EncoderDecoder
    from allyouneed.tasks.frames.transcriber import Transcriber
    from allyouneed.tasks.parsing.parser import Parser
    from allyouneed.tasks.translation.translator import Translator


def load(
    path: Path | str,
    *others: Path | str,
    device: "torch.device | str" = "cpu",
    precision: DecodingPrecision = "float32",
    threads: int = 1,
    shortlist: Path | str | None = None,
) -> "Translator | Parser":
    """Load a model from a model directory, a checkpoint, or the latest checkpoint of a run.

    The arguments are those of `load_translator`; only a translator takes a shortlist.

    Returns:
        A `Translator`, or a `Parser` if the model was trained on trees. `load_translator` and `load_parser`
        have the exact types. A model of frames is a `Transcriber`, which the type leaves out, as programs
        rely on it; `load_transcriber` has its type.

    Raises:
        ModelError: A model is missing or damaged, or another model or the shortlist has other vocabularies.
        UsageError: The precision is not available on this machine, or a parser was given a shortlist.
    """
    options: dict[str, Any] = {"precision": precision, "threads": threads}
    if shortlist is not None:
        options["shortlist"] = shortlist
    loaded: Translator | Parser = _load(task_of(Path(path)), [path, *others], device, options)
    return loaded


def load_translator(
    path: Path | str,
    *others: Path | str,
    device: "torch.device | str" = "cpu",
    precision: DecodingPrecision = "float32",
    threads: int = 1,
    shortlist: Path | str | None = None,
    to: str | None = None,
    source: str = "",
    draft: Path | str | None = None,
) -> "Translator":
    """Load a translator from a model directory, a checkpoint, or the latest checkpoint of a run.

    Args:
        path: A model directory, a checkpoint, or a run.
        *others: More models, which form an ensemble with the first; its settings hold for all.
        device: Device to compute on.
        precision: Precision of the matrix products: float32, bfloat16 or int8.
        threads: Number of threads per matrix product (CPU only).
        shortlist: A directory made by `allyouneed shortlist`; limits translations to its tokens, for speed.
        to: Code of the language to write, for a model of several; see `Translator.into`.
        source: Code of the language of the texts, for a model that must be told it; with `to` only.
        draft: A student of the model, which proposes tokens where `blockwise` is asked for.

    Raises:
        ModelError: A model is missing, damaged or for another task, or another model, the student or the
            shortlist has other vocabularies, or the student fewer positions.
        UsageError: The precision or the device is not available on this machine, or the model does not write
            the language, or only `source` is given.
    """
    if source and not to:
        raise UsageError("a source language is given, but not the one to write; name both", settings=["to"])
    options = {"precision": precision, "threads": threads, "shortlist": shortlist}
    translator: Translator = _load(task_named("translation"), [path, *others], device, options)
    if draft is not None:
        student = load_translator(draft, device=device, precision=precision, threads=threads)
        if translator.tokenizers != student.tokenizers:
            raise ModelError(f"{draft}: has other vocabularies than {path}; name a student of that model")
        own, of_student = translator.engine.max_positions, student.engine.max_positions
        if of_student is not None and (own is None or own > of_student):
            message = f"has {of_student:,} positions, fewer than {path}; name a student that has as many"
            raise ModelError(f"{draft}: {message}")
        translator.engine.student = student.engine
    return translator.into(to, source) if to else translator


def load_parser(
    path: Path | str,
    *others: Path | str,
    device: "torch.device | str" = "cpu",
    precision: DecodingPrecision = "float32",
    threads: int = 1,
) -> "Parser":
    """Load a parser; the arguments are those of `load_translator`.

    Raises:
        ModelError: A model is missing, damaged or for another task, or another one has other vocabularies.
        UsageError: The precision or the device is not available on this machine.
    """
    options = {"precision": precision, "threads": threads}
    parser: Parser = _load(task_named("parsing"), [path, *others], device, options)
    return parser


def load_transcriber(
    path: Path | str,
    *others: Path | str,
    device: "torch.device | str" = "cpu",
    precision: DecodingPrecision = "float32",
    threads: int = 1,
) -> "Transcriber":
    """Load a transcriber of frames; the arguments and exceptions are those of `load_parser`."""
    options = {"precision": precision, "threads": threads}
    transcriber: Transcriber = _load(task_named("frames"), [path, *others], device, options)
    return transcriber


def load_scorer(
    path: Path | str, *others: Path | str, to: str | None = None, source: str = "", **options: Any
) -> "Translator | Transcriber":
    """Load a model that scores pairs; the arguments and exceptions are those of `load_translator`."""
    if to or source or task_of(Path(path)).sides_are_alike or task_of(Path(path)).evaluate is None:
        return load_translator(path, *others, to=to, source=source, **options)
    return cast("Transcriber", load(path, *others, **options))


def task_of(path: Path) -> Task:
    """The task of a model directory, a checkpoint, or a run; raises ModelError if it is unknown."""
    name = config_of(path).data.task
    try:
        return task_named(name)
    except UserError as error:
        raise ModelError(error.messages) from None


def config_of(path: Path) -> RunConfig:
    """The settings of a model directory, a checkpoint, or a run; raises ModelError if invalid."""
    config = resolve_model(path) / CONFIG
    try:
        require_regular(config)
        return RunConfig.from_toml(config)
    except UserError as error:
        raise ModelError(error.messages) from None


def _load(
    task: Task, paths: Sequence[Path | str], device: "torch.device | str", options: Mapping[str, Any]
) -> Any:
    """The models at these paths as one, with the settings of the first."""
    require_counts(threads=options["threads"])
    checkpoints = [load_for(Path(path), task) for path in paths]
    models = [_on_device(checkpoint, device) for checkpoint in checkpoints]
    units = [
        task.load_units(each.directory, each.config.data, *each.config.model.vocab_sizes)
        for each in checkpoints
    ]
    for path, others in zip(paths, units, strict=True):
        if others != units[0]:
            fault = f"{path}: has other vocabularies than {paths[0]}"
            raise ModelError(f"{fault}; an ensemble is of models trained on the same prepared data")
    first = checkpoints[0]
    return task.build(models, first.config, units[0], directory=first.directory, **options)


def _on_device(checkpoint: Checkpoint, device: "torch.device | str") -> "StoredModel | EncoderDecoder":
    """The model of a checkpoint; that for the CPU needs no PyTorch yet."""
    if str(device) == "cpu":
        return _stored(checkpoint)
    from allyouneed.hardware.devices import usable_device

    usable = usable_device(device)  # before the weights are read
    return model_of(checkpoint).to(usable)


def _stored(checkpoint: Checkpoint) -> StoredModel:
    weights = checkpoint.arrays
    return StoredModel(checkpoint.config.model, weights, checkpoint.weights_path, weights.release)


def model_of(checkpoint: Checkpoint) -> "EncoderDecoder":
    """The model of a checkpoint as PyTorch's module, on the CPU and in evaluation mode.

    Raises:
        ModelError: The weights do not fit the architecture.
    """
    return _stored(checkpoint).module


def load_for(path: Path, task: Task) -> Checkpoint:
    """The checkpoint of a model; raises ModelError if it is missing, damaged or for another task."""
    checkpoint = load_checkpoint(resolve_model(path), (SOURCE_TOKENIZER, TARGET_TOKENIZER))
    if (its_task := task_of(path)) is not task:
        raise ModelError(
            f"{path}: is a model for {its_task.name}; use it with `allyouneed {its_task.command}`"
        )
    return checkpoint
