"""Bergamot export: the files that Firefox Translations load, in float32 or with matrices rounded to int8.

Bergamot multiplies a rounded matrix by activations, which it rounds by a factor in the file; the factor's
name ends with `_QuantMultA`. The factors are measured here, on text.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Literal

import numpy as np
import torch

from allyouneed.config.model import ModelConfig
from allyouneed.config.run import SearchConfig
from allyouneed.data.lines import is_blank, read_lines
from allyouneed.data.tokenizer import Tokenizer
from allyouneed.errors import DataError, UsageError
from allyouneed.inference.engine_choice import build_engine
from allyouneed.inference.generate import generate
from allyouneed.inference.vocabulary_shortlist import Shortlist
from allyouneed.interop.export_limits import int8_misfits
from allyouneed.interop.foreign import Array
from allyouneed.interop.from_marian import FACTOR
from allyouneed.interop.marian_binary import LARGEST, write_binary
from allyouneed.interop.marian_shortlist import write_shortlist
from allyouneed.interop.parity import Ids
from allyouneed.interop.sentencepiece_files import sentencepiece_models
from allyouneed.interop.to_marian import EMBEDDINGS, as_yaml, marian_arrays, matrices_of, write_vocabularies
from allyouneed.language_codes import primary_language
from allyouneed.model.transformer import Transformer
from allyouneed.storage.checkpoint import Checkpoint
from allyouneed.symbols import CONTROL_SYMBOLS, END, PADDING, START
from allyouneed.tasks.task import SOURCE_TOKENIZER

Precision = Literal["float32", "int8"]

_MOST_SENTENCES, _MOST_TOKENS = 500, 128
"""Number of sentences that factors are measured on, and length of each at most."""
_DEVIATIONS = 1.1
"""Standard deviations above the mean maximum that are kept, as Marian's `extract_stats.py` has them."""
_SHORTLISTED = "none"
"""Name of the output matrix in Marian after a shortlist has selected its rows."""
_SEARCH = {
    **{"beam-size": 1, "normalize": 1.0, "word-penalty": 0, "max-length-break": 128},
    **{"mini-batch-words": 1024, "workspace": 128, "max-length-factor": 2.0, "skip-cost": True},
    **{"cpu-threads": 0, "quiet": True, "quiet-translation": True, "alignment": "soft"},
}
"""Settings of search, as Firefox has them."""


def write(
    model: Transformer,
    checkpoint: Checkpoint,
    directory: Path,
    *,
    languages: tuple[str, str] | None = None,
    precision: Precision = "int8",
    shortlist: Path | None = None,
    text: Path | None = None,
) -> None:
    """Write the model, its vocabularies, a shortlist if one is given, and `config.yml` into `directory`.

    Args:
        model: The model.
        checkpoint: The checkpoint that it was loaded from.
        directory: Folder to write into.
        languages: Codes of both languages, for the names of files; default: the model's own.
        precision: Precision of the matrices.
        shortlist: A folder made by `allyouneed shortlist`.
        text: A file of source text, or prepared data, to measure activations on; for int8.

    Raises:
        UsageError: The model has other sub-words than SentencePiece's, int8 lacks a text, or a text is given
            for float32.
        ModelError: The shortlist is of another model.
    """
    data = checkpoint.config.data
    codes = languages or (data.source_language, data.target_language)
    pair = "".join(map(primary_language, codes)) if all(codes) else "srctrg"
    sides = (f"srcvocab.{pair}.spm", f"trgvocab.{pair}.spm")
    pieces = dict(zip(sides, sentencepiece_models("bergamot", checkpoint), strict=True))
    arrays, rounded = marian_arrays(model), set[str]()
    name, settings = f"model.{pair}.bin", {"gemm-precision": "float32"}
    if precision == "int8":
        _require_sizes(model.config)
        tokenizer = Tokenizer.load(checkpoint.directory / SOURCE_TOKENIZER)
        arrays |= activation_factors(model, [*_sentences(text, tokenizer)])
        rounded = {each for names in matrices_of(model.config).values() for each in names} | EMBEDDINGS
        name, settings = f"model.{pair}.intgemm.alphas.bin", {"gemm-precision": "int8shiftAlphaAll"}
    elif text is not None:
        raise UsageError(
            "text: is for precision int8, whose activations are measured; leave it out",
            settings=["text", "precision"],
        )
    write_binary(directory / name, arrays, rounded)
    files: dict[str, object] = {
        "models": [name],
        "vocabs": write_vocabularies(pieces, f"vocab.{pair}.spm", directory),
    }
    if shortlist is not None:
        loaded = Shortlist.load(shortlist, checkpoint.directory, model.config.vocab_sizes)
        num_best = loaded.translations.shape[1]
        file = f"lex.{len(loaded.frequent)}.{num_best}.{pair}.s2t.bin"
        write_shortlist(directory / file, [*_allowed(loaded)], len(CONTROL_SYMBOLS), num_best)
        files["shortlist"] = [file, False]
    (directory / "config.yml").write_bytes(as_yaml({"relative-paths": True, **files, **settings, **_SEARCH}))


def _require_sizes(config: ModelConfig) -> None:
    for name, divisor in int8_misfits(config).items():
        size = getattr(config, name)
        smaller = f"prepare with vocab_size {size - size % divisor}"
        remedy = smaller if name == "target_vocab_size" else f"train with another model.{name}"
        raise UsageError(
            f"bergamot: int8 needs sizes that {divisor} divides, and model.{name} = {size}; export with "
            f"precision float32, or {remedy}",
            settings=["precision", "vocab_size"],
        )


def _sentences(text: Path | None, tokenizer: Tokenizer) -> Iterator[Ids]:
    """The sources that factors are measured on: lines of a file, or of the validation text of data."""
    if text is None:
        raise UsageError(
            "bergamot: int8 measures the activations of some sources; name a file of them, or the prepared "
            "data of the model: text FILE, or export with precision float32",
            settings=["text", "precision"],
        )
    if text.is_dir():
        from allyouneed.preparation.prepared_data import PreparedData

        data = PreparedData(text)
        lines = iter(data.lines("train" if data.valid is None else "valid", "source"))
    else:
        lines = read_lines(text)
    found = [*islice((line for line in lines if not is_blank(line)), _MOST_SENTENCES)]
    if not found:
        raise DataError(f"{text}: has no text to measure activations on; name another file")
    yield from (ids[:_MOST_TOKENS] for ids in map(tokenizer.encode, found))


def activation_factors(model: Transformer, sources: Sequence[Ids]) -> dict[str, Array]:
    """Factor of the activations that are multiplied with each matrix, so that few exceed 127 when rounded.

    The maxima of sentences and their greedy translations are taken; see `_DEVIATIONS`.
    """
    maxima = defaultdict[str, list[float]](list)
    names = matrices_of(model.config)
    handles = [
        model.get_submodule(ours).register_forward_pre_hook(
            lambda _, inputs, ours=ours: maxima[ours].append(float(inputs[0].abs().max()))
        )
        for ours in names
        if ours
    ]
    written = generate(build_engine(model), sources, SearchConfig(beam_size=1))
    pairs = [(source, found[0].ids) for source, found in zip(sources, written, strict=True)]
    try:
        with torch.inference_mode():
            maxima.clear()  # of the search, if PyTorch did it
            for source, target in pairs:
                hidden = model(torch.tensor([[*source, END]]), torch.tensor([[START, *target]]))
                maxima[""].append(float(hidden.abs().max()))
    finally:
        for handle in handles:
            handle.remove()
    factors: dict[str, Array] = {}
    for ours, theirs in names.items():
        largest = np.mean(maxima[ours]) + _DEVIATIONS * np.std(maxima[ours])
        factor = np.array([LARGEST / (largest or 1)], np.float32)
        factors |= {f"{name}{FACTOR}": factor for name in theirs}
    return {**factors, _SHORTLISTED + FACTOR: factor}


def _allowed(shortlist: Shortlist) -> Iterator[Array]:
    """The target ids that each source id allows; the end symbol, in every source, adds the frequent ones."""
    for token, row in enumerate(shortlist.translations):
        more = shortlist.frequent if token == END else row[:0]
        yield np.append(np.append(row[row != PADDING], more), END)
