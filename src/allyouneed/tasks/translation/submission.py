"""Texts of several lines, translated through a scheduler that many callers share."""

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import NamedTuple

from allyouneed.inference.beams import Hypothesis
from allyouneed.inference.futures import gather
from allyouneed.inference.scheduler import Scheduler, Source, Watch
from allyouneed.inference.search_plan import SearchPlan
from allyouneed.tasks.translation.outputs import CUT, END_PIECE, Part, Translation, join_lines
from allyouneed.tasks.translation.parts import PartMaker


class Segment(NamedTuple):
    """A part of a text that was translated separately, most often a sentence."""

    source: str
    text: str
    """Its best translation."""
    line: int
    """Number of its line, from 0. The translations of a line's segments are joined by spaces, where the
    language has spaces."""


@dataclass(frozen=True)
class TranslatedText:
    """The translations of a text of any number of lines."""

    translations: list[Translation]
    """Best first. Line breaks are those of the text."""
    segments: list[Segment]
    notices: tuple[str, ...]
    num_tokens: tuple[int, int]
    """Number of tokens of the source and of the best translation, without end symbols."""


@dataclass(frozen=True)
class EncodedLines:
    """A text, ready to be translated."""

    lines: list[list[list[int]]]
    """Token ids of each part of each line; a blank line has one empty part."""
    notices: tuple[str, ...] = ()
    prefix: Sequence[int] = ()
    """Token ids that the translation begins with."""

    @property
    def parts(self) -> list[list[int]]:
        """The parts of all lines."""
        return [part for line in self.lines for part in line]


def submit_lines(
    scheduler: Scheduler,
    plan: SearchPlan,
    encoded: EncodedLines,
    maker: PartMaker,
    space: str,
    *,
    deadline: float | None = None,
    tell: Callable[[str], None] | None = None,
) -> Future[TranslatedText]:
    """Queue the translation of a text.

    Args:
        scheduler: The scheduler.
        plan: How each part is searched.
        encoded: The text.
        maker: Makes translations of what is found.
        space: What separates the translations of the parts of a line.
        deadline: Value of `time.monotonic()` after which the translation fails with `TimeoutError`.
        tell: Called by a worker with the beginning of the translation that can no longer change, whenever it
            has become longer; not with sampling or a coverage penalty.
    """
    parts = encoded.parts
    first = next((number for number, ids in enumerate(parts) if ids), 0)  # blank ones are not searched
    sources = [Source(ids, encoded.prefix if number == first else ()) for number, ids in enumerate(parts)]
    if tell is None:
        futures = scheduler.submit_all(plan, sources, deadline=deadline)
    else:
        certain = _CertainText(_separators(encoded, space), maker.certain_text, tell)
        futures = [
            scheduler.submit(plan, source, deadline=deadline, watch=certain.watch(number))
            for number, source in enumerate(sources)
        ]
        for number, future in enumerate(futures):
            future.add_done_callback(certain.when_done(number))

    def join(found: list[list[Hypothesis]]) -> TranslatedText:
        made = iter([maker.part(ids, each) for ids, each in zip(parts, found, strict=True)])
        lines = [[next(made) for _ in line] for line in encoded.lines]
        return _text(lines, encoded, space)

    return gather(futures, join)


def _text(lines: Sequence[Sequence[Part]], encoded: EncodedLines, space: str) -> TranslatedText:
    translations = join_lines(lines, space)
    segments = [
        Segment(part.source, part.translations[0].text, number)
        for number, parts in enumerate(lines)
        for part in parts
        if part.source
    ]
    notices = (*encoded.notices, CUT) if translations[0].is_cut else encoded.notices
    written = (token for parts in lines for part in parts for token in part.translations[0].tokens)
    num_written = sum(token != END_PIECE for token in written)
    num_tokens = sum(map(len, encoded.parts)), num_written
    return TranslatedText(translations, segments, notices, num_tokens)


def _separators(encoded: EncodedLines, space: str) -> list[str]:
    """What stands before each part."""
    separators = ["\n" if number == 0 else space for line in encoded.lines for number in range(len(line))]
    return ["", *separators[1:]]


class _CertainText:
    """Puts together the beginning of a translation that can no longer change."""

    def __init__(
        self, separators: Sequence[str], decode: Callable[[Sequence[int]], str], tell: Callable[[str], None]
    ) -> None:
        self._separators, self._decode, self._tell = separators, decode, tell
        self._texts, self._is_done = [""] * len(separators), [False] * len(separators)
        self._told = ""
        self._lock = threading.Lock()

    def watch(self, number: int) -> Watch:
        """Follows a part that is searched."""
        return lambda ids: self._set(number, self._decode(ids), is_done=False)

    def when_done(self, number: int) -> Callable[[Future[list[Hypothesis]]], None]:
        """Follows the end of a part."""

        def done(future: Future[list[Hypothesis]]) -> None:
            if not future.cancelled() and future.exception() is None:
                self._set(number, self._decode(future.result()[0].ids), is_done=True)

        return done

    def _set(self, number: int, text: str, *, is_done: bool) -> None:
        with self._lock:
            self._texts[number], self._is_done[number] = text, is_done
            first_open = self._is_done.index(False) if False in self._is_done else len(self._texts) - 1
            certain = "".join(
                separator + text
                for separator, text in zip(self._separators, self._texts[: first_open + 1], strict=False)
            )
            if len(certain.rstrip()) > len(self._told):
                self._told = certain.rstrip()
                self._tell(self._told)
