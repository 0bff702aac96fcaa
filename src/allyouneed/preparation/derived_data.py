"""Derives from prepared data: their reverse, data with other pairs, a shortlist."""

from collections.abc import Callable, Collection, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np

from allyouneed.config.run import DataConfig
from allyouneed.data.corpus_files import CorpusFiles
from allyouneed.data.store import Sentences
from allyouneed.errors import UsageError
from allyouneed.inference.vocabulary_shortlist import DEFAULT_FREQUENT, DEFAULT_TRANSLATIONS, Shortlist
from allyouneed.preparation.encoding import EncodedChunk, Encoder
from allyouneed.preparation.prepared_data import KIND, PreparedData
from allyouneed.preparation.preparing import encode_part, finished
from allyouneed.storage.publish import publish_directory
from allyouneed.symbols import SENTINEL
from allyouneed.tasks.task import SOURCE_TOKENIZER, TARGET_TOKENIZER, Units, tell

TAG: Final = SENTINEL
"""Symbol before a source that a model has written (tagged back-translation; Caswell et al., 2019). Every
vocabulary has it, no text encodes to it, and without `model.symbol_dropout` nothing else uses it."""

_Say = Callable[[str], None]


def reverse(prepared: PreparedData, directory: Path) -> None:
    """Prepare the pairs of other data with source and target exchanged."""
    config, (source, target) = prepared.config, prepared.units
    parts = ["train"] if prepared.valid is None else ["train", "valid"]
    files = {
        part: CorpusFiles(prepared.text(part, "target"), prepared.text(part, "source")) for part in parts
    }
    languages = {"source_language": config.target_language, "target_language": config.source_language}
    _prepare(directory, Units(target, source), config.replace(**languages), files)


def add_synthetic(
    prepared: PreparedData, directory: Path, pairs: Collection[Path], tagged: Collection[Path], say: _Say
) -> None:
    """Prepare files of pairs that a model has translated; the sources of `tagged` files begin with `TAG`.

    Raises:
        DataError: No pair is left.
    """
    files = {"train": CorpusFiles(pairs=[*pairs])}
    _prepare(directory, prepared.units, prepared.config, files, say, {str(file) for file in tagged})


def with_other_pairs(prepared: PreparedData, directory: Path, train: CorpusFiles, say: _Say) -> None:
    """Prepare other pairs to train on, beside the validation text of `prepared`.

    Raises:
        DataError: No pair is left.
    """
    files = {"train": train}
    if prepared.valid is not None:
        files["valid"] = CorpusFiles(prepared.text("valid", "source"), prepared.text("valid", "target"))
    _prepare(directory, prepared.units, prepared.config, files, say)


def learn_shortlist(
    prepared: PreparedData,
    out: Path,
    *,
    translations: int = DEFAULT_TRANSLATIONS,
    frequent: int = DEFAULT_FREQUENT,
    say: _Say = lambda line: None,
) -> None:
    """Learn from prepared data the likely translations of each sub-word; see `Shortlist.learn`."""
    if prepared.units.source_features:
        raise UsageError(f"{prepared.directory}: has frames, and a shortlist is for text")
    sizes, facts = (prepared.source_vocab_size, prepared.target_vocab_size), prepared.facts
    tokenizers = {SOURCE_TOKENIZER: facts["source_tokenizer"], TARGET_TOKENIZER: facts["target_tokenizer"]}
    learn = partial(
        Shortlist.learn, prepared.train, sizes, tokenizers, translations=translations, frequent=frequent
    )
    Shortlist.publish(out, learn, say)


def _prepare(
    directory: Path,
    units: Units,
    config: DataConfig,
    parts: Mapping[str, CorpusFiles],
    say: _Say = lambda line: None,
    tagged: Collection[str] = (),
) -> None:
    facts: dict[str, Any] = {}
    with publish_directory(directory, KIND, facts, say=say) as aside:
        units.save(aside)
        (aside / "text").mkdir()
        encoder, marked = Encoder(units, aside, config, say=say), partial(_with_tags, tagged)
        reports = {
            part: encode_part(aside, part, files, encoder, config, marked=marked)
            for part, files in parts.items()
        }
        tell(reports, "pairs", say)
        facts |= finished(aside, config, units, reports)


def _with_tags(tagged: Collection[str], encoded: EncodedChunk) -> EncodedChunk:
    """The chunk with the tag before each source of these files."""
    lengths = np.array([pair.file in tagged for pair in encoded.chunk.pairs], np.int32)
    tags = Sentences(np.full(lengths.sum(), TAG), lengths)
    sources = encoded.source.sentences.after(tags)
    return encoded._replace(source=encoded.source._replace(sentences=sources))
