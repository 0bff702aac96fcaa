"""Texts of one or several lines, translated through a scheduler that many callers share."""

import math
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import NamedTuple, Unpack

from allyouneed.config.run import RunConfig
from allyouneed.data.sentences import Divided, TextPart
from allyouneed.data.words import has_letters
from allyouneed.inference.beams import Hypothesis
from allyouneed.inference.engine import Engine
from allyouneed.inference.scheduler import Scheduler, Source, Watch
from allyouneed.inference.search_plan import SearchPlan, gather
from allyouneed.tasks.requests import TranslateOptions, check_n_best, configured
from allyouneed.tasks.translation.outputs import (
    CUT,
    END_PIECE,
    PartMaker,
    TranslatedPart,
    Translation,
    join_lines,
    space_between_sentences,
)
from allyouneed.tasks.translation.text_encoder import TextEncoder


class Segment(NamedTuple):
    """A part of a text that was translated separately, most often a sentence."""

    source: str
    text: str
    """Best translation of the source."""
    before: str
    """White space and line breaks of the text before the translation."""


@dataclass(frozen=True)
class TranslatedText:
    """The translations of a text of any number of lines."""

    translations: list[Translation]
    """Best first. Line breaks are those of the text."""
    segments: list[Segment]
    notices: tuple[str, ...]
    num_tokens: tuple[int, int]
    """Number of tokens of the source and of the best translation, without end symbols."""


def _whole(lines: Sequence[Divided]) -> Divided:
    """The parts of all lines, with line breaks between them."""
    parts, before = list[TextPart](), ""
    for line in lines:
        first, *others = line.parts
        parts += [first._replace(before=before + first.before), *others]
        before = line.after + "\n"
    return Divided(parts, before[:-1], tuple(notice for line in lines for notice in line.notices))


def _joined(
    made: Sequence[TranslatedPart], lines: Sequence[Divided], whole: Divided, space: str
) -> TranslatedText:
    """The translation of a text in lines from those of its parts; `space` separates the parts of a line."""
    remaining = iter(made)
    of_lines = [[next(remaining) for _ in line.parts] for line in lines]
    translations = join_lines(of_lines, [line.separators(space) for line in lines])
    segments, before = list[Segment](), ""
    for part, separator in zip(made, whole.separators(space), strict=False):
        before += separator
        if part.source:
            segments.append(Segment(part.source, part.translations[0].text, before))
            before = ""
    notices = (*whole.notices, CUT) if translations[0].is_cut else whole.notices
    written = (token for part in made for token in part.translations[0].tokens)
    num_written = sum(token != END_PIECE for token in written)
    num_tokens = sum(len(part.ids) for part in whole.parts), num_written
    return TranslatedText(translations, segments, notices, num_tokens)


class _CertainText:
    """Puts together the beginning of a translation that can no longer change."""

    def __init__(self, text: Divided, space: str, maker: PartMaker, tell: Callable[[str], None]) -> None:
        self._separators, self._maker, self._tell = text.separators(space), maker, tell
        self._texts = [maker.kept_text(part) for part in text.parts]
        self._is_done = [not part.ids for part in text.parts]
        self._told = ""
        self._lock = threading.Lock()

    def watch(self, number: int) -> Watch:
        """Follows a part that is searched."""
        return lambda ids: self._set(number, ids, is_done=False)

    def when_done(self, number: int) -> Callable[[Future[list[Hypothesis]]], None]:
        """Follows the end of a part."""

        def done(future: Future[list[Hypothesis]]) -> None:
            if not future.cancelled() and future.exception() is None:
                self._set(number, future.result()[0].ids, is_done=True)

        return done

    def _set(self, number: int, ids: Sequence[int], *, is_done: bool) -> None:
        with self._lock:
            if ids:
                self._texts[number] = self._maker.certain_text(ids)
            self._is_done[number] = is_done
            first_open = self._is_done.index(False) if False in self._is_done else len(self._texts) - 1
            certain = "".join(
                separator + text
                for separator, text in zip(self._separators, self._texts[: first_open + 1], strict=False)
            )
            if len(certain.rstrip()) > len(self._told):
                self._told = certain.rstrip()
                self._tell(self._told)


_LEAST_LOG_PROB = math.log(0.001)


class QueuedTranslator:
    """Queues translations. Made by `Translator.on`; any number of threads may use it.

    The limits of the scheduler hold for batches; `config.search` has the defaults of calls.
    """

    def __init__(self, engine: Engine, config: RunConfig, encoder: TextEncoder, scheduler: Scheduler) -> None:
        self._engine, self._config, self._encoder, self._scheduler = engine, config, encoder, scheduler

    def submit(
        self,
        text: str,
        *,
        prefix: str | Sequence[int] = "",
        n_best: int = 1,
        deadline: float | None = None,
        tell: Callable[[str], None] | None = None,
        **options: Unpack[TranslateOptions],
    ) -> Future[TranslatedText]:
        """Queue the translation of a text of any number of lines; line breaks are kept.

        Args:
            text: A text; each line is translated as `Translator.answer` translates a text.
            prefix: Whole words, or token ids, that the translation begins with.
            n_best: Maximum number of translations.
            deadline: Value of `time.monotonic()` after which the translation fails with `TimeoutError`.
            tell: Called by a worker with the beginning of the translation that can no longer change, whenever
                it has become longer; never with sampling, `mbr` or a coverage penalty.
            **options: See `Translator.answer`.

        Returns:
            The future of the translations; it can be cancelled until it is done.

        Raises:
            DataError: The text is not Unicode, or too long and not to be split.
            UsageError: An option is unknown, out of range, or has no effect.
        """
        config, search = configured(options, self._config.search)
        check_n_best(n_best, search.mbr)
        if search.sampling or search.mbr or search.coverage_penalty:
            tell = None  # nothing is certain before the end
        lines = [self._encoder.divide(line, config) for line in text.split("\n")]
        ids = self._encoder.prefix(prefix) if isinstance(prefix, str) else prefix
        maker = PartMaker(self._encoder.source_tokenizer, self._encoder.target_tokenizer, search, n_best)
        plan = SearchPlan(self._engine, search, search.mbr or n_best)
        space, whole = space_between_sentences(self._config.data.target_language), _whole(lines)
        certain = _CertainText(whole, space, maker, tell) if tell else None
        futures = self._submitted(plan, whole, ids, certain, deadline)

        def join(found: list[list[Hypothesis]]) -> TranslatedText:
            made = [maker.part(part, each) for part, each in zip(whole.parts, found, strict=True)]
            return _joined(made, lines, whole, space)

        return gather(futures, join)

    def _submitted(
        self,
        plan: SearchPlan,
        text: Divided,
        prefix: Sequence[int],
        certain: "_CertainText | None",
        deadline: float | None,
    ) -> list[Future[list[Hypothesis]]]:
        """Queue the parts of a text, which `certain` follows."""
        sources = [
            Source(part.ids, prefix if number == text.first else ()) for number, part in enumerate(text.parts)
        ]
        if certain is None:
            return self._scheduler.submit_all(plan, sources, deadline=deadline)
        futures = [
            self._scheduler.submit(plan, source, deadline=deadline, watch=certain.watch(number))
            for number, source in enumerate(sources)
        ]
        for number, future in enumerate(futures):
            future.add_done_callback(certain.when_done(number))
        return futures

    def continuations(
        self, text: str, prefix: str, num: int, *, deadline: float | None = None
    ) -> Future[list[list[int]]]:
        """Queue the search for the likeliest next tokens of a translation.

        Args:
            text: A sentence.
            prefix: Whole words that the translation begins with.
            num: Maximum number of next tokens.
            deadline: See `submit`.

        Returns:
            The future of the prefix's ids with each next token, the likeliest first, as prefixes for
            `submit`; tokens with a probability of less than 0.001 are left out.

        Raises:
            DataError: The text or the prefix is not Unicode, or too long.
        """
        source, ids = self._encoder.source(text), self._encoder.prefix(prefix)
        if not has_letters(self._encoder.own_text(text)):
            source = []  # it stays as it is
        options = {"beam_size": num, "max_length": len(ids) + 1, "min_length": 0, "early_stopping": False}
        search = self._config.search.replace(
            **options, sampling=False, mbr=None, coverage_penalty=0.0, alignments=False
        )
        future = self._scheduler.submit(
            SearchPlan(self._engine, search, num), Source(source, ids), deadline=deadline
        )
        return gather([future], lambda found: [each.ids for each in found[0] if _is_likely(each, ids)])


def _is_likely(begun: Hypothesis, prefix: Sequence[int]) -> bool:
    return len(begun.ids) > len(prefix) and begun.token_log_probs[-1] > _LEAST_LOG_PROB
