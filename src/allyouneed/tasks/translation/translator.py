"""Translates raw text to raw text (paper 5 and 6.1)."""

import copy
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from functools import cache, partial
from itertools import count, repeat
from typing import TYPE_CHECKING, Literal, TypeVar, Unpack

from allyouneed.config.run import (
    DecodingPrecision,
    LengthNormalization,
    RunConfig,
    SearchConfig,
    SearchSettings,
)
from allyouneed.config.settings import require_counts, takes
from allyouneed.data.sentences import lost_sentences
from allyouneed.data.tokenizer import Tokenizer
from allyouneed.data.words import has_letters
from allyouneed.errors import DataError, UsageError
from allyouneed.inference.beams import Hypothesis
from allyouneed.inference.engine_choice import build_engines
from allyouneed.inference.generate import carry_out, generate
from allyouneed.inference.scheduler import Job, Scheduler, Source
from allyouneed.inference.search_plan import Batching, SearchPlan
from allyouneed.inference.stored_model import Model
from allyouneed.inference.vocabulary_shortlist import Shortlist
from allyouneed.tasks.requests import (
    Answer,
    Failure,
    RequiredTerm,
    ScoreRequest,
    TranslateConfig,
    TranslateOptions,
    TranslationRequest,
    check_n_best,
    configured,
    encoded_or_failure,
    require_all,
    require_one_each,
)
from allyouneed.tasks.translation.outputs import TranslatedText, Translation, TranslationMaker, followed
from allyouneed.tasks.translation.pair_scores import PairScore, answer_pairs, encode_pair
from allyouneed.tasks.translation.text_encoder import NO_LANGUAGE, TextEncoder

if TYPE_CHECKING:
    from allyouneed.markup.dialect import Dialect
    from allyouneed.tasks.attention_maps import Attention

Result = TypeVar("Result")


class Translator:
    """Translates with a model or an ensemble. Made by `load`.

    Args:
        model: Model on its device, or several models with the same vocabularies.
        config: Configuration of the run of the (first) model; `config.search` has the defaults of calls.
        source_tokenizer: Tokeniser of the texts to translate.
        target_tokenizer: Tokeniser of the translations.
        precision: Precision of the matrix products of decoding: float32, bfloat16 or int8.
        threads: Number of threads per matrix product (CPU only).
        shortlist: Tokens that translations may contain.
    """

    def __init__(
        self,
        model: "Model | Sequence[Model]",
        config: RunConfig,
        source_tokenizer: Tokenizer,
        target_tokenizer: Tokenizer,
        *,
        precision: DecodingPrecision = "float32",
        threads: int = 1,
        shortlist: Shortlist | None = None,
    ) -> None:
        self.config = config
        models = model if isinstance(model, Sequence) else [model]
        self.engine, self._workers = build_engines(models, precision, threads, shortlist)
        """The engine, or the ensemble, that decodes."""
        units, limit = (source_tokenizer, target_tokenizer), self.engine.max_positions
        self._source_tokenizer, self._target_tokenizer = units
        self._encoder = TextEncoder(*units, config.data, limit, takes_prefixes=shortlist is None)

    @property
    def languages(self) -> list[str]:
        """Codes of the languages that a model of several can write, as its symbols spell them; else none."""
        return [symbol[2:-2] for symbol in self._source_tokenizer.languages]

    @property
    def tokenizers(self) -> tuple[Tokenizer, Tokenizer]:
        """The sub-words of sources and of targets."""
        return self._source_tokenizer, self._target_tokenizer

    def into(self, language: str, source: str = "") -> "Translator":
        """This translator, writing one language of its model; symbols such as `>>fra<<` are then text.

        Args:
            language: Code of the language, in any spelling: "fr" finds `>>fra<<`.
            source: Code of the source language, whose rules split texts into sentences, if it is known;
                models such as M2M-100 and NLLB must be told it.

        Raises:
            UsageError: The model does not know one of the languages, or must be told the source language.
        """
        told = copy.copy(self)
        told._encoder = self._encoder.into(language, source)
        told.config = self.config.replace(data=told._encoder.data)
        return told

    @takes(TranslateConfig, SearchConfig)
    def translate(
        self,
        texts: Sequence[str],
        *,
        to: str | None = None,
        source: str = "",
        markup: "str | Dialect | None" = None,
        **options: Unpack[TranslateOptions],
    ) -> list[Translation]:
        """The best translation of each text, in order.

        Args:
            texts: Texts of one sentence each, or of any number with `split_sentences=True`, which keeps the
                white space around sentences. The translation of a blank text is the text itself with
                `split_sentences`, else empty. Sentences without letters, such as "---" and "10:30", stay as
                they are.
            to: Code of the language to write, for a model of several (see `into`).
            source: With `to`, the code of the language of the texts.
            markup: "html" or "xml" if each text is a document, or a part of one, whose tags are to be kept
                (docs/markup.md).
            **options: See below.

        Raises:
            DataError: A text is not Unicode, or too long and not to be split, or does not say which language
                to write; the message gives its number. Or XML is not well-formed.
            UsageError: An option is unknown, out of range, or has no effect.
            TypeError: `texts` is a single string.
        """
        told = self.into(to, source) if to else self
        if markup:
            from allyouneed.tasks.translation.marked_documents import translate_documents

            return translate_documents(told.stream, told.engine.aligns, texts, markup, **options)
        return [translations[0] for translations in told.stream(texts, **options)]

    @takes(TranslateConfig, SearchConfig)
    def stream(
        self, texts: Iterable[str], *, n_best: int = 1, **options: Unpack[TranslateOptions]
    ) -> Iterator[list[Translation]]:
        """Up to `n_best` translations of each text, in order and in constant memory.

        Translations are sorted best first. With `sampling`, samples come in the order they were drawn.

        Args:
            texts: Texts as for `translate`; read ahead to sort them by length.
            n_best: Maximum number of translations per text.
            **options: See below.

        Raises:
            DataError: See `translate`.
            UsageError: An option is unknown, out of range, or has no effect.
            TypeError: `texts` is a single string.
        """
        if isinstance(texts, str):
            raise TypeError("a single text; put it in a list: [text]")
        config, search = configured(options, self.config.search)
        requests = map(TranslationRequest, count(1), texts)
        jobs = require_all(self._jobs(requests, config, search, n_best), "text")
        answers: Iterator[Answer[list[Translation]]] = self._carried_out(jobs, config, search, n_best)
        return (answer.result for answer in answers)

    @takes(TranslateConfig, SearchConfig)
    def answer(
        self,
        requests: Iterable[TranslationRequest | Failure],
        *,
        n_best: int = 1,
        **options: Unpack[TranslateOptions],
    ) -> Iterator[Answer[list[Translation]] | Failure]:
        """An answer or a failure for each request, in order and in constant memory.

        An answer has up to `n_best` translations, in the order of `stream`, and a notice for each part of the
        text that was split because it is too long. Several threads may call this method at the same time.

        Args:
            requests: Requests, read ahead to sort them by length; failures are passed on.
            n_best: Maximum number of translations per text.
            **options: See below.

        Raises:
            UsageError: An option is unknown, out of range, or has no effect.
        """
        config, search = configured(options, self.config.search)
        jobs = self._jobs(requests, config, search, n_best)
        return self._carried_out(jobs, config, search, n_best)

    def submit(
        self,
        scheduler: Scheduler,
        text: str,
        *,
        prefix: str | Sequence[int] = "",
        required: Sequence[RequiredTerm] = (),
        n_best: int = 1,
        deadline: float | None = None,
        tell: Callable[[str], None] | None = None,
        **options: Unpack[TranslateOptions],
    ) -> Future[TranslatedText]:
        """Queue the translation of a text of any number of lines; line breaks are kept.

        Args:
            scheduler: The queue, whose limits hold for batches. It runs inside `translator.engine.ready()`.
            text: A text; each line is translated as `answer` translates a text.
            prefix: Whole words, or token ids, that the translation begins with.
            required: Terms that the translation must have.
            n_best: Maximum number of translations.
            deadline: Value of `time.monotonic()` after which the translation fails with `TimeoutError`.
            tell: Called by a worker with the beginning of the translation that can no longer change, whenever
                it has become longer; never with sampling, `mbr` or a coverage penalty.
            **options: See `answer`.

        Returns:
            The future of the translations; it can be cancelled until it is done.

        Raises:
            DataError: The text is not Unicode, or too long and not to be split.
            UsageError: See `answer`.
        """
        config, search = configured(options, self.config.search)
        check_n_best(n_best, search.mbr)
        encoder, maker = self._encoder, self._maker(search, n_best)
        divided = encoder.divide_lines(text, config)
        ids = encoder.prefix(prefix) if isinstance(prefix, str) else prefix
        job = Job(encoder.sources(divided, ids, required), partial(maker.whole, divided))
        is_certain = not (search.sampling or search.mbr or search.coverage_penalty)  # before the end
        watch = maker.watch(divided, tell) if tell and is_certain else None
        return scheduler.submit(self._plan(search, n_best), job, deadline=deadline, watch=watch)

    def continuations(
        self, scheduler: Scheduler, text: str, prefix: str, num: int, *, deadline: float | None = None
    ) -> Future[list[list[int]]]:
        """Queue the search for the likeliest next tokens of a translation.

        Args:
            scheduler, deadline: See `submit`.
            text: A sentence.
            prefix: Whole words that the translation begins with.
            num: Maximum number of next tokens.

        Returns:
            The future of the prefix's ids with each next token, the likeliest first, as prefixes for
            `submit`; tokens with a probability of less than 0.001 are left out.

        Raises:
            DataError: The text or the prefix is not Unicode, or too long.
        """
        source, ids = self._encoder.source(text), [*self._encoder.begin, *self._encoder.prefix(prefix)]
        if not has_letters(self._encoder.own_text(text)):
            source = []  # it stays as it is

        options = {"beam_size": num, "max_length": len(ids) + 1, "min_length": 0, "early_stopping": False}
        others = {"sampling": False, "mbr": None, "coverage_penalty": 0.0, "alignments": False}
        search = self.config.search.replace(**options, **others, blockwise=False)
        likely = partial(self._maker(search, num).continuations, num_written=len(ids))
        job = Job([Source(source, ids, len(self._encoder.begin))], likely)
        return scheduler.submit(SearchPlan(self.engine, search, num), job, deadline=deadline)

    def lost_sentences(
        self, text: str, translation: str, *, too_long: Literal["split", "error"] = "split"
    ) -> str | None:
        """A message if a translation, not made with `split_sentences`, has fewer sentences than its text.

        Args:
            text: A text.
            translation: Its translation.
            too_long: As when it was translated.
        """
        data, most = self.config.data, self._encoder.max_tokens
        message = lost_sentences(text, translation, data.source_language, data.target_language)
        most = min(most, data.max_tokens) if too_long == "split" else most
        return message if message and len(self._source_tokenizer.encode(text)) <= most else None

    def follow(self, text: str, **search: Unpack[SearchSettings]) -> Iterator[str]:
        """Prefixes of the translation as they become certain, each longer, and finally the whole translation.

        Args:
            text: A sentence.
            **search: Settings of `SearchConfig`; by default those of the model, but for sampling.

        Raises:
            DataError: The text is too long, or not Unicode.
            UsageError: A setting is out of range, or samples are drawn, or a coverage penalty is set.
        """
        options = {"sampling": False, "too_long": "error", **search}
        config, decoding = configured(options, self.config.search)
        if decoding.sampling or decoding.coverage_penalty:
            raise UsageError("an output cannot be followed with sampling or coverage_penalty; leave it out")
        divided, maker, told = self._encoder.divide(text, config), self._maker(decoding, 1), [""]
        scheduler = Scheduler(Batching())
        job = Job(self._encoder.sources(divided), partial(maker.translations, divided))
        future = scheduler.submit(self._plan(decoding, 1), job, watch=maker.watch(divided, told.append))
        return followed(scheduler, self.engine.ready, future, told)

    def encode(self, text: str) -> list[int]:
        """Encode a source; a blank text has no ids.

        Raises:
            DataError: The text is too long, or not Unicode.
        """
        return self._encoder.source(text)

    def score(
        self,
        sources: Sequence[str],
        targets: Sequence[str],
        *,
        workers: int | None = None,
        length_penalty: float | None = None,
        length_normalization: LengthNormalization | None = None,
    ) -> list[PairScore]:
        """Score each target as the translation of its source, in order.

        Args:
            sources, targets: Source sentences, and a translation of each.
            workers: Number of batches computed at the same time; by default one per core.
            length_penalty, length_normalization: The length penalty; by default the model's.

        Raises:
            DataError: A sentence is too long, or not Unicode, or the numbers of sources and targets differ.
            UsageError: A setting is out of range.
        """
        require_one_each("sources", sources, "targets", targets)
        answers = self.answer_pairs(
            map(ScoreRequest, count(1), sources, targets),
            workers=workers,
            length_penalty=length_penalty,
            length_normalization=length_normalization,
        )
        return [answer.result for answer in require_all(answers, "pair")]

    def answer_pairs(
        self,
        requests: Iterable[ScoreRequest | Failure],
        *,
        workers: int | None = None,
        length_penalty: float | None = None,
        length_normalization: LengthNormalization | None = None,
    ) -> Iterator[Answer[PairScore] | Failure]:
        """The score of each pair of a source and a target, or a failure, in order and in constant memory.

        Args:
            requests: Pairs, read some thousands ahead; failures are passed on.
            workers, length_penalty, length_normalization: As for `score`, also for what is raised.
        """
        require_counts(workers=workers)
        options = SearchSettings(length_penalty=length_penalty, length_normalization=length_normalization)
        _, search = configured(options, self.config.search)
        encode = partial(encoded_or_failure, partial(encode_pair, self.encode, self._encoder.target))
        tokenizer, pairs = self._target_tokenizer, map(encode, requests)
        keywords = {"workers": workers or self._workers, "num_given": len(self._encoder.begin)}
        return answer_pairs(self.engine, pairs, tokenizer, search, **keywords)

    def negative_log_likelihood(self, sources: Sequence[str], targets: Sequence[str]) -> tuple[float, int]:
        """The loss in nats, summed over all target tokens with end symbols, and the number of tokens."""
        scores = self.score(sources, targets)
        return -sum(score.log_prob for score in scores), sum(len(score.tokens) for score in scores)

    def attention(self, text: str, target: str | None = None, *, for_page: bool = False) -> "Attention":
        """The attention weights for translating `text` into `target`, by default the model's translation.

        Args:
            text: A sentence.
            target: Its translation.
            for_page: Whether to refuse, before they are computed, more weights than a page holds.

        Raises:
            UsageError: The translator is an ensemble.
            DataError: A sentence is too long, or not Unicode.
        """
        return next(self.attentions([text], None if target is None else [target], for_page=for_page))

    def attentions(
        self, texts: Sequence[str], targets: Sequence[str] | None = None, *, for_page: bool = False
    ) -> "Iterator[Attention]":
        """The attention weights of each text; all texts are translated first, in batches.

        Args:
            texts: Sentences.
            targets: One translation per text; by default the model's own.
            for_page: See `attention`, also for what is raised.
        """
        from allyouneed.inference.attention_weights import only_model
        from allyouneed.tasks.attention_maps import attentions_of

        model = only_model(self.engine.models)
        if targets is not None:
            require_one_each("texts", texts, "targets", targets)
        sources = [self.encode(text) for text in texts]
        if targets is None:
            batching = Batching(workers=self._workers)
            begin, run = self._encoder.begin, partial(generate, self.engine, batching=batching)
            found = run(sources, self.config.search, prefixes=repeat(begin), num_given=len(begin))
            written = [hypotheses[0].ids[: self._encoder.max_tokens] for hypotheses in found]
        else:
            written = [self._encoder.target(target) for target in targets]
        yield from attentions_of(model, sources, written, self.tokenizers, self.config, for_page=for_page)

    def _maker(self, search: SearchConfig, n_best: int) -> TranslationMaker:
        language, begin = self.config.data.target_language, self._encoder.begin
        return TranslationMaker(*self.tokenizers, language, search, n_best, begin)

    def _plan(self, search: SearchConfig, n_best: int) -> SearchPlan:
        return SearchPlan(self.engine, search, search.mbr or n_best)

    def _jobs(
        self,
        requests: Iterable[TranslationRequest | Failure],
        config: TranslateConfig,
        search: SearchConfig,
        n_best: int,
    ) -> Iterator[Job[Answer[list[Translation]]] | Failure]:
        @cache
        def told(to: str, source: str) -> tuple[TextEncoder, TranslationMaker]:
            language = to or (source and self.config.data.target_language)
            try:
                translator = self.into(language, source) if language else self
            except UsageError as error:
                raise DataError(error.messages[0], label=NO_LANGUAGE) from None
            return translator._encoder, translator._maker(search, n_best)

        def encode(request: TranslationRequest) -> Job[Answer[list[Translation]]]:
            encoder, maker = told(request.to, request.source)
            divided = encoder.divide(request.text, config)

            def join(found: list[list[Hypothesis]]) -> Answer[list[Translation]]:
                return Answer(request.id, maker.translations(divided, found), divided.notices)

            return Job(encoder.sources(divided, encoder.prefix(request.prefix), request.required), join)

        return map(partial(encoded_or_failure, encode), requests)

    def _carried_out(
        self, jobs: Iterable[Job[Result] | Result], config: TranslateConfig, search: SearchConfig, n_best: int
    ) -> Iterator[Result]:
        check_n_best(n_best, search.mbr)
        batching = Batching(config.batch_tokens, config.batch_size, config.workers or self._workers)
        return carry_out(self._plan(search, n_best), jobs, batching)
