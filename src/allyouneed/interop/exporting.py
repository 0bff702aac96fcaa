"""`allyouneed export`: a model as a folder for other software, published only if its results agree."""

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from allyouneed.config.model import ModelConfig
from allyouneed.data.moses_bpe_tokenizer import MosesBpeTokenizer
from allyouneed.data.tokenizer import Tokenizer
from allyouneed.errors import ModelError, UsageError
from allyouneed.interop import ctranslate2, huggingface
from allyouneed.interop.parity import Exported, require_agreement
from allyouneed.model.transformer import Transformer
from allyouneed.runs.loading import model_of, task_of
from allyouneed.storage.checkpoint import WEIGHTS, Checkpoint, load_checkpoint
from allyouneed.storage.publish import publish_directory, require_free
from allyouneed.storage.run_directory import resolve_model
from allyouneed.tasks.task import SOURCE_TOKENIZER, TARGET_TOKENIZER
from allyouneed.tasks.translation.task import TRANSLATION

_EXTRAS = frozenset({"activation", "decoder_start", "num_decoder_layers", "output_bias", "scaled_embeddings"})
"""Settings beyond the paper's that both formats hold, as models of Marian need them."""

_HELD = {
    "activation": {"relu", "gelu", "swish"},
    "positions": {"sinusoidal", "concatenated", "learned"},
    "decoder_start": {"symbol", "zeros"},
}
"""Setting -> the values that both formats hold."""


@dataclass(frozen=True)
class ExportFormat:
    """An export format and the software that reads it."""

    package: str
    """Python package of the software, which must be installed."""
    write: Callable[[Transformer, Checkpoint, Path], None]
    """Function that writes a model into a folder."""
    load: Callable[[Path], Exported]
    """Function that loads such a folder with the software."""
    variants: frozenset[str]
    """Names of the settings of `_OF_PAPER` that may have other values."""


FORMATS = {
    "ctranslate2": ExportFormat(
        "ctranslate2", ctranslate2.write, ctranslate2.CTranslate2Model, _EXTRAS | {"norm", "source_end"}
    ),
    "huggingface": ExportFormat("transformers", huggingface.write, huggingface.HuggingFaceModel, _EXTRAS),
}


_OF_PAPER = (
    *("architecture", "attention", "neighbourhood", "feed_forward", "activation", "norm", "autoregression"),
    *(
        "num_decoder_layers",
        "scaled_embeddings",
        "output_bias",
        "decoder_start",
        "source_end",
        "target_space",
    ),
)
"""Settings with the paper's values in a format, unless it has variants; dropout acts in training only."""


def export_model(model: Path, to: str, out: Path, say: Callable[[str], None] = lambda line: None) -> float:
    """Publish a model as the folder `out` in the format `to`, one of `FORMATS`.

    Args:
        model: A run, a checkpoint in it, or a model folder.
        to: Name of the format.
        out: Folder to create; it must not exist, or be empty.
        say: Function that reports the removal of a killed process's unfinished files at `out`.

    Returns:
        Largest difference between log-probabilities of a token, at most `parity.TOLERANCE`.

    Raises:
        UsageError: `out` is not free, the other software is not installed, or the model is not a translator.
        ModelError: The model is damaged, the format cannot hold it, or the export gives other results than
            the model and is removed.
        LockedError: Another process is creating `out`.
    """
    chosen = FORMATS[to]
    require_free(out)
    try:
        importlib.import_module(chosen.package)
    except ImportError:
        raise UsageError(
            f"to {to}: needs {chosen.package}; install it with: pip install 'allyouneed[{to}]'",
            settings=["to"],
        ) from None
    checkpoint = load_checkpoint(resolve_model(model), (SOURCE_TOKENIZER, TARGET_TOKENIZER))
    if (task := task_of(model)) is not TRANSLATION:
        raise UsageError(f"{model}: is a model for {task.name}; only translators are exported")
    _require_known_architecture(to, checkpoint.config.model)
    original = model_of(checkpoint)
    assert isinstance(original, Transformer)
    tokenizers = [
        Tokenizer.load(checkpoint.directory / name, size)
        for name, size in zip((SOURCE_TOKENIZER, TARGET_TOKENIZER), original.config.vocab_sizes, strict=True)
    ]
    if any(isinstance(each, MosesBpeTokenizer) for each in tokenizers):
        raise UsageError(
            f"{model}: has byte-pair encoding of words as Moses has them, which is not exported; take the "
            "model that it was imported from"
        )
    facts = {
        "exported_from": checkpoint.directory.name,
        "weights_sha256": checkpoint.manifest["files"][WEIGHTS]["sha256"],
    }
    with publish_directory(out, to, facts, say=say) as aside:
        chosen.write(original, checkpoint, aside)
        return require_agreement(chosen.load(aside), original, *tokenizers)


def _require_known_architecture(to: str, config: ModelConfig) -> None:
    paper = ModelConfig()
    variants = {
        name: getattr(config, name)
        for name in _OF_PAPER
        if getattr(config, name) != getattr(paper, name) and name not in FORMATS[to].variants
    }
    variants |= {name: value for name, held in _HELD.items() if (value := getattr(config, name)) not in held}
    if variants:
        named = ", ".join(f"model.{name} = {value}" for name, value in variants.items())
        raise ModelError(
            f"{to}: does not have this variant of the paper's architecture ({named}); use it with allyouneed"
        )
    if set(config.head_widths) != {config.d_model / config.num_heads}:
        d_k, d_v = config.head_widths
        raise ModelError(
            f"{to}: has only heads with d_k = d_v = d_model / num_heads = "
            f"{config.d_model / config.num_heads:g}, the model has d_k = {d_k} and d_v = {d_v}; "
            "use it with allyouneed"
        )
