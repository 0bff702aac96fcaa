"""Models from where they are kept, ready to use."""

from pathlib import Path

import torch

from allyouneed.config import RunConfig
from allyouneed.data.tokenizer import Tokenizer
from allyouneed.errors import ModelError
from allyouneed.inference.shortlist import Shortlist
from allyouneed.model import Transformer
from allyouneed.preparation import SOURCE_TOKENIZER, TARGET_TOKENIZER
from allyouneed.training.checkpoint import load_checkpoint
from allyouneed.training.run_directory import resolve_model
from allyouneed.translation import Translator


def load(
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
        ModelError: There is none, it is damaged, or another model or the shortlist has other vocabularies.
        UsageError: The precision is not to be had here.
    """
    first, *more = (_load_member(Path(member), device) for member in (path, *others))
    for (_, _, tokenizers), member in zip(more, others, strict=True):
        if tokenizers != first[2]:
            fault = f"{member}: has other vocabularies than {path}"
            raise ModelError(f"{fault}; an ensemble is of models trained on the same prepared data")
    models = [first[0], *(model for model, _, _ in more)]
    chosen = None if shortlist is None else Shortlist.load(Path(shortlist), resolve_model(Path(path)))
    return Translator(models, first[1], *first[2], precision=precision, threads=threads, shortlist=chosen)


def _load_member(
    path: Path, device: torch.device | str
) -> tuple[Transformer, RunConfig, tuple[Tokenizer, Tokenizer]]:
    checkpoint = load_checkpoint(resolve_model(path))
    source, target = (
        Tokenizer.load(checkpoint.directory / name) for name in (SOURCE_TOKENIZER, TARGET_TOKENIZER)
    )
    return checkpoint.build_model().to(device), checkpoint.config, (source, target)
