"""Translates texts so that spans stay as they are and terms are translated as a glossary says.

A text is translated with stand-ins for its spans. What its translation lacks is put in its place: the search
writes on from where the model's attention says that it belongs, and must write it there.
"""

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count, islice
from pathlib import Path
from typing import Any, NamedTuple, Self

from allyouneed.config.run import DataConfig, RunConfig
from allyouneed.data.sentences import sentence_spans
from allyouneed.data.spans import KINDS, Span, Spans
from allyouneed.data.words import has_letters
from allyouneed.errors import DataError, UsageError
from allyouneed.language_codes import distance
from allyouneed.tasks.requests import (
    OF_BLOCKS,
    Answer,
    Failure,
    RequiredTerm,
    TranslationRequest,
    configured,
    require_all,
)
from allyouneed.tasks.translation.outputs import (
    END_PIECE,
    Fate,
    KeptPart,
    TranslatedPart,
    Translation,
    join_parts,
)
from allyouneed.tasks.translation.text_encoder import NO_LANGUAGE
from allyouneed.tasks.translation.translator import Translator
from allyouneed.terms.glossary import Glossary, Term
from allyouneed.terms.marked_pairs import PLACEHOLDERS, annotated, has_annotation, without_annotations
from allyouneed.terms.stand_ins import POOLS, Masked, word_pairs
from allyouneed.terms.translation_memory import TranslationMemory

_WINDOW = 4_096
"""Number of requests that are read ahead."""
_MOST_PLACED = 8
"""Most searches for a text that each put one term in its place."""
_BEAM_SIZE = 4
"""Least beam size of a search for given terms."""


class Attempt(NamedTuple):
    """A text to be translated, and what its translation must have."""

    text: str
    required: tuple[RequiredTerm, ...] = ()
    is_repair: bool = False
    """Whether words are to be aligned, if they can be."""


class Outcome(NamedTuple):
    """Translations, best first, and messages about what they lack."""

    translations: list[Translation]
    notices: tuple[str, ...] = ()
    is_untouched: bool = False
    """Whether they are those of the only attempt, at the text itself."""


Attempts = Generator[Attempt, list[Translation], Outcome]
"""Asks for translations until one has everything."""


def next_step(attempts: Attempts, found: list[Translation] | None) -> Attempt | Outcome:
    """The next attempt, after the translations of the last one, if there was one; or else the outcome."""
    try:
        return next(attempts) if found is None else attempts.send(found)
    except StopIteration as ended:
        outcome: Outcome = ended.value
        return outcome


_Repair = Generator[Attempt, list[Translation], list[Translation]]


@dataclass(frozen=True)
class _Sentence:
    """A text with stand-ins, its terms, and those that its translation must have, stand-ins included."""

    masked: Masked
    terms: list[Term]
    wanted: list[Term]

    @classmethod
    def of(cls, masked: Masked, glossary: Glossary | None, *, only_suggests: bool) -> "_Sentence":
        terms = glossary.terms(masked.text) if glossary else []
        return cls(masked, terms, sorted([*masked.terms(), *([] if only_suggests else terms)]))

    def lacking(self, translation: str) -> list[Term]:
        """The terms that a translation must have, and has not as often as the text."""
        return _lacking(self.wanted, translation)

    def parts(self, text: str, spans: Sequence[Span], first: str, last: str) -> list[KeptPart]:
        """The spans and terms of a text, by its first translation and the last one."""
        before, after = self.lacking(first), self.lacking(last)
        placed = dict(zip(self.masked.places, self.masked.terms(), strict=True))
        found = list[KeptPart]()
        for span in spans:
            term = placed.get(span[:2])
            fate: Fate = "inserted" if term in after else "repaired" if term in before else "kept"
            found.append(KeptPart(text[span.begin : span.end], "span", fate))
        missing = _lacking(self.terms, last)
        for term in self.terms:
            fate = "repaired" if term in before else "kept"
            if term in missing:
                fate = "lost" if term in self.wanted else "suggested"
            found.append(KeptPart(self.masked.text[term.begin : term.end], "term", fate))
        return found

    def repaired(self, language: str | None, *, aligns: bool) -> _Repair:
        """The attempts at the text again, sentence by sentence if these are translated separately."""
        text = self.masked.text
        spans = [(0, len(text))] if language is None else _sentences_of_lines(text, language)
        if len(spans) < 2:
            return (yield from self._placed(aligns=aligns))
        parts, separators, end = list[TranslatedPart](), list[str](), 0
        for span in spans:
            part = self._part(*span)
            parts.append(TranslatedPart((yield from part._placed(aligns=aligns)), part.masked.text))
            separators.append(text[end : span[0]])
            end = span[1]
        return join_parts(parts, [*separators, text[end:]])

    def _part(self, begin: int, end: int) -> "_Sentence":
        wanted = [term.moved(-begin) for term in self.wanted if begin <= term.begin < end]
        return _Sentence(replace(self.masked, text=self.masked.text[begin:end]), [], wanted)

    def _placed(self, *, aligns: bool) -> _Repair:
        """The attempts to put each missing term in its place."""
        text = self.masked.text
        if aligns:
            found = yield Attempt(text, is_repair=True)
            is_divided = found[0].tokens.count(END_PIECE) > 1  # as it is long: places are those of no part
            for _ in [] if is_divided else self.wanted[:_MOST_PLACED]:
                if not (lacking := self.lacking(found[0].text)):
                    return found
                before, term = min((self._before(term, found[0]), term) for term in lacking)
                required = term.required(text, " ".join(found[0].text.split()[:before]))
                found = yield Attempt(text, (required,), is_repair=True)
            if not self.lacking(found[0].text):
                return found
        return (yield Attempt(text, tuple(term.required(text) for term in self.wanted), is_repair=True))

    def _before(self, term: Term, translation: Translation) -> int:
        """Number of words of a translation before the place of a term: those before the one aligned to it."""
        first = len(self.masked.text[: term.begin].split())
        last = max(first + 1, len(self.masked.text[: term.end].split()))
        aligned = [target for source, target in translation.alignment or () if first <= source < last]
        num_words = len(translation.text.split())
        return min(aligned, default=round(first * num_words / max(1, len(self.masked.text.split()))))


def _lacking(terms: Sequence[Term], translation: str) -> list[Term]:
    """The terms that a translation has not as often as the text."""
    left = {term.forms: term.count_in(translation) for term in terms}
    lacking = list[Term]()
    for term in terms:
        left[term.forms] -= 1
        if left[term.forms] < 0:
            lacking.append(term)
    return lacking


def _sentences_of_lines(text: str, language: str) -> list[tuple[int, int]]:
    """Begin and end of each sentence of a text of any number of lines."""
    spans, begin = list[tuple[int, int]](), 0
    for line in text.split("\n"):
        spans += [(begin + first, begin + end) for first, end in sentence_spans(line, language)]
        begin += len(line) + 1
    return spans


def _restored(text: str, masked: Masked, translation: Translation) -> Translation:
    """A translation with the spans of the text in place of stand-ins, and its alignment, if it has one."""
    restored = masked.restored(translation.text)
    found = masked.links(translation.links, translation.text) if translation.links else None
    links = None if found is None else [*found]
    alignment = word_pairs(links, text, restored) if links else None
    return replace(translation, text=restored, alignment=alignment, links=links)


def _unannotated(translation: Translation, sentence: _Sentence) -> Translation:
    """A translation of the annotated sentence with the alignment of the sentence itself."""
    if translation.links is None:
        return translation
    links = [*without_annotations(translation.links, sentence.terms)]
    alignment = word_pairs(links, sentence.masked.text, translation.text)
    return replace(translation, links=links, alignment=alignment)


@dataclass(frozen=True)
class Kept:
    """Requirements on translations: they have the spans of a text as they are, and the terms of a glossary.

    A text that the memory has gets its translation from there.
    """

    spans: Spans | None = None
    glossary: Glossary | None = None
    memory: TranslationMemory | None = None
    only_suggests: bool = False
    """Whether terms are only suggested to a model that has learned to use them; it may leave them out."""

    def attempts(
        self,
        text: str,
        language: str | None = None,
        *,
        aligns: bool = True,
        data: DataConfig | None = None,
    ) -> Attempts:
        """The attempts at a text.

        Args:
            text: A text.
            language: Code of its language if its sentences are translated separately, else None.
            aligns: Whether words can be aligned.
            data: Settings of the data that the model has learned from.
        """
        data = data or DataConfig()
        if self.memory and (known := self.memory.translations.get(text)) is not None:
            return Outcome([Translation(known, 0.0, is_from_memory=True)])
        spans = self.spans.find(text) if self.spans else []
        if spans and self.spans and not has_letters(self.spans.without(text)):
            parts = [KeptPart(text[span.begin : span.end], "span", "kept") for span in spans]
            return Outcome([Translation(text, 0.0, kept=parts)])
        pools = (PLACEHOLDERS, *POOLS) if data.placeholders else POOLS
        annotates = data.annotate_terms and not has_annotation(text)
        tried = list[tuple[_Sentence, list[Translation]]]()
        for pool in map(self._free_of(text), pools) if spans else [()]:
            masked = Masked.of(text, spans, pool)
            sentence = _Sentence.of(masked, self.glossary, only_suggests=self.only_suggests)
            asked = annotated(masked.text, sentence.terms) if annotates else masked.text
            found = yield Attempt(asked)
            if annotates and sentence.terms:
                found = [_unannotated(each, sentence) for each in found]
            tried.append((sentence, found))
            if masked.is_whole(found[0].text):
                break
        else:
            sentence, found = tried[0]
        masked, first, is_annotated = sentence.masked, found[0].text, annotates and bool(sentence.terms)
        if is_repaired := bool(sentence.lacking(first) or (is_annotated and has_annotation(first))):
            found = yield from sentence.repaired(language, aligns=aligns)
        lacking = sentence.lacking(found[0].text)
        lost = [masked.text[term.begin : term.end] for term in lacking]
        found = [each for each in found if not (is_annotated and has_annotation(each.text))] or found
        translations = [_restored(text, masked, each) for each in found] if spans else found
        notices = tuple(
            f"{masked.spans.get(each, each)!r} found no place in the translation" for each in lost
        )
        if spans or sentence.terms:
            of_each = (sentence.parts(text, spans, first, each.text) for each in found)
            translations = [
                replace(each, kept=parts) for each, parts in zip(translations, of_each, strict=True)
            ]
        return Outcome(translations, notices, is_untouched=not (spans or is_repaired or is_annotated))

    def _free_of(self, text: str) -> Callable[[Sequence[str]], list[str]]:
        """A function of stand-ins that leaves those that terms of a text could be taken for."""
        if (glossary := self.glossary) is None:
            return list
        forms = "\n".join(form for term in glossary.terms(text) for form in term.forms)
        return lambda pool: [word for word in pool if word not in forms and not glossary.terms(word)]


class KeepingTranslator:
    """A translator whose translations keep spans and terms.

    Args:
        translator: The translator; without a shortlist.
        kept: What translations must have.
    """

    def __init__(self, translator: Translator, kept: Kept) -> None:
        if kept.only_suggests and not translator.config.data.annotate_terms:
            raise UsageError(
                "suggest_terms: this model has not learned to use suggestions, as prepare annotate_terms "
                "teaches it; leave it out",
                settings=["suggest_terms", "annotate_terms"],
            )
        self._translator, self._kept = translator, kept
        self._aligns = translator.engine.aligns

    @classmethod
    def of(
        cls,
        translator: Translator,
        *,
        keep: bool = False,
        keep_patterns: Sequence[str] = (),
        glossary: Path | None = None,
        memory: Path | None = None,
        suggest_terms: bool = False,
    ) -> Self:
        """Make a translator that keeps placeholders and the like, and what files say.

        Args:
            translator: The translator; without a shortlist.
            keep: Whether to keep every kind of span that `data.spans` knows.
            keep_patterns: Regular expressions of further spans.
            glossary: File of terms; see `Glossary.read`.
            memory: Translation memory, a TMX file.
            suggest_terms: Whether terms are only suggested to a model that was prepared with
                `annotate_terms`.

        Raises:
            UsageError: A pattern is not usable, the model does not say the languages of a memory, or it has
                not learned from suggestions.
            DataError: A file is not usable.
        """
        data = translator.config.data
        spans = Spans(keep_patterns, KINDS if keep else {}) if keep or keep_patterns else None
        languages = data.source_language, data.target_language
        terms = Glossary.read(glossary) if glossary else None
        known = TranslationMemory.read(memory, *languages) if memory else None
        return cls(translator, Kept(spans, terms, known, suggest_terms))

    def translate(self, texts: Iterable[str], **options: Any) -> list[Translation]:
        """The best translation of each text, in order; see `Translator.translate`."""
        return [best for best, *_ in self.stream(texts, **options)]

    def with_spans(self) -> "KeepingTranslator":
        """The same, keeping spans of all kinds, too."""
        spans = self._kept.spans.of_all_kinds() if self._kept.spans else Spans()
        return KeepingTranslator(self._translator, replace(self._kept, spans=spans))

    @property
    def aligns(self) -> bool:
        """Whether words can be aligned."""
        return self._aligns

    @property
    def config(self) -> RunConfig:
        """The configuration of the model."""
        return self._translator.config

    def stream(
        self, texts: Iterable[str], *, tell: Callable[[str], object] = lambda _: None, **options: Any
    ) -> Iterator[list[Translation]]:
        """The translations of each text, best first; see `Translator.stream`.

        Args:
            texts: Texts.
            tell: Called with each message about what a translation lacks.
            **options: See `Translator.stream`.
        """
        requests = map(TranslationRequest, count(1), texts)
        for answer in require_all(self.answer(requests, **options), "text"):
            for each in answer.notices:
                tell(each)
            yield answer.result

    def answer(
        self, requests: Iterable[TranslationRequest | Failure], **options: Any
    ) -> Iterator[Answer[list[Translation]] | Failure]:
        """An answer or a failure for each request, in order and in constant memory, as `Translator.answer`.

        The pieces of a translation are those with stand-ins for its spans.

        Raises:
            UsageError: Samples are drawn.
        """
        asked = {name: value for name, value in options.items() if name != "n_best"}
        _, search = configured(asked, self._translator.config.search)
        if (search.sampling or search.mbr) and self._kept != Kept():
            raise UsageError(
                "spans and terms are kept by search only; leave out sampling and mbr",
                settings=["sampling", "mbr"],
            )
        remaining = iter(requests)
        while window := list(islice(remaining, _WINDOW)):
            yield from self._answered(window, options)

    def _answered(
        self, requests: list[TranslationRequest | Failure], options: dict[str, Any]
    ) -> list[Answer[list[Translation]] | Failure]:
        """The answers, by attempts at all texts at a time."""
        answers = dict[int, Answer[list[Translation]] | Failure]()
        splits = bool(options.get("split_sentences"))
        running = dict[int, tuple[Attempts, Attempt]]()
        notices = dict[int, tuple[str, ...]]()

        def go_on(place: int, attempts: Attempts, found: list[Translation] | None) -> None:
            if isinstance(outcome := next_step(attempts, found), Attempt):
                running[place] = attempts, outcome
            else:
                told = notices.get(place, ()) + outcome.notices
                result = outcome.translations
                if not options.get("alignments"):
                    result = [replace(each, alignment=None, links=None) for each in result]
                answers[place] = Answer(requests[place].id, result, told)

        to_do = dict[int, TranslationRequest]()
        for place, request in enumerate(requests):
            if isinstance(request, Failure):
                answers[place] = request
            elif self._is_of_others(request):
                message = f"to {request.to!r}: glossary and memory are of another language; leave them out"
                answers[place] = Failure(request.id, DataError(message, label=NO_LANGUAGE))
            else:
                to_do[place] = request
                go_on(place, self.attempts(request.text, split_sentences=splits), None)
        while running:
            now = [*running.items()]
            running.clear()
            for is_first in (True, False):
                chosen = [(place, *each) for place, each in now if each[1].is_repair != is_first]
                asked = (
                    replace(to_do[place], text=attempt.text, required=attempt.required)
                    for place, _, attempt in chosen
                )
                found = self._translator.answer(asked, **(options if is_first else self.for_repair(options)))
                for (place, attempts, _), answer in zip(chosen, found, strict=True):
                    if isinstance(answer, Failure):
                        answers[place] = answer
                    else:
                        notices.setdefault(place, answer.notices)
                        go_on(place, attempts, answer.result)
        return [answers[place] for place in range(len(requests))]

    def _is_of_others(self, request: TranslationRequest) -> bool:
        """Whether a request wants another language than that of glossary and memory."""
        has_one = bool(request.to and (self._kept.glossary or self._kept.memory))
        return has_one and distance(request.to, self._translator.config.data.target_language) is None

    def attempts(self, text: str, *, split_sentences: bool) -> Attempts:
        """The attempts at a text; whoever runs them sends the translations of each."""
        divided = split_sentences and not text.startswith(">>")  # the symbol of a language is for all of it
        language = self._translator.config.data.source_language if divided else None
        data = self._translator.config.data
        return self._kept.attempts(text, language, aligns=self._aligns, data=data)

    def for_repair(self, options: Mapping[str, Any]) -> dict[str, Any]:
        """The options of an attempt that is a repair, instead of those of the first."""
        own = options.get("beam_size") or self._translator.config.search.beam_size
        repair = {"beam_size": max(own, _BEAM_SIZE), "blockwise": False, "alignments": self._aligns}
        return {name: value for name, value in options.items() if name not in OF_BLOCKS} | repair
