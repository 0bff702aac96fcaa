"""`allyouneed import`: other software's models become ours, and are proved before they are published."""

import importlib.util
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from allyouneed.config.run import RunConfig, SearchConfig
from allyouneed.data.moses_bpe_tokenizer import MosesBpeTokenizer
from allyouneed.errors import ModelError, UsageError, UserError, is_out_of_memory
from allyouneed.inference.engine import Engine
from allyouneed.inference.engine_choice import build_engine
from allyouneed.inference.generate import generate
from allyouneed.inference.scoring import score_targets
from allyouneed.inference.stored_model import StoredModel
from allyouneed.inference.vocabulary_shortlist import Shortlist
from allyouneed.interop import from_argos, from_ctranslate2, from_huggingface, from_marian
from allyouneed.interop.foreign import Imported
from allyouneed.interop.foreign_files import located
from allyouneed.interop.parity import SENTENCES, Ids, largest_difference, most_tokens, random_pairs
from allyouneed.language_codes import primary_language
from allyouneed.storage.checkpoint import CONFIG, WEIGHTS, write_checkpoint
from allyouneed.storage.publish import publish_directory, read_manifest, require_free, sha256_of
from allyouneed.storage.tensor_files import map_tensors
from allyouneed.symbols import UNKNOWN
from allyouneed.tasks.task import SOURCE_TOKENIZER, TARGET_TOKENIZER, Units

_MOST_WRITTEN = 20
"""Length of the greedy outputs that are compared."""
_LONGEST_REASON = 300
"""Characters of an error of the other software that a message quotes."""
_TEXTS = [text.replace("</s> <unk> ", "") for text in SENTENCES]
"""Sentences without control symbols, which some tokenisers make of texts like `</s>`."""


class ImportFormat(Protocol):
    """A module that imports a format."""

    def recognises(self, path: Path) -> bool:
        """Whether a path looks like a model in this format."""

    def read(self, path: Path) -> Imported:
        """Read such a model."""


FORMATS: Mapping[str, ImportFormat] = {
    "huggingface": from_huggingface,
    "ctranslate2": from_ctranslate2,
    "argos": from_argos,
    "marian": from_marian,
}
"""Name -> format, in the order in which a path is looked at."""


@dataclass(frozen=True)
class Proof:
    """An imported model, and how well it agrees with its own software."""

    format: str
    difference: float | None
    """Largest difference between log-probabilities of a token; None if the software is not installed."""
    lacking: str | None
    """Python package of the software that is not installed, if any is not."""
    notices: Sequence[str]
    """Remarks for the user."""
    has_shortlist: bool
    """Whether the model brings a shortlist."""


def import_model(
    path: Path,
    out: Path,
    languages: tuple[str, str] | None = None,
    say: Callable[[str], None] = lambda line: None,
    shortlist: Path | None = None,
) -> Proof:
    """Publish a model of other software as the model folder `out`.

    Args:
        path: The other software's folder or file.
        out: Folder to create; it must not exist, or be empty.
        languages: Codes of the source and target language; default: those that the model's files
            name.
        say: Function that reports the removal of a killed process's unfinished files at `out`.
        shortlist: Folder to create for the model's shortlist; default: the shortlist is left out.

    Raises:
        UsageError: `out` or `shortlist` is not free, one of them is in the other, `path` is of no known
            format, or the model has no shortlist.
        ModelError: The model is damaged, its architecture is not supported, or it computes something else
            than in its own software.
        LockedError: Another process is creating `out`.
    """
    require_free(out)
    if shortlist is not None:
        require_free(shortlist)
        _require_apart(out, shortlist)
    model = located(path)
    name = _format_of(model)
    imported = FORMATS[name].read(model)
    config = imported.config
    if languages is not None:
        source, target = languages
        config = config.replace(data={"source_language": source, "target_language": target})
    units, notices = _units(imported, config)
    if shortlist is not None and imported.shortlist is None:
        raise UsageError(f"{model}: has no shortlist (lex*.bin), so {shortlist} cannot be made")
    learned = imported.shortlist() if shortlist and imported.shortlist else None
    facts = {
        "imported_from": path.name,
        "imported_format": name,
        "imported_sha256": {imported.file.name: sha256_of(imported.file)},
    }
    with publish_directory(out, "model", facts, say=say) as aside:
        write_checkpoint(aside, config, imported.weights, {})
        imported.weights.clear()  # the memory is needed for the proof
        units.save(aside)
        stored = StoredModel(config.model, map_tensors(aside / WEIGHTS), out / WEIGHTS)
        lacking = lacking_package(imported)
        engine = build_engine(stored)  # checks the weights
        difference = proved(imported, engine) if lacking is None else None
    if shortlist and learned:
        hashes = {file: sha256_of(out / file) for file in (SOURCE_TOKENIZER, TARGET_TOKENIZER)}
        of_model = replace(learned, tokenizers=hashes)
        Shortlist.publish(shortlist, lambda: of_model, say)
    return Proof(name, difference, lacking, notices, imported.shortlist is not None)


def _require_apart(out: Path, shortlist: Path) -> None:
    """Refuse folders of which one would be in the other, which then could not be published."""
    places = Path(os.path.realpath(out)), Path(os.path.realpath(shortlist))
    if places[0].is_relative_to(places[1]) or places[1].is_relative_to(places[0]):
        raise UsageError(
            f"shortlist {shortlist}: is the folder of the model {out}, or one is in the other; name a folder "
            "beside it",
            settings=["shortlist"],
        )


def _units(imported: Imported, config: RunConfig) -> tuple[Units, Sequence[str]]:
    """The tokenisers, with the rules for their languages where they have some, and remarks for the user."""
    codes, notices = (config.data.source_language, config.data.target_language), [*imported.notices]
    source, target = (
        each.for_language(primary_language(code)) if isinstance(each, MosesBpeTokenizer) and code else each
        for each, code in zip((imported.source, imported.target), codes, strict=True)
    )
    if isinstance(source, MosesBpeTokenizer) and not all(codes):
        notices.append("its languages are not known, whose rules divide text into words; name them")
    return Units(source, target), notices


def _format_of(path: Path) -> str:
    for name, form in FORMATS.items():
        if form.recognises(path):
            return name
    if (path / CONFIG).exists() and (path / WEIGHTS).exists():
        read_manifest(path, "model")
        raise UsageError(f"{path}: is a model of allyouneed already; all commands take it as it is")
    raise UsageError(
        f"{path}: is of no format that can be imported ({', '.join(FORMATS)}); docs/interop.md describes them"
    )


def lacking_package(imported: Imported) -> str | None:
    """The first package of a model's own software that is not installed."""
    return next((each for each in imported.packages if importlib.util.find_spec(each) is None), None)


def proved(imported: Imported, engine: Engine) -> float:
    """The largest difference between log-probabilities here and in the other software.

    Raises ModelError if it is too large, or if sub-words or greedy outputs differ.
    """
    sources, targets = random_pairs(imported.config.model, UNKNOWN + 1)
    if not (most := most_tokens(imported.config.model)):
        raise ModelError("the model has a single position, too few for a sentence; take another copy")
    num_written = min(_MOST_WRITTEN, most)
    sentences: list[Ids] = [ids[:most] for ids in map(imported.source.encode, SENTENCES) if ids]
    search = SearchConfig(beam_size=1, max_length=num_written + 1, max_extra_tokens=1_000)
    written = [found[0].ids[:most] for found in generate(engine, sentences, search)]
    with _running(imported.packages[0]):
        original = imported.load()
        split = [original.encode(text) for text in _TEXTS]
        theirs = original.scored([*sources, *sentences], [*targets, *written])
        greedy = original.greedy(sentences, num_written)
    pairs = [each.source for each in theirs], [each.target for each in theirs]
    ours = [  # without the end symbol, where they were cut off before it
        score.token_log_probs[: max(len(each.log_probs), len(each.target))]
        for score, each in zip(score_targets(engine, *pairs), theirs, strict=True)
    ]
    difference = largest_difference(ours, [[*each.log_probs] for each in theirs])
    if any(ids not in (None, imported.source.encode(text)) for text, ids in zip(_TEXTS, split, strict=True)):
        raise ModelError(
            "the imported model splits text into other sub-words than its own software; it is not kept, "
            "please report it"
        )
    if [[*ids[:num_written]] for ids in greedy] != [[*ids[:num_written]] for ids in written]:
        raise ModelError(
            "the imported model writes something else than in its own software; it is not kept, "
            "please report it"
        )
    return difference


@contextmanager
def _running(package: str) -> Iterator[None]:
    """Turn what the other software raises into a ModelError of one line, but for a full disk or memory."""
    try:
        yield
    except Exception as error:
        if isinstance(error, UserError) or is_out_of_memory(error) or getattr(error, "errno", None):
            raise
        reason = " ".join(f"{type(error).__name__}: {error}".split())[:_LONGEST_REASON]
        raise ModelError(
            f"{package} cannot run the model ({reason}); it is not kept: take another copy, or another "
            f"version of {package}"
        ) from error
