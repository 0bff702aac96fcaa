"""Translation, parsing and attention for all protocols, with bounds, deadlines and cancellation."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial, reduce
from itertools import chain
from typing import Any, TypeVar, cast

from allyouneed.config.run import SearchSettings
from allyouneed.data.frame_format import frames_in
from allyouneed.data.language_names import language_name
from allyouneed.data.languages import Detector
from allyouneed.data.prose import not_prose_in
from allyouneed.data.spans import Spans
from allyouneed.data.vectors import Vectors
from allyouneed.explorer.page import pack_weights
from allyouneed.inference.scheduler import Scheduler
from allyouneed.markup.marks import Links, composed
from allyouneed.serve.access import ServerSettings
from allyouneed.serve.awaiting import Admission, WorkThread, all_of, raising_refusals, submitted
from allyouneed.serve.directions import (
    AUTO,
    Direction,
    Route,
    Router,
    directions_of,
    sources_of,
    targets_of,
)
from allyouneed.serve.documents import Documents
from allyouneed.serve.exchanges import current
from allyouneed.serve.glossaries import GlossaryFolder
from allyouneed.serve.models import ServedModel
from allyouneed.serve.prometheus import Metrics
from allyouneed.serve.refusals import Refusal
from allyouneed.serve.request_options import MOST_BEAMS, MOST_TEXTS, RequestOptions, Translated, unchanged
from allyouneed.tasks.frames.transcriber import Transcriber
from allyouneed.tasks.parsing.parser import Parse, Parser
from allyouneed.tasks.requests import TranslateOptions
from allyouneed.tasks.translation.outputs import Segment, TranslatedText, Translation
from allyouneed.tasks.translation.translator import Translator
from allyouneed.terms.keeping import Attempt, KeepingTranslator, Kept, next_step

Result = TypeVar("Result")
WhenQueued = Callable[[], object]
"""Called when a text is in the queue, once or more."""

_CHARACTERS_PER_TOKEN = 4
_ALTERNATIVES = 8
"""Maximum number of next tokens that are tried."""
_MOST_CHARACTERS_TO_LOOK_INTO = 1_000
"""Longest text whose attention is shown: its memory grows with the square of the length."""


class Service:
    """Answers requests of all protocols; its methods raise `Refusal`.

    Cancelling the task that awaits an answer, as the server does when the client has gone, stops the work.
    Models are in order of preference; the scheduler is running, and the service does not close it.
    """

    def __init__(self, models: Sequence[ServedModel], settings: ServerSettings, scheduler: Scheduler) -> None:
        self.models: dict[str, ServedModel] = {model.name: model for model in models}
        self.settings = settings
        self.directions: Sequence[Direction] = directions_of(models)
        """Pairs of languages, those of one model first, in order of the models."""
        codes = {*sources_of(self.directions), *targets_of(self.directions)}
        self.glossaries = GlossaryFolder(settings.glossaries) if settings.glossaries else None
        """The glossaries of clients, if they can store some."""
        self.documents = Documents(self.translate_all, self.route) if settings.files else None
        """The files of clients, if they can send some."""
        self._spans = Spans() if settings.keep else None
        self.languages: Mapping[str, str] = {code: language_name(code) for code in sorted(codes)}
        """Code -> English name of all source and target languages, sorted by code."""
        self.stopping = asyncio.Event()
        self.num_unanswered_messages = 0
        """Number of messages of web sockets that have been received and not been answered."""
        self.metrics = Metrics(self.models, lambda: scheduler.num_tokens)
        self._scheduler = scheduler
        limits = settings.queue_tokens, settings.most_wait_seconds
        self._admission = Admission(*limits, scheduler.load)
        self._detector = Detector(self.languages)
        self._router = Router(self.models, self.directions, self._detector.detect)
        self._attention_thread = WorkThread()
        self._attention_admission = Admission(*limits, self._attention_thread.load)

    @property
    def is_stopping(self) -> bool:
        """Whether the server has been told to stop."""
        return self.stopping.is_set()

    @property
    def num_queued_tokens(self) -> int:
        """Number of source tokens in the queue, times the beam size."""
        return self._scheduler.num_tokens

    def detect(self, text: str) -> list[tuple[str, float]]:
        """Languages of the served models by falling probability (from 0 to 1) for a text."""
        self._require([text])
        return self._detector.detect(text)

    def route(self, text: str, target: str) -> Route:
        """The direction of a text whose source language is to be detected, and its confidence."""
        self._require([text])
        return self._router.route(text, RequestOptions(AUTO, target))

    async def translate(
        self, texts: Sequence[str], options: RequestOptions = RequestOptions()
    ) -> list[Translated]:
        """Translate texts of any number of sentences and lines; line breaks are kept."""
        if len(texts) > MOST_TEXTS:
            raise Refusal(413, "too_many_texts", f"more than {MOST_TEXTS} texts; send fewer at a time")
        return await self.translate_all(texts, options)

    async def translate_all(self, texts: Sequence[str], options: RequestOptions) -> list[Translated]:
        """Translate any number of texts, such as those between the tags of a page, in batches."""
        self._require(texts, options)
        await self._load_detector(options)
        routed = [(text, self._router.route(text, options)) for text in texts]
        beam_size = max((self._beam_size(route.direction.models, options) for _, route in routed), default=1)

        async def in_batches() -> list[Translated]:
            found: list[Translated] = []
            for batch in (routed[start : start + MOST_TEXTS] for start in range(0, len(routed), MOST_TEXTS)):
                with self._expecting([text for text, _ in batch], beam_size) as queued:
                    found += await all_of(
                        [
                            self._translated(*each, options, when)
                            for each, when in zip(batch, queued, strict=True)
                        ]
                    )
            return found

        self.require_room()
        return await self._in_time(in_batches())

    async def stream(
        self, text: str, options: RequestOptions = RequestOptions()
    ) -> AsyncIterator[str | Translated]:
        """Growing prefixes of the translation that can no longer change, and at last the whole."""
        self._require([text], options)
        await self._load_detector(options)
        route = self._router.route(text, options)
        told: asyncio.Queue[str | None] = asyncio.Queue()
        loop = asyncio.get_running_loop()

        def tell(certain: str) -> None:
            loop.call_soon_threadsafe(told.put_nowait, certain)

        self.require_room()
        with self._expecting([text], self._beam_size(route.direction.models, options)) as [when_queued]:
            made = self._translated(text, route, options, when_queued, tell)
            work = asyncio.ensure_future(self._in_time(made))
            work.add_done_callback(lambda _: told.put_nowait(None))
            try:
                while (certain := await told.get()) is not None:
                    yield certain
                yield await work
            finally:
                work.cancel()

    async def alternatives(self, text: str, options: RequestOptions) -> list[Translation]:
        """Translations of a sentence that go on differently after `options.prefix`, the likeliest first."""
        self._require([text], options)
        if "\n" in text:
            raise Refusal(
                422, "several_lines", "alternatives are for one sentence; send it without line breaks"
            )
        await self._load_detector(options)
        direction = self._router.route(text, options).direction
        if not direction.models:
            return unchanged(text, "").translations
        [*before, name] = direction.models
        # Once, as the model may be replaced meanwhile, by one with other ids.
        last = self._translator(name, direction)

        async def seek(when_queued: WhenQueued) -> list[TranslatedText]:
            steps = await self._steps(before, text, options, when_queued)
            passed = steps[-1].translations[0].text if steps else text
            seek_next = partial(last.continuations, self._scheduler, passed, options.prefix)
            submit = partial(seek_next, _ALTERNATIVES, deadline=self._deadline())
            begun = await submitted(submit, len(passed), when_queued)
            asked = replace(options, alignments=options.alignments and not before, n_best=1)
            return await all_of([self._step(last, passed, asked, prefix=ids) for ids in begun])

        self.require_room()
        with self._expecting([text], _ALTERNATIVES * self._beam_size([name], options)) as [when_queued]:
            found = await self._in_time(seek(when_queued))
        return [each.translations[0] for each in found]

    async def parse(self, sentences: Sequence[str], model: str | None = None) -> list[Parse]:
        """Parse sentences with the named model, by default the first parser."""
        if len(sentences) > MOST_TEXTS:
            raise Refusal(413, "too_many_texts", f"more than {MOST_TEXTS} texts; send fewer at a time")
        self._require(sentences)
        parser = self._parser(model)
        submit = partial(parser.submit, self._scheduler, deadline=self._deadline())
        self.require_room()
        with self._expecting(sentences, parser.config.search.beam_size) as queued:
            parsing = [
                submitted(partial(submit, each), len(each), when)
                for each, when in zip(sentences, queued, strict=True)
            ]
            return await self._in_time(all_of(parsing))

    async def transcribe(self, content: bytes, ending: str) -> Translation:
        """Transcribe a file of frames or speech with the first transcriber, given the ending of its name."""
        transcriber = self._transcriber()
        self.require_room()

        def read() -> Vectors:
            return transcriber.encode(frames_in(content, ending))

        frames = await asyncio.to_thread(raising_refusals(read))
        submit = partial(transcriber.submit, self._scheduler, frames, deadline=self._deadline())
        with self._admission.expecting([len(frames) * transcriber.config.search.beam_size]) as [when_queued]:
            return await self._in_time(submitted(submit, 0, when_queued))

    async def attention(
        self, text: str, translation: str | None, options: RequestOptions = RequestOptions()
    ) -> dict[str, Any]:
        """The document of the explorer (`explorer.page.pack_weights`) for a text of one sentence.

        The translation (if the model is a parser, the tree in brackets) is by default the model's own.
        """
        self._require([text, translation or ""], options)
        if max(len(text), len(translation or "")) > _MOST_CHARACTERS_TO_LOOK_INTO:
            longest = f"{_MOST_CHARACTERS_TO_LOOK_INTO:,}"
            raise Refusal(
                413, "too_long", f"attention is shown for {longest} characters at most; send a sentence"
            )
        await self._load_detector(options)
        looking = self._model_to_look_into(text, options)

        def look() -> dict[str, Any]:
            return pack_weights(looking.attention(text, translation, for_page=True).document())

        self._attention_admission.require_room()
        current().admit()
        return await self._in_time(self._attention_thread.run(look))

    def search_for(self, n_best: int, names: Sequence[str]) -> SearchSettings:
        """The models' own settings of the search, but for a beam without room for `n_best` translations."""
        beam_sizes = [self.models[name].loaded.config.search.beam_size for name in names]
        is_enough = all(beam_size >= n_best for beam_size in beam_sizes)
        return SearchSettings() if is_enough else SearchSettings(beam_size=n_best)

    def require_room(self) -> None:
        """Admit the request, or refuse it (429) as any would be now."""
        self._admission.require_room()
        current().admit()

    @property
    def is_idle(self) -> bool:
        """Whether nothing is queued, and no message of a web socket waits for its answer."""
        return not self._scheduler.num_tokens and not self.num_unanswered_messages

    async def _translated(
        self,
        text: str,
        route: Route,
        options: RequestOptions,
        when_queued: WhenQueued,
        tell: Callable[[str], None] | None = None,
    ) -> Translated:
        """Translate a text, with one model after the other where several are needed."""
        direction = route.direction
        if not direction.models:
            when_queued()
            return unchanged(text, direction.target, route.confidence)
        *before, last = direction.models
        steps = await self._steps(before, text, options, when_queued)
        passed = steps[-1].translations[0].text if steps else text
        # after others, no alignments, as they would not be with the text
        asked = replace(options, alignments=options.alignments and not before)
        made = await self._step(self._translator(last, direction), passed, asked, when_queued, tell)
        steps.append(made)
        if options.links and before:
            links = [step.translations[0].links for step in steps]
            across = None if None in links else [*reduce(composed, cast(list[Links], links))]
            made.translations[0] = replace(made.translations[0], links=across)
        not_prose = not_prose_in(self._spans.without(text) if self._spans else text)
        told = [f"the text {not_prose}, which is translated as words"] if not_prose else []
        found = Translated(
            made.translations,
            direction.source,
            direction.target,
            direction.models,
            made.segments,
            (next(filter(None, (each.num_tokens[0] for each in steps)), 0), made.num_tokens[1]),
            route.confidence,
            tuple(chain(told, *(each.notices for each in steps))),
        )
        self.metrics.translated(found, len(text))
        return found

    async def _steps(
        self, names: Sequence[str], text: str, options: RequestOptions, when_queued: WhenQueued
    ) -> list[TranslatedText]:
        """The translations by these models, each of the translation by the one before."""
        made: list[TranslatedText] = []
        for name in names:
            asked = RequestOptions(search=options.search, links=options.links, keep=options.keep)
            made.append(await self._step(self._translator(name), text, asked, when_queued))
            text = made[-1].translations[0].text
        return made

    async def _step(
        self,
        translator: Translator,
        text: str,
        options: RequestOptions,
        when_queued: WhenQueued = lambda: None,
        tell: Callable[[str], None] | None = None,
        prefix: Sequence[int] | None = None,
    ) -> TranslatedText:
        if prefix is None and not options.prefix and (self._spans or options.glossary or options.keep):
            return await self._kept_step(translator, text, options, when_queued)
        aligns = (options.alignments or options.links) and translator.engine.aligns
        keywords = {**options.search, "alignments": aligns, "split_sentences": prefix is None}
        submit = partial(
            translator.submit,
            self._scheduler,
            text,
            prefix=options.prefix if prefix is None else prefix,
            n_best=options.n_best,
            deadline=self._deadline(),
            tell=tell,
            **cast(TranslateOptions, keywords),
        )
        return await submitted(submit, len(text), when_queued)

    async def _kept_step(
        self, translator: Translator, text: str, options: RequestOptions, when_queued: WhenQueued
    ) -> TranslatedText:
        """Translate a text, in several attempts where it has spans or terms to be kept."""
        spans = self._spans or (Spans() if options.keep else None)
        keeping = KeepingTranslator(translator, Kept(spans, options.glossary))
        attempts, made = keeping.attempts(text, split_sentences=True), list[TranslatedText]()
        aligns = (options.alignments or options.links) and translator.engine.aligns
        outcome = await asyncio.to_thread(next_step, attempts, None)
        while isinstance(outcome, Attempt):
            keywords = {**options.search, "alignments": aligns, "split_sentences": True}
            keywords |= keeping.for_repair(keywords) if outcome.is_repair else {}
            submit = partial(
                translator.submit,
                self._scheduler,
                outcome.text,
                required=outcome.required,
                n_best=options.n_best,
                deadline=self._deadline(),
                **cast(TranslateOptions, keywords),
            )
            made.append(await submitted(submit, len(text), when_queued))
            outcome = await asyncio.to_thread(next_step, attempts, made[-1].translations)
        when_queued()
        if made and outcome.is_untouched:
            return made[-1]
        segments = [Segment(text, outcome.translations[0].text, "")]
        notices = (made[0].notices if made else ()) + outcome.notices
        return TranslatedText(
            outcome.translations, segments, notices, made[-1].num_tokens if made else (0, 0)
        )

    async def _load_detector(self, options: RequestOptions) -> None:
        """Load the detector's model, which takes a second, before the event loop would have to."""
        if options.source == AUTO:
            await asyncio.to_thread(self._detector.load)

    def _translator(self, name: str, direction: Direction | None = None) -> Translator:
        """The model of a name, told the direction if it is one of any two languages."""
        model = self.models[name]
        assert isinstance(model.loaded, Translator)
        if direction is None or not model.languages:
            return model.loaded
        return model.loaded.into(direction.target, direction.source)

    def _parser(self, name: str | None) -> Parser:
        for model in self.models.values():
            if isinstance(model.loaded, Parser) and name in (None, model.name):
                current().note("", "", (model.name,))
                return model.loaded
        raise Refusal(404, "no_model", "no such parser; GET /api/models lists the models")

    def _transcriber(self) -> Transcriber:
        for model in self.models.values():
            if isinstance(model.loaded, Transcriber):
                current().note("", "", (model.name,))
                return model.loaded
        raise Refusal(404, "no_model", "no model of frames; GET /api/models lists the models")

    def _model_to_look_into(self, text: str, options: RequestOptions) -> Translator | Parser:
        named = self.models.get(options.model or "")
        if named is not None and not named.languages:
            if isinstance(named.loaded, Transcriber):  # a text is no path on this machine
                raise Refusal(422, "no_text", "the model reads frames; its attention is shown of texts only")
            current().note(named.source, named.target, (named.name,))
            return named.loaded
        direction = self._router.route(text, options).direction
        if len(direction.models) != 1:
            raise Refusal(
                422, "several_models", "only the attention of a single model can be shown; name one"
            )
        return self._translator(direction.models[0], direction)

    def _beam_size(self, names: Sequence[str], options: RequestOptions) -> int:
        own = self.models[names[0]].loaded.config.search.beam_size if names else 1
        return options.search.get("beam_size") or own

    def _deadline(self) -> float:
        return time.monotonic() + self.settings.request_seconds

    def _require(self, texts: Sequence[str], options: RequestOptions = RequestOptions()) -> None:
        """Refuse requests beyond the limits."""
        current().num_pending = sum(map(len, texts))
        longest = max(self.settings.most_characters, options.most_characters)
        if max(map(len, [*texts, options.prefix]), default=0) > longest:
            raise Refusal(413, "too_long", f"a text has more than {longest:,} characters; divide it")
        beams = max(options.n_best, options.search.get("beam_size") or 1)
        if not 1 <= beams <= MOST_BEAMS:
            raise Refusal(422, "out_of_range", f"n_best and beam_size are from 1 to {MOST_BEAMS}")

    def _expecting(
        self, texts: Sequence[str], beam_size: int
    ) -> contextlib.AbstractContextManager[Sequence[WhenQueued]]:
        return self._admission.expecting(
            [(1 + len(text) // _CHARACTERS_PER_TOKEN) * beam_size for text in texts]
        )

    async def _in_time(self, work: Awaitable[Result]) -> Result:
        try:
            async with asyncio.timeout(self.settings.request_seconds):
                return await work
        except TimeoutError:
            seconds = f"{self.settings.request_seconds:g}"
            raise Refusal(504, "deadline", f"not done within {seconds} s; send less text") from None
