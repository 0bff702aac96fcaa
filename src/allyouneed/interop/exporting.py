"""`allyouneed export`: a model as a folder for other software, published only if its results agree."""

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from allyouneed.config.run import RunConfig
from allyouneed.data.moses_bpe_tokenizer import MosesBpeTokenizer
from allyouneed.data.tokenizer import Tokenizer
from allyouneed.errors import ModelError, UsageError
from allyouneed.interop import argos, bergamot, ctranslate2, huggingface, to_marian, web
from allyouneed.interop.export_limits import FORMS, differences, has_plain_heads, possible_exports
from allyouneed.interop.parity import Agreement, Exported, require_agreement
from allyouneed.model.transformer import Transformer
from allyouneed.runs.loading import model_of, task_of
from allyouneed.storage.checkpoint import WEIGHTS, load_checkpoint
from allyouneed.storage.publish import publish_directory, require_free
from allyouneed.storage.run_directory import resolve_model
from allyouneed.tasks.task import SOURCE_TOKENIZER, TARGET_TOKENIZER
from allyouneed.tasks.translation.task import TRANSLATION

Tokenizers = tuple[Tokenizer, Tokenizer]


@dataclass(frozen=True)
class ExportFormat:
    """An export format and the software that reads it."""

    package: str
    """Python package that writing and checking need, which must be installed."""
    write: Callable[..., None]
    """Function that writes a model into a folder, given the model, its checkpoint, the folder and options."""
    prove: Callable[[Path, Transformer, Tokenizers], Agreement]
    """Function that compares what such a folder computes with the model."""
    options: frozenset[str] = frozenset()
    """Names of the options of `write`."""


def _by(load: Callable[[Path], Exported]) -> Callable[[Path, Transformer, Tokenizers], Agreement]:
    """The comparison with software that is installed, which loads a folder."""

    def prove(folder: Path, model: Transformer, tokenizers: Tokenizers) -> Agreement:
        return Agreement(require_agreement(load(folder), model, *tokenizers))

    return prove


FORMATS = {
    "ctranslate2": ExportFormat("ctranslate2", ctranslate2.write, _by(ctranslate2.CTranslate2Model)),
    "huggingface": ExportFormat("transformers", huggingface.write, _by(huggingface.HuggingFaceModel)),
    "marian": ExportFormat("yaml", to_marian.write, to_marian.prove),
    "bergamot": ExportFormat(
        "yaml", bergamot.write, to_marian.prove, frozenset({"languages", "precision", "shortlist", "text"})
    ),
    "web": ExportFormat(
        "yaml", web.write, web.prove, frozenset({"engine", "languages", "precision", "shortlist", "text"})
    ),
    "argos": ExportFormat("ctranslate2", argos.write, _by(argos.ArgosModel), frozenset({"languages"})),
}


def export_model(
    model: Path,
    to: str,
    out: Path,
    options: Mapping[str, Any] | None = None,
    say: Callable[[str], None] = lambda line: None,
) -> Agreement:
    """Publish a model as the folder `out` in the format `to`, one of `FORMATS`.

    Args:
        model: A run, a checkpoint in it, or a model folder.
        to: Name of the format.
        out: Folder to create; it must not exist, or be empty.
        options: Options of the format, by name; those that are None are left out.
        say: Function that reports the removal of a killed process's unfinished files at `out`.

    Raises:
        UsageError: `out` is not free, what the format needs is not installed, an option has no effect, or the
            model is no translator, or has sub-words that the format lacks.
        ModelError: The model is damaged, the format cannot hold it, or the export gives other results than
            the model and is removed.
        LockedError: Another process is creating `out`.
    """
    chosen = FORMATS[to]
    given = {name: value for name, value in (options or {}).items() if value is not None}
    for name in sorted({*given} - chosen.options):
        raise UsageError(f"{name}: has no effect with to {to}; leave it out", settings=[name, "to"])
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
    _require_known_architecture(to, checkpoint.config)
    original = model_of(checkpoint)
    assert isinstance(original, Transformer)
    source, target = (
        Tokenizer.load(checkpoint.directory / name, size)
        for name, size in zip((SOURCE_TOKENIZER, TARGET_TOKENIZER), original.config.vocab_sizes, strict=True)
    )
    if isinstance(source, MosesBpeTokenizer) or isinstance(target, MosesBpeTokenizer):
        raise UsageError(
            f"{model}: has byte-pair encoding of words as Moses has them, which is not exported; take the "
            "model that it was imported from"
        )
    facts = {
        "exported_from": checkpoint.directory.name,
        "weights_sha256": checkpoint.manifest["files"][WEIGHTS]["sha256"],
    }
    with publish_directory(out, to, facts, say=say) as aside:
        chosen.write(original, checkpoint, aside, **given)
        return chosen.prove(aside, original, (source, target))


def _require_known_architecture(to: str, config: RunConfig) -> None:
    model = config.model
    if variants := differences(to, model):
        named = ", ".join(f"model.{name} = {value}" for name, value in variants.items())
        others = ", ".join(possible_exports(config))
        remedy = f"it can go to {others}" if others else "use it with allyouneed"
        if {*variants} <= {*FORMS["marian"]} and to in ("marian", "bergamot", "web"):
            remedy = f"train one with `allyouneed train --for marian`, or {remedy}"
        raise ModelError(f"{to}: does not have this variant of the paper's architecture ({named}); {remedy}")
    if not has_plain_heads(model):
        d_k, d_v = model.head_widths
        raise ModelError(
            f"{to}: has only heads with d_k = d_v = d_model / num_heads = "
            f"{model.d_model / model.num_heads:g}, the model has d_k = {d_k} and d_v = {d_v}; "
            "use it with allyouneed"
        )
