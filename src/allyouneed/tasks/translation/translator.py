"""Task 1, translation (paper 5 and 6.1): raw text in, raw text out."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice, repeat, tee
from typing import Any, Literal

from allyouneed.config.bounds import require_counts
from allyouneed.config.run import RunConfig, SearchConfig
from allyouneed.data.lines import is_blank
from allyouneed.data.sentences import Divider, LostSentences, each_part, each_prefix, too_long_error
from allyouneed.data.tokenizer import Tokenizer
from allyouneed.errors import DataError, UsageError
from allyouneed.inference.alignment import align_words
from allyouneed.inference.attention_capture import capture_attention, only_model
from allyouneed.inference.beams import Hypothesis
from allyouneed.inference.engine_choice import build_engines
from allyouneed.inference.generate import Batching, follow, generate
from allyouneed.inference.shortlist import Shortlist
from allyouneed.model import EncoderDecoder
from allyouneed.tasks.attention import Attention, Pieces, look_into
from allyouneed.tasks.translation.outputs import Part, Translation, join_parts, least_risk
from allyouneed.tasks.translation.pair_scores import PairScore, encode_pairs, stream_scores

MAX_TOKENS = 1_024
"""A longer text is translated in parts, or refused: the cost grows with the square of the length."""

_IDLE = {True: ("beam_size",), False: ("temperature", "top_k", "top_p", "seed")}
"""Whether outputs are drawn -> what then has no effect."""


class Translator:
    """A model, or several as one, with their tokenisers; made by `load`.

    Args:
        model: The model, wherever it is to compute, or several of the same vocabularies.
        config: Of its run, or the first one's; `config.search` is used where a call does not say otherwise.
        source_tokenizer: Of the texts to translate.
        target_tokenizer: Of the translations.
        precision: Of the matrix products of decoding: float32, bfloat16 or int8.
        threads: Number of threads per matrix product (CPU only).
        shortlist: Of the tokens that translations may be made of.
    """

    def __init__(
        self,
        model: EncoderDecoder | Sequence[EncoderDecoder],
        config: RunConfig,
        source_tokenizer: Tokenizer,
        target_tokenizer: Tokenizer,
        *,
        precision: str = "float32",
        threads: int = 1,
        shortlist: Shortlist | None = None,
    ) -> None:
        self.config = config
        self._shortlist = shortlist
        self._models = [model] if isinstance(model, EncoderDecoder) else model
        self._engine, self._workers = build_engines(self._models, precision, threads, shortlist)
        self._source_tokenizer, self._target_tokenizer = source_tokenizer, target_tokenizer

    def translate(self, texts: Sequence[str], **options: Any) -> list[Translation]:
        """The best translation of each text, in order.

        Args:
            texts: One sentence each, or as many as they like with `split_sentences=True`. A blank one has the
                empty translation.
            **options: As of `stream`, without `n_best`. `noticed` is also told of the first text that has
                more sentences than its translation.

        Raises:
            DataError: A text is no Unicode, or too long and not to be split.
        """
        found = [translations[0] for translations in self.stream(texts, **options)]
        told = None if options.get("split_sentences") else options.get("noticed")
        lost = self.lost_sentences(told)
        for number, (text, translation) in enumerate(zip(texts, found, strict=False), start=1):
            lost.check(f"text {number}", text, translation.text)
        return found

    def lost_sentences(self, told: Callable[[str], None] | None) -> LostSentences:
        """What tells `told` of the first text of which sentences are missing in the translation."""
        data = self.config.data
        return LostSentences(data.source_language, data.target_language, self._is_whole, told)

    def stream(  # noqa: PLR0913 - how to compute, what to do with long texts, whom to tell
        self,
        texts: Iterable[str],
        *,
        n_best: int = 1,
        mbr: int | None = None,
        batch_tokens: int | None = Batching.tokens,
        batch_size: int | None = None,
        workers: int | None = None,
        prefixes: Iterable[str] = repeat(""),
        split_sentences: bool = False,
        too_long: Literal["split", "error"] = "split",
        failed: Callable[[DataError], None] | None = None,
        noticed: Callable[[str], None] | None = None,
        **search: Any,
    ) -> Iterator[list[Translation]]:
        """Up to `n_best` translations of each text, in order and in constant memory.

        They come best first; but samples, where `sampling` is set, in the order in which they were drawn.

        Args:
            texts: Read as far ahead as sorting by length wants.
            n_best: Translations wanted of each text.
            mbr: Draw so many samples, and take those of least Bayes risk: the most like all of them.
            batch_tokens: Tokens of a batch, padding included, times the beam size or the number of samples:
                a bound on memory.
            batch_size: The most sentences of a batch.
            workers: Batches computed at once; by default one for each core.
            prefixes: What the translation of each text begins with, whole words; of its first part.
            split_sentences: Translate each sentence of a text by itself, and join the translations. The n-th
                best of the whole has the n-th best of each.
            too_long: Whether a text of more tokens than the model can read is an error, or is split: at the
                ends of sentences, or where need be at white space, or between tokens.
            failed: Is told why a text cannot be translated; the text then has the empty translation. Without
                it the error is raised.
            noticed: Is told of each text that is split because it is too long.
            **search: Settings of `SearchConfig`; those that are None or missing are the model's own.

        Raises:
            DataError: A text is no Unicode, or too long and not to be split.
            UsageError: A setting is out of range.
            TypeError: One text is given in place of several.
        """
        if isinstance(texts, str) or isinstance(prefixes, str):
            raise TypeError("one text is given where several are wanted; put it in a list: [text]")
        _check_counts(n_best, mbr, workers=workers, batch_tokens=batch_tokens, batch_size=batch_size)
        num_parts: deque[int] = deque()  # of each text that has been read but not yet written
        divider = self._divider(split_sentences, too_long, noticed)
        parts = self._each_translated(
            each_part(divider.encode_each(texts, failed), num_parts),
            each_prefix(self._encode_prefixes(prefixes, failed), num_parts),
            self._search_config(search | ({"sampling": True} if mbr else {})),
            mbr or n_best,
            Batching(batch_tokens, batch_size, workers or self._workers),
        )
        if mbr:
            parts = (part._replace(translations=least_risk(part.translations)[:n_best]) for part in parts)
        to = self.config.data.target_language
        return (join_parts([first, *islice(parts, num_parts.popleft() - 1)], to) for first in parts)

    def follow(self, text: str, **search: Any) -> Iterator[str]:
        """What the translation is sure to begin with, longer and longer, and in the end the whole.

        Args:
            text: One sentence.
            **search: Settings of `SearchConfig`; those that are None or missing are the model's own.

        Raises:
            DataError: It is too long, or no Unicode.
            UsageError: A setting is out of range.
        """
        source, config = self.encode(text), self._search_config(search)
        if not source:
            return iter([""])
        return map(self._target_tokenizer.decode, follow(self._engine, source, config))

    def encode(self, text: str) -> list[int]:
        """The source ids of a text; none if it is blank.

        Raises:
            DataError: It is too long, or no Unicode.
        """
        return [] if is_blank(text) else self._encode(self._source_tokenizer, text)

    def score(self, sources: Sequence[str], targets: Sequence[str], **options: Any) -> list[PairScore]:
        """How probable each target is as the translation of its source, in order.

        Args:
            sources: One sentence each.
            targets: A translation of each.
            **options: As of `stream_scores`, without `failed`.

        Raises:
            DataError: A sentence is too long, or no Unicode, or there are not as many targets as sources.
        """
        if len(sources) != len(targets):
            raise DataError(f"{len(sources)} sources but {len(targets)} targets; give one for each")
        scores = self.stream_scores(zip(sources, targets, strict=True), **options)
        return [score for score in scores if score is not None]  # all of them: a pair that fails is an error

    def stream_scores(
        self,
        pairs: Iterable[tuple[str, str] | None],
        *,
        workers: int | None = None,
        failed: Callable[[DataError], None] | None = None,
        **search: Any,
    ) -> Iterator[PairScore | None]:
        """The score of each pair of a source and a target, in order and in constant memory.

        Args:
            pairs: Sentences; None in place of a pair gives None in place of a score.
            workers: Batches computed at once; by default one for each core.
            failed: Is told why a pair cannot be scored, which then has None. Without it the error is raised.
            **search: The settings of the length penalty; those that are missing are the model's own.

        Raises:
            DataError: A sentence is too long, or no Unicode.
            UsageError: A setting is out of range.
        """
        require_counts(workers=workers)
        return stream_scores(
            self._engine,
            encode_pairs(pairs, self.encode, self._encode_target, failed),
            self._target_tokenizer,
            self._search_config(search),
            workers=workers or self._workers,
        )

    def negative_log_likelihood(self, sources: Sequence[str], targets: Sequence[str]) -> tuple[float, int]:
        """The sum over all target tokens, end symbols included, in nats, and their number."""
        scores = self.score(sources, targets)
        return -sum(score.log_prob for score in scores), sum(len(score.tokens) for score in scores)

    def attention(self, text: str, target: str | None = None) -> Attention:
        """The attention weights with which the model translates `text`, by default as it would itself."""
        return next(self.attentions([text], None if target is None else [target]))

    def attentions(self, texts: Sequence[str], targets: Sequence[str] | None = None) -> Iterator[Attention]:
        """The attention weights of each text; the texts are translated first, all together.

        Args:
            texts: One sentence each.
            targets: A translation of each; by default the model's own.

        Raises:
            UsageError: There are several models.
            DataError: A sentence is too long, or no Unicode.
        """
        model = only_model(self._models)
        sources = [self.encode(text) for text in texts]
        if targets is None:
            batching = Batching(workers=self._workers)
            found = generate(self._engine, sources, self.config.search, batching=batching)
            written = [hypotheses[0].ids[: self._max_tokens] for hypotheses in found]
        else:
            written = [self._encode_target(target) for target in targets]
        for source, target in zip(sources, written, strict=True):
            weights = capture_attention(model, source, target)
            read = Pieces.of(self._source_tokenizer, source)
            yield look_into(weights, read, Pieces.of(self._target_tokenizer, target), self.config)

    @property
    def _max_tokens(self) -> int:
        """Of a sentence; learned positions have to do for its start or end symbol too."""
        positions = self._engine.max_positions
        return MAX_TOKENS if positions is None else min(MAX_TOKENS, positions - 1)

    def _is_whole(self, text: str) -> bool:
        return len(self._source_tokenizer.encode(text)) <= self._max_tokens

    def _encode_target(self, text: str) -> list[int]:
        return self._encode(self._target_tokenizer, text)

    def _encode(self, tokenizer: Tokenizer, text: str) -> list[int]:
        ids = tokenizer.encode(text)
        if len(ids) > self._max_tokens:
            raise too_long_error(len(ids), self._max_tokens)
        return ids

    def _encode_prefixes(
        self, prefixes: Iterable[str], failed: Callable[[DataError], None] | None
    ) -> Iterator[list[int]]:
        for prefix in prefixes:
            try:
                ids = self._encode_target(prefix)
                if ids and self._shortlist is not None:
                    raise DataError("a target prefix and a shortlist exclude each other; leave out one")
            except DataError as error:
                if failed is None:
                    raise
                failed(error)
                ids = []
            yield ids

    def _search_config(self, settings: dict[str, Any]) -> SearchConfig:
        given = {key: value for key, value in settings.items() if value is not None}
        config = SearchConfig.checked(**self.config.search.model_dump() | given)
        idle = [f"--{name.replace('_', '-')}" for name in _IDLE[config.sampling] if name in given]
        if idle and config.sampling:
            raise UsageError(f"{', '.join(idle)}: this is for search only; leave out --sampling or --mbr")
        if idle:
            raise UsageError(f"{', '.join(idle)}: this is for samples only; add --sampling, or --mbr N")
        return config

    def _divider(self, sentences: bool, too_long: str, noticed: Callable[[str], None] | None) -> Divider:
        return Divider(
            self._source_tokenizer,
            self._max_tokens,
            self.config.data.source_language,
            sentences=sentences,
            cut=too_long == "split",
            noticed=noticed,
        )

    def _each_translated(
        self,
        sources: Iterable[list[int]],
        prefixes: Iterable[list[int]],
        config: SearchConfig,
        n_best: int,
        batching: Batching,
    ) -> Iterator[Part]:
        sources, again = tee(sources)
        found = generate(self._engine, sources, config, n_best=n_best, prefixes=prefixes, batching=batching)
        return (
            Part(
                [self._translation(source, hypothesis, config.alignments) for hypothesis in hypotheses],
                self._source_tokenizer.decode(source),
            )
            for source, hypotheses in zip(again, found, strict=False)
        )

    def _translation(self, source: list[int], hypothesis: Hypothesis, aligned: bool) -> Translation:
        tokenizer, ids, alignment = self._target_tokenizer, hypothesis.ids, None
        if aligned:
            words = self._source_tokenizer.words(source), tokenizer.words(ids)
            alignment = align_words(hypothesis.alignment, *words)
        return Translation(
            tokenizer.decode(ids),
            hypothesis.score,
            tokenizer.pieces(ids),
            hypothesis.token_log_probs,
            alignment,
        )


def _check_counts(n_best: int, mbr: int | None, **counts: int | None) -> None:
    require_counts(n_best=n_best, mbr=mbr, **counts)
    if mbr is not None and n_best > mbr:
        raise UsageError(f"--n-best {n_best}: of --mbr {mbr} samples there are no more; raise the latter")
