"""Transcribes frames: files or arrays in, text out."""

from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future
from functools import cached_property, partial
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np

from allyouneed.config.run import (
    DecodingPrecision,
    LengthNormalization,
    RunConfig,
    SearchConfig,
    SearchSettings,
)
from allyouneed.config.settings import Batch, Config, Workers, require_counts, takes
from allyouneed.data.frame_format import FrameFormat
from allyouneed.data.sentences import too_long_error
from allyouneed.data.tokenizer import Tokenizer
from allyouneed.data.vectors import Vectors
from allyouneed.errors import DataError, UsageError
from allyouneed.inference.beams import Hypothesis
from allyouneed.inference.engine_choice import build_engines
from allyouneed.inference.generate import carry_out
from allyouneed.inference.scheduler import Job, Scheduler, Source
from allyouneed.inference.search_plan import Batching, SearchPlan
from allyouneed.inference.stored_model import Model
from allyouneed.model.sizes import source_positions
from allyouneed.tasks.requests import (
    Answer,
    Failure,
    Frames,
    ScoreRequest,
    TranscribeRequest,
    combined_search,
    encoded_or_failure,
    require_all,
    require_one_each,
)
from allyouneed.tasks.translation.outputs import END_PIECE, Translation
from allyouneed.tasks.translation.pair_scores import EncodedPair, PairScore, answer_pairs, encode_pair

if TYPE_CHECKING:
    from allyouneed.tasks.attention_maps import Attention

MOST_FRAMES = 16_000
"""Maximum number of frames for a model without a neighbourhood, whose memory grows with their square."""
_NOT_HERE = "alignments", "coverage_penalty", "mbr"


class TranscribeConfig(Config):
    """How much is computed at once."""

    batch_tokens: Batch | None = None
    """Maximum frames of a batch, padding included, times the beam size; default: 8,192 on a CPU, and on an
    accelerator as many as its memory allows."""
    batch_size: Batch | None = None
    """Maximum sources of a batch; default: unlimited."""
    workers: Workers | None = None
    """Number of batches computed at the same time; default: chosen by the engine."""


class TranscribeOptions(SearchSettings, total=False):
    """Settings of `TranscribeConfig` and `SearchConfig` as keyword arguments."""

    batch_tokens: int | None
    batch_size: int | None
    workers: int | None


class Transcriber:
    """A model or an ensemble that transcribes frames. Made by `load`.

    The arguments are those of `Translator`, but for the `frames` that it reads.
    """

    def __init__(
        self,
        model: "Model | Sequence[Model]",
        config: RunConfig,
        frames: FrameFormat,
        tokenizer: Tokenizer,
        *,
        precision: DecodingPrecision = "float32",
        threads: int = 1,
    ) -> None:
        self.config, self._frames, self._tokenizer = config, frames, tokenizer
        models = model if isinstance(model, Sequence) else [model]
        self.engine, self._workers = build_engines(models, precision, threads)
        """The engine, or the ensemble, that decodes."""

    @takes(TranscribeConfig, SearchConfig)
    def transcribe(
        self, sources: Sequence[Frames], **options: Unpack[TranscribeOptions]
    ) -> list[Translation]:
        """The text of each source, in order.

        Args:
            sources: Files, or arrays (frames, features).
            **options: See below.

        Raises:
            DataError: A source is not readable, not finite or too long; the message has its number.
            UsageError: An option is unknown or out of range, or a package for speech is not installed.
            TypeError: One source is given in place of several.
        """
        if isinstance(sources, str | Path):
            raise TypeError("a single source; put it in a list: [source]")
        jobs = require_all(map(self._job, map(TranscribeRequest, count(1), sources)), "source")
        answers: Iterator[Answer[Translation]] = self._carried_out(jobs, options)
        return [answer.result for answer in answers]

    @takes(TranscribeConfig, SearchConfig)
    def answer(
        self, requests: Iterable[TranscribeRequest | Failure], **options: Unpack[TranscribeOptions]
    ) -> Iterator[Answer[Translation] | Failure]:
        """An answer or a failure for each request, in order; several are read ahead and sorted by length.

        Args:
            requests: Requests; failures are passed on.
            **options: See below.

        Raises:
            UsageError: An option is unknown or out of range, or a package for speech is not installed.
        """
        return self._carried_out(map(self._job, requests), options)

    def submit(
        self, scheduler: Scheduler, frames: Frames, *, deadline: float | None = None
    ) -> Future[Translation]:
        """Queue the transcription of a source with the settings of the model; see `Parser.submit`."""
        job = Job([Source(self.encode(frames))], self._transcription)
        return scheduler.submit(self._plan, job, deadline=deadline)

    def answer_pairs(
        self,
        requests: Iterable[ScoreRequest | Failure],
        *,
        workers: int | None = None,
        length_penalty: float | None = None,
        length_normalization: LengthNormalization | None = None,
    ) -> Iterator[Answer[PairScore] | Failure]:
        """The log-probability of each target given its source, the path of a file; see `Translator`."""
        require_counts(workers=workers)
        given = {"length_penalty": length_penalty, "length_normalization": length_normalization}
        search = combined_search({name: v for name, v in given.items() if v is not None}, self.config.search)
        encode = partial(encode_pair, self.encode, self._target)
        pairs = (encoded_or_failure(encode, request) for request in requests)
        return answer_pairs(self.engine, pairs, self._tokenizer, search, workers=workers or self._workers)

    def score(self, sources: Sequence[Frames], targets: Sequence[str]) -> list[PairScore]:
        """The score of each target as the text of its source, in order; raises DataError as `transcribe`."""
        require_one_each("sources", sources, "targets", targets)
        encoded = map(self._target, targets)
        pairs = map(EncodedPair, count(1), map(self.encode, sources), encoded)
        answers = answer_pairs(self.engine, pairs, self._tokenizer, self.config.search, workers=self._workers)
        return [answer.result for answer in require_all(answers, "pair")]

    def encode(self, source: Frames) -> Vectors:
        """The frames of a source, as the model reads them; raises DataError."""
        if isinstance(source, np.ndarray) and source.ndim == 2:
            self._require_few(len(source))  # before they take eight bytes a number
        frames = source if isinstance(source, Vectors) else self._frames.encode(source)
        self._require_few(len(frames))
        return frames

    def _target(self, text: str) -> list[int]:
        """The ids of a text; raises DataError if there are too many."""
        ids, most = self._tokenizer.encode(text), self.engine.max_positions
        if most and len(ids) >= most:
            raise too_long_error(len(ids), most - 1)
        return ids

    def _require_few(self, num_frames: int) -> None:
        config, most = self.engine.config, self.engine.max_positions
        is_long = config.neighbourhood is None and num_frames > MOST_FRAMES
        if is_long or (most and source_positions(config, num_frames) > most):
            raise DataError(
                f"{num_frames:,} frames are too many for the model; divide them", label="E-TOO-LONG"
            )

    def attention(self, source: Frames, target: str | None = None, *, for_page: bool = False) -> "Attention":
        """The attention weights for writing `target`, by default the model's own text of the source.

        Raises:
            UsageError: There are several models.
            DataError: The source is not readable, or `for_page` and there are more weights than a page holds.
        """
        return next(self.attentions([source], None if target is None else [target], for_page=for_page))

    def attentions(
        self, sources: Sequence[Frames], targets: Sequence[str] | None = None, *, for_page: bool = False
    ) -> "Iterator[Attention]":
        """The attention weights of each source; see `attention`."""
        from allyouneed.inference.attention_weights import only_model
        from allyouneed.tasks.frames.frame_attention import attentions_of

        model, frames = only_model(self.engine.models), [*map(self.encode, sources)]
        texts = [each.text for each in self.transcribe(frames)] if targets is None else targets
        ids = map(self._target, texts)
        return attentions_of(model, frames, ids, self._tokenizer, self.config, for_page=for_page)

    @cached_property
    def _plan(self) -> SearchPlan:
        return SearchPlan(self.engine, self.config.search)

    def _job(self, request: TranscribeRequest | Failure) -> Job[Answer[Translation]] | Failure:
        def encode(request: TranscribeRequest) -> Job[Answer[Translation]]:
            source = Source(self.encode(request.frames))
            return Job([source], lambda found: Answer(request.id, self._transcription(found)))

        return encoded_or_failure(encode, request)

    def _carried_out(self, jobs: Iterable[Any], options: TranscribeOptions) -> Iterator[Any]:
        own = {name: value for name, value in options.items() if name in TranscribeConfig.model_fields}
        config = TranscribeConfig.checked(**own)
        given = {name: v for name, v in options.items() if name not in own and v is not None}
        if idle := [name for name in _NOT_HERE if given.get(name)]:
            raise UsageError(f"{', '.join(idle)}: this is for translations only; leave it out", settings=idle)
        plan = SearchPlan(self.engine, combined_search(given, self.config.search))
        batching = Batching(
            config.batch_tokens, config.batch_size, config.workers or self._workers, window_sentences=_WINDOW
        )
        return carry_out(plan, jobs, batching)

    def _transcription(self, found: list[list[Hypothesis]]) -> Translation:
        best = found[0][0]
        pieces = [*self._tokenizer.pieces(best.ids), *([END_PIECE] if best.ended else [])]
        text, is_cut = self._tokenizer.decode(best.ids), bool(best.ids) and not best.ended
        return Translation(text, best.score, pieces, best.token_log_probs, is_cut=is_cut)


_WINDOW = 128
"""Number of sources that are read ahead: their frames take memory."""
