"""The decoders that `bench translate` compares: ours, and other software running exported models.

All map token ids to token ids, search with the same beam size, and stop when that many hypotheses have ended.
"""

import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, Protocol

import tokenizers
import torch

from allyouneed.config.run import SearchConfig
from allyouneed.inference.engine import Engine
from allyouneed.inference.engine_choice import build_engine
from allyouneed.inference.generate import generate
from allyouneed.inference.search_plan import Batching
from allyouneed.inference.torch_engine import pad
from allyouneed.interop.foreign import length_exponent
from allyouneed.lab.bench.contenders import OURS, Precision
from allyouneed.native.library import available
from allyouneed.runs.loading import model_of
from allyouneed.storage.checkpoint import load_checkpoint
from allyouneed.symbols import CONTROL_SYMBOLS, END, NEVER_PRODUCED, PADDING
from allyouneed.tasks.task import SOURCE_TOKENIZER, TARGET_TOKENIZER

Ids = Sequence[int]


@dataclass(frozen=True)
class Layout:
    """The division of the work into processes, threads and batches."""

    processes: int
    """Number of processes, each with its own model and batches."""
    workers: int
    """Number of threads per process that share its model; each decodes its own batches."""
    threads: int
    """Number of threads per matrix product."""
    batch: int
    """Size of a batch, in `unit`."""
    unit: Literal["sentences", "source tokens"] = "sentences"


ONE_BY_ONE = Layout(processes=1, workers=1, threads=1, batch=1)
"""One sentence, one thread."""


class DecodingContender(Protocol):
    """A model loaded in one process, ready to translate."""

    def arrange(self, layout: Layout) -> None:
        """Prepare to decode in this layout, ignoring its number of processes."""

    def translate(self, sources: Sequence[Ids]) -> list[list[int]]:
        """The best translation of each source; sources and translations have no control symbols."""


class OurDecoder:
    """The decoding step of `allyouneed translate`, without sub-word tokenization."""

    def __init__(self, folder: Path, precision: Precision, search: SearchConfig) -> None:
        self._model = model_of(load_checkpoint(folder))
        self._precision, self._search = precision, search
        self._engine: Engine | None = None
        self.arrange(ONE_BY_ONE)

    def arrange(self, layout: Layout) -> None:
        """Pack the weights for the layout's number of threads."""
        self._layout, self._engine = layout, None  # the one before gives its memory back first
        torch.set_num_threads(layout.threads)  # used without the kernels
        self._engine = build_engine(self._model, self._precision, layout.threads)

    def translate(self, sources: Sequence[Ids]) -> list[list[int]]:
        """The best translation of each source."""
        assert self._engine is not None
        batching = Batching(tokens=sys.maxsize, size=self._layout.batch, workers=self._layout.workers)
        found = generate(self._engine, sources, self._search, batching=batching)
        return [hypotheses[0].ids for hypotheses in found]


class CTranslate2Decoder:
    """`ctranslate2.Translator`, which sorts sentences by length and batches them itself."""

    def __init__(self, folder: Path, precision: Precision, search: SearchConfig) -> None:
        self._folder, self._precision, self._search = folder, precision, search
        source, target = (
            tokenizers.Tokenizer.from_file(str(folder / name))
            for name in (SOURCE_TOKENIZER, TARGET_TOKENIZER)
        )
        self._pieces = [source.id_to_token(token) for token in range(source.get_vocab_size())]
        self._ids = target.get_vocab()
        self._translator: Any = None
        self.arrange(ONE_BY_ONE)

    def arrange(self, layout: Layout) -> None:
        """Load the model for the layout's numbers of workers and threads."""
        from ctranslate2 import Translator

        self._layout, self._translator = layout, None  # the one before gives its memory back first
        self._translator = Translator(
            str(self._folder),
            compute_type=self._precision,
            inter_threads=layout.workers,
            intra_threads=layout.threads,
        )

    def translate(self, sources: Sequence[Ids]) -> list[list[int]]:
        """The best translation of each source."""
        results = self._translator.translate_batch(
            [[self._pieces[token] for token in ids] for ids in sources],
            beam_size=self._search.beam_size,
            length_penalty=length_exponent(self._search),
            min_decoding_length=self._search.min_length,
            max_decoding_length=longest_output(sources, self._search),
            max_input_length=0,
            suppress_sequences=[[CONTROL_SYMBOLS[token]] for token in NEVER_PRODUCED],
            max_batch_size=self._layout.batch,
            batch_type="examples" if self._layout.unit == "sentences" else "tokens",
        )
        return [[self._ids[piece] for piece in result.hypotheses[0]] for result in results]


class HuggingFaceDecoder:
    """`generate` of a Marian model in Hugging Face transformers, on sentences sorted by length."""

    def __init__(self, folder: Path, precision: Precision, search: SearchConfig) -> None:
        from transformers import AutoModelForSeq2SeqLM
        from transformers.utils import logging

        logging.disable_progress_bar()
        logging.set_verbosity_error()
        dtype = torch.bfloat16 if precision == "bfloat16" else torch.float32
        self._model = AutoModelForSeq2SeqLM.from_pretrained(folder, local_files_only=True, dtype=dtype).eval()
        self._search, self._layout = search, ONE_BY_ONE

    def arrange(self, layout: Layout) -> None:
        """Set PyTorch's number of threads per matrix product."""
        self._layout = layout
        torch.set_num_threads(layout.threads)

    def translate(self, sources: Sequence[Ids]) -> list[list[int]]:
        """The best translation of each source."""
        results: list[list[int]] = [[] for _ in sources]
        for batch in sorted_batches(sources, self._layout.batch):
            for index, ids in zip(batch, self._generate([sources[i] for i in batch]), strict=True):
                results[index] = ids
        return results

    def _generate(self, sources: Sequence[Ids]) -> Iterator[list[int]]:
        source = pad([[*ids, END] for ids in sources], torch.device("cpu"))
        beams = {"length_penalty": length_exponent(self._search), "early_stopping": True}
        written = self._model.generate(
            source,
            attention_mask=(source != PADDING).long(),
            num_beams=self._search.beam_size,
            min_new_tokens=self._search.min_length,
            max_new_tokens=longest_output(sources, self._search),
            **(beams if self._search.beam_size > 1 else {}),
        )
        for _start, *ids in written.tolist():
            ends = [place for place, token in enumerate(ids) if token in (END, PADDING)]
            yield ids[: ends[0]] if ends else ids


def longest_output(sources: Sequence[Ids], search: SearchConfig) -> int:
    """The largest output length for these sources, in tokens with the end symbol."""
    longest = max(map(len, sources)) + 1 + search.max_extra_tokens
    return longest if search.max_length is None else min(longest, search.max_length)


def sorted_batches(sources: Sequence[Ids], size: int) -> list[list[int]]:
    """Indices of the sources, longest first, in batches of `size` sentences."""
    order = sorted(range(len(sources)), key=lambda place: -len(sources[place]))
    return [order[start : start + size] for start in range(0, len(order), size)]


Build = Callable[[Path, Precision, SearchConfig], DecodingContender]
"""Builds a contender. Arguments: model directory, precision, search settings."""

CONTENDERS: dict[str, Build] = {
    OURS: OurDecoder,
    "ctranslate2": CTranslate2Decoder,
    "huggingface": HuggingFaceDecoder,
}
"""Name on the command line -> its builder."""

_USUAL_BATCH = 32
_BATCHES = 8, 16, 32, 64, 128
_BATCHES_OF_TOKENS = (512, 1_024, 2_048)


def precisions(contender: str) -> list[Precision]:
    """The precisions that a contender supports on this CPU."""
    offered: set[str] = {"float32", "bfloat16"}
    if contender == OURS:
        offered |= set(available())
    if contender == "ctranslate2":
        import ctranslate2

        offered = ctranslate2.get_supported_compute_types("cpu")
    known: tuple[Precision, ...] = ("float32", "bfloat16", "int8")
    return [precision for precision in known if precision in offered]


def ways_to_share(contender: str, threads: int) -> list[Layout]:
    """Layouts that keep `threads` threads busy, with a common batch size.

    transformers is distributed over processes, as Python's global lock lets only one thread run its code.
    """
    shares = [(threads // each, each) for each in range(1, threads + 1) if threads % each == 0]
    if contender == "huggingface":
        return [Layout(num, 1, each, _USUAL_BATCH) for num, each in shares]
    return [Layout(1, num, each, _USUAL_BATCH) for num, each in shares]


def other_batches(contender: str, layout: Layout) -> list[Layout]:
    """The same layout with other batch sizes."""
    found = [replace(layout, batch=batch) for batch in _BATCHES if batch != layout.batch]
    if contender == "ctranslate2":
        found += [replace(layout, batch=batch, unit="source tokens") for batch in _BATCHES_OF_TOKENS]
    return found
