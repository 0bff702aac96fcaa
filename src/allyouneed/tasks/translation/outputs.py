"""Translations, made from the hypotheses of a search: texts with scores, samples and parts."""

import math
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Literal, NamedTuple

from allyouneed.config.run import SearchConfig
from allyouneed.data.sentences import Divided, TextPart
from allyouneed.data.tokenizer import Tokenizer, split_symbol
from allyouneed.data.words import split_words
from allyouneed.inference.alignment import align_words
from allyouneed.inference.beams import Hypothesis
from allyouneed.inference.sampling import rank_by_expected_utility
from allyouneed.inference.scheduler import Scheduler, Watch
from allyouneed.language_codes import WITHOUT_SPACES_BETWEEN_SENTENCES, primary_language

CUT = "its translation did not end within the maximum length and was cut"
"""The message about a translation that was cut."""

_LEAST_LOG_PROB = math.log(0.001)
"""Logarithm of the least probability of a continuation."""

END_PIECE = "</s>"
"""Printable form of the end symbol."""


Fate = Literal["kept", "repaired", "inserted", "suggested", "lost"]


@dataclass(frozen=True)
class KeptPart:
    """A part of a text whose translation was given."""

    text: str
    """The part, as the text has it."""
    kind: Literal["span", "term"]
    fate: Fate
    """How it came into the translation: the model wrote it by itself; it had to, in another search; it was
    put in by its place in the text. A term that was only suggested may be missing; a lost one is missing."""


@dataclass(frozen=True)
class Translation:
    """A translation of a text."""

    text: str
    score: float
    """Log-probability divided by the length penalty; with `mbr`, expected chrF from 0 to 100. For a text in
    parts, the mean of the scores of the parts, weighted by tokens including the end symbol."""
    tokens: list[str] = field(default_factory=list, repr=False)
    """Printable sub-word pieces, with the end symbol `</s>` after each part. A translation that was cut at
    the maximum length has no end symbol; that of a blank text has no tokens."""
    token_log_probs: list[float] = field(default_factory=list, repr=False)
    """Natural logarithm of the probability of each token."""
    alignment: list[tuple[int, int]] | None = field(default=None, repr=False)
    """Pairs of aligned words (source, target), from 0, if requested; words are separated by white space, in
    sources also where a text was divided."""
    links: list[tuple[int, int, int, int]] | None = field(default=None, repr=False)
    """Aligned pieces, as begin and end in the text, and in the translation, in characters; if requested."""

    is_cut: bool = field(default=False, repr=False)
    """Whether the translation, or that of a part of the text, did not end within the maximum length."""
    is_from_memory: bool | None = field(default=None, repr=False)
    """True if a translation memory has the text; otherwise None."""
    kept: list[KeptPart] | None = field(default=None, repr=False)
    """Spans and terms of the text, if these are kept and it has any."""


class TranslatedPart(NamedTuple):
    """A part of a text and its translations, best first."""

    translations: list[Translation]
    source: str
    num_repeated: int = 0
    """Number of words at the beginning, the symbol for a language, that the part before begins with, too."""
    begin: int = 0
    """Where the part begins in the text."""


class Segment(NamedTuple):
    """A part of a text that was translated separately, most often a sentence."""

    source: str
    text: str
    """Best translation of the source."""
    before: str
    """White space and line breaks of the text before the translation."""


class TranslatedText(NamedTuple):
    """The translations of a text of any number of lines."""

    translations: list[Translation]
    """Best first. Line breaks are those of the text."""
    segments: list[Segment]
    notices: tuple[str, ...]
    num_tokens: tuple[int, int]
    """Number of tokens of the source and of the best translation, without end symbols."""


def least_risk(drawn: Sequence[Translation]) -> list[Translation]:
    """The distinct samples, in order of expected risk, lowest first."""
    from allyouneed.evaluation.pairwise_chrf import pairwise_chrf

    ranked = rank_by_expected_utility([translation.text for translation in drawn], pairwise_chrf)
    return [replace(drawn[index], score=utility) for index, utility in ranked]


def join_parts(parts: Sequence[TranslatedPart], separators: Sequence[str]) -> list[Translation]:
    """Join the translations of the parts of a text.

    The n-th best joins the n-th best of each part, or the last one if a part has fewer. `separators` stand
    before each part, and after the last.
    """
    if len(parts) == 1 and not any(separators):
        return parts[0].translations
    ranks = range(max(len(part.translations) for part in parts))
    return [
        _join(parts, [part.translations[min(rank, len(part.translations) - 1)] for part in parts], separators)
        for rank in ranks
    ]


def space_between_sentences(language: str) -> str:
    """The separator of sentences in a language, by its code, such as "zh-Hans": a space, or nothing."""
    return "" if primary_language(language) in WITHOUT_SPACES_BETWEEN_SENTENCES else " "


def _join(
    parts: Sequence[TranslatedPart], found: Sequence[Translation], separators: Sequence[str]
) -> Translation:
    num_tokens = [len(each.tokens) for each in found]
    scores = [translation.score for translation in found]
    total = sum(score * num for score, num in zip(scores, num_tokens, strict=True) if num)
    return Translation(
        "".join(chain(*zip(separators, (each.text for each in found), strict=False), separators[-1:])),
        -math.inf if -math.inf in scores else total / max(1, sum(num_tokens)),
        [token for translation in found for token in translation.tokens],
        [log_prob for translation in found for log_prob in translation.token_log_probs],
        _join_alignments(parts, found, separators),
        _join_links(parts, found, separators),
        any(translation.is_cut for translation in found),
    )


def _join_alignments(
    parts: Sequence[TranslatedPart], found: Sequence[Translation], separators: Sequence[str]
) -> list[tuple[int, int]] | None:
    alignment: list[tuple[int, int]] = []
    num_source_words = num_target_words = 0
    before = ""
    for number, (part, translation) in enumerate(zip(parts, found, strict=True)):
        if translation.alignment is None:
            return None
        if text := translation.text:
            meet = before + separators[number] + text[0]
            if before and len(meet) == len("".join(meet.split())):  # one word goes on
                num_target_words -= 1
            before = text[-1]
        repeated = part.num_repeated
        shift = num_source_words - repeated
        alignment += [
            (i if i < repeated else i + shift, j + num_target_words) for i, j in translation.alignment
        ]
        num_source_words += len(part.source.split()) - repeated
        num_target_words += len(text.split())
    return alignment


def _join_links(
    parts: Sequence[TranslatedPart], found: Sequence[Translation], separators: Sequence[str]
) -> list[tuple[int, int, int, int]] | None:
    links: list[tuple[int, int, int, int]] = []
    size = 0
    for part, translation, separator in zip(parts, found, separators, strict=False):
        if translation.links is None:
            return None
        size += len(separator)
        links += [
            (begin + part.begin, end + part.begin, first + size, last + size)
            for begin, end, first, last in translation.links
        ]
        size += len(translation.text)
    return links


def followed(
    scheduler: Scheduler,
    ready: Callable[[], AbstractContextManager[None]],
    future: Future[list[Translation]],
    told: Sequence[str],
) -> Iterator[str]:
    """The beginnings of a translation as they are `told`, each longer than the last, and then the whole.

    `ready` prepares the thread for computing; the only worker of the scheduler is this generator.
    """
    steps, certain = scheduler.steps(), ""
    while not future.done():
        with ready():  # only while computing, not while suspended
            next(steps, None)
        if told[-1] != certain:
            yield (certain := told[-1])
    if (whole := future.result()[0].text) != certain or not whole:
        yield whole


class TranslationMaker:
    """Makes translations from the hypotheses of the parts of texts.

    `target_language` is the code of the language of translations; `search` and `n_best` are as in the search.
    All outputs begin with the ids `begin`, which are no part of the translation.
    """

    def __init__(
        self,
        source_tokenizer: Tokenizer,
        target_tokenizer: Tokenizer,
        target_language: str,
        search: SearchConfig,
        n_best: int,
        begin: Sequence[int] = (),
    ) -> None:
        self._begin = begin
        self._source_tokenizer, self._target_tokenizer = source_tokenizer, target_tokenizer
        self._space = space_between_sentences(target_language)
        self._search, self._n_best = search, n_best

    def translations(self, text: Divided, found: Sequence[Sequence[Hypothesis]]) -> list[Translation]:
        """Up to `n_best` translations of a text, best first, or samples as drawn."""
        return join_parts(self._parts(text, found), text.separators(self._space))

    def whole(self, text: Divided, found: Sequence[Sequence[Hypothesis]]) -> TranslatedText:
        """The translations of a text, and the segments of the best one."""
        parts, separators = self._parts(text, found), text.separators(self._space)
        translations = join_parts(parts, separators)
        segments, before = list[Segment](), ""
        for part, separator in zip(parts, separators, strict=False):
            before += separator
            if part.source:
                segments.append(Segment(part.source, part.translations[0].text, before))
                before = ""
        notices = (*text.notices, CUT) if translations[0].is_cut else text.notices
        num_written = sum(token != END_PIECE for token in translations[0].tokens)
        num_tokens = sum(len(part.ids) for part in text.parts), num_written
        return TranslatedText(translations, segments, notices, num_tokens)

    def continuations(self, found: Sequence[Sequence[Hypothesis]], num_written: int) -> list[list[int]]:
        """The ids, without `begin`, of outputs of a source with a likely token after `num_written` ones."""
        longer = [each for each in found[0] if len(each.ids) > num_written]
        num_before = len(self._begin)
        return [each.ids[num_before:] for each in longer if each.token_log_probs[-1] > _LEAST_LOG_PROB]

    def watch(self, text: Divided, tell: Callable[[str], None]) -> Watch:
        """A function that tells the beginning of the translation that can no longer change, as it grows."""
        separators, lock = text.separators(self._space), threading.Lock()
        texts = [self._kept_text(part) for part in text.parts]
        is_open, told = [bool(part.ids) for part in text.parts], ""

        def watch(number: int, ids: Sequence[int], is_done: bool) -> None:
            nonlocal told
            with lock:  # workers may write several parts at the same time
                if ids:  # of the last character, bytes may be missing
                    written = ids[len(self._begin) :]
                    texts[number] = self._target_tokenizer.decode(written).rstrip("\N{REPLACEMENT CHARACTER}")
                is_open[number] = not is_done
                num_certain = is_open.index(True) + 1 if True in is_open else len(texts)
                certain = "".join(chain(*zip(separators, texts[:num_certain], strict=False))).rstrip()
                if len(certain) > len(told):
                    told = certain
                    tell(told)

        return watch

    def _parts(self, text: Divided, found: Sequence[Sequence[Hypothesis]]) -> list[TranslatedPart]:
        parts, begin = list[TranslatedPart](), 0
        for part, hypotheses in zip(text.parts, found, strict=True):
            begin += len(part.before)
            parts.append(self._part(part, hypotheses, begin))
            begin += len(part.text)
        return parts

    def _part(self, part: TextPart, hypotheses: Sequence[Hypothesis], begin: int) -> TranslatedPart:
        source = part.kept or self._source_tokenizer.decode(part.ids[part.num_added :])
        symbol, _ = split_symbol(source, {} if part.num_added else self._source_tokenizer.languages)
        num_before = len(symbol.split())
        if part.kept:
            translations = [self._kept(self._kept_text(part), num_before)]
        else:
            translations = [self._translation(part, each) for each in hypotheses]
            if self._search.mbr is not None:
                translations = least_risk(translations)[: self._n_best]
        return TranslatedPart(translations, source, num_before if part.repeats_symbol else 0, begin)

    def _kept_text(self, part: TextPart) -> str:
        """The text of a part that stays as it is; empty for another."""
        return split_symbol(part.kept, self._source_tokenizer.languages)[1]

    def _kept(self, text: str, num_before: int) -> Translation:
        words = range(len(text.split()))
        if not self._search.alignments:
            return Translation(text, 0.0)
        links = [(begin, end, begin, end) for begin, end in split_words(text)]
        alignment = [(word + num_before, word) for word in words]
        return Translation(text, 0.0, alignment=alignment, links=links)

    def _links(self, part: TextPart, hypothesis: Hypothesis) -> list[tuple[int, int, int, int]]:
        """Aligned characters of a part and its translation, without those of symbols for languages."""
        num_begun = len(self._begin)
        read = self._source_tokenizer.offsets(part.text)
        written = self._target_tokenizer.spans(hypothesis.ids[num_begun:])
        num_before = len(part.ids) - len(read)
        return [
            (*read[i - num_before], *written[j - num_begun])
            for i, j in hypothesis.alignment
            if i >= num_before and j >= num_begun
        ]

    def _translation(self, part: TextPart, hypothesis: Hypothesis) -> Translation:
        tokenizer, num_before = self._target_tokenizer, len(self._begin)
        ids, log_probs = hypothesis.ids[num_before:], hypothesis.token_log_probs[num_before:]
        alignment = links = None
        if self._search.alignments:
            words = self._source_tokenizer.words(part.ids[part.num_added :])
            words = [*[None] * part.num_added, *words]
            alignment = align_words(
                hypothesis.alignment, words, [*[None] * num_before, *tokenizer.words(ids)]
            )
            links = self._links(part, hypothesis)
        pieces = [*tokenizer.pieces(ids), END_PIECE][: len(log_probs)]
        return Translation(
            tokenizer.decode(ids),
            hypothesis.score,
            pieces,
            log_probs,
            alignment,
            links,
            is_cut=pieces[-1:] not in ([], [END_PIECE]),
        )
