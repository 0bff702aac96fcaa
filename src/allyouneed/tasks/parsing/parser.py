"""Parses sentences (paper 6.3): raw text in, trees out."""

import math
import statistics
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from functools import cache, cached_property, partial
from itertools import count
from typing import TYPE_CHECKING, Any, TypeVar, Unpack

from allyouneed.config.run import DecodingPrecision, RunConfig, SearchConfig, SearchSettings
from allyouneed.config.settings import Batch, Config, Workers, takes
from allyouneed.data.sentences import too_long_error
from allyouneed.data.tokenizer import Tokenizer
from allyouneed.errors import DataError, UsageError
from allyouneed.inference.beams import Hypothesis
from allyouneed.inference.engine_choice import build_engines
from allyouneed.inference.generate import carry_out, generate
from allyouneed.inference.scheduler import Job, Scheduler, Source
from allyouneed.inference.search_plan import Batching, SearchPlan
from allyouneed.inference.selection import Constraint
from allyouneed.inference.stored_model import Model
from allyouneed.symbols import UNKNOWN
from allyouneed.tasks.parsing.linearisation import ending
from allyouneed.tasks.parsing.tree_constraint import JoinedTreeConstraint, TreeConstraint
from allyouneed.tasks.parsing.tree_vocabulary import TreeVocabulary
from allyouneed.tasks.parsing.treebank import clean
from allyouneed.tasks.parsing.trees import Tree, one_word, tree_of, unescaped
from allyouneed.tasks.parsing.word_features import WordFeatures, as_shown
from allyouneed.tasks.requests import (
    Answer,
    Failure,
    ParseRequest,
    TextOrWords,
    combined_search,
    encoded_or_failure,
    require_all,
    require_one_each,
)

if TYPE_CHECKING:
    from allyouneed.tasks.attention_maps import Attention, Pieces

Result = TypeVar("Result")

_TYPEWRITTEN = str.maketrans({"“": "``", "”": "''", "‘": "` ", "’": "'", "—": "--", "–": "--", "…": "..."})
"""The Treebank has no other quotes and dashes. NLTK splits them off, and tells opening from closing quotes by
the spaces around them. It would not split off an opening single quote; hence the space after that."""


def penn_words(sentence: str) -> list[str]:
    """Words and punctuation of one sentence: `ca n't`, `` `` '' `` for quotes, the final full stop alone.

    Raises:
        UsageError: NLTK is not installed.
    """
    return [unescaped(word) for word in _tokenizer().tokenize(sentence.translate(_TYPEWRITTEN))]


@cache
def _tokenizer() -> Any:
    try:
        from nltk.tokenize.treebank import TreebankWordTokenizer
    except ImportError:
        raise UsageError(
            "splitting sentences into words needs NLTK; pip install 'allyouneed[parsing]',"
            " or give words with spaces between them (tokenized)",
            settings=["tokenized"],
        ) from None
    return TreebankWordTokenizer()


MAX_TOKENS = 2_048
"""A longer sentence is refused: the cost grows with the square of the length."""


@dataclass(frozen=True)
class Parse:
    """An output of a parser."""

    tree: Tree | None
    """Over the words of the sentence; a blank sentence has none."""
    score: float
    """The log-probability of its symbols, divided by the length penalty."""
    repaired: bool = False
    """Whether the model's output was no tree over these words, and has been made one."""
    confidence: float = 0.0
    """The geometric mean of the probabilities of its symbols and the end symbol. Low if the constraint
    forbade what the model preferred."""

    def __str__(self) -> str:
        """Penn brackets on one line; nothing of a blank sentence."""
        return "" if self.tree is None else str(self.tree)

    def __repr__(self) -> str:
        return f"Parse({str(self)!r}, score={self.score!r}, confidence={self.confidence!r})"


NO_PARSE = Parse(None, 0.0)
"""The result for a blank sentence."""


class ParseConfig(Config):
    """How sentences are parsed, and how much is computed at once."""

    constrained: bool = True
    """Search among trees over the words only. Otherwise, as in the paper, among all outputs; what is no tree
    is repaired."""
    batch_tokens: Batch | None = None
    """Sub-words of a batch, padding included, times the beam size: a bound on memory. By default 8,192 on a
    CPU, and on an accelerator as many as its memory allows."""
    workers: Workers | None = None
    """Batches computed at once; one for each core if None."""


class ParseOptions(SearchSettings, total=False):
    """The settings of `ParseConfig` and of `SearchConfig` as keyword arguments."""

    constrained: bool
    batch_tokens: int | None
    workers: int | None


class Parser:
    """A model or an ensemble that parses. Made by `load`.

    The arguments are those of `Translator`, but for the `tokenizer` of words and the `vocabulary` of trees.
    """

    def __init__(
        self,
        model: "Model | Sequence[Model]",
        config: RunConfig,
        tokenizer: Tokenizer | WordFeatures,
        vocabulary: TreeVocabulary,
        *,
        precision: DecodingPrecision = "float32",
        threads: int = 1,
    ) -> None:
        self.config, self.vocabulary = config, vocabulary
        models = model if isinstance(model, Sequence) else [model]
        self.engine, self._workers = build_engines(models, precision, threads)
        """The engine, or the ensemble, that decodes."""
        self._tokenizer = tokenizer
        self._last_constraint: tuple[object, Constraint] | None = None  # and the limits that it is for

    @takes(ParseConfig, SearchConfig)
    def parse(self, sentences: Sequence[TextOrWords], **options: Unpack[ParseOptions]) -> list[Parse]:
        """The tree of each sentence, in order.

        Args:
            sentences: One sentence each, as text or as its words. A blank one has no tree.
            **options: See below.

        Raises:
            DataError: A sentence is not Unicode, or too long; the message has its number.
            UsageError: An option is unknown or out of range, or there is text to be split and no NLTK.
            TypeError: One sentence is given in place of several.
        """
        if isinstance(sentences, str):
            raise TypeError("a single sentence; put it in a list: [sentence]")
        jobs = require_all(map(self._job, map(ParseRequest, count(1), sentences)), "sentence")
        answers: Iterator[Answer[Parse]] = self._carried_out(jobs, options)
        return [answer.result for answer in answers]

    @takes(ParseConfig, SearchConfig)
    def answer(
        self, requests: Iterable[ParseRequest | Failure], **options: Unpack[ParseOptions]
    ) -> Iterator[Answer[Parse] | Failure]:
        """An answer or a failure for each request, in order and in constant memory.

        Several threads may call this method at the same time.

        Args:
            requests: Requests, read ahead to sort them by length; failures are passed on.
            **options: See below.

        Raises:
            UsageError: An option is unknown or out of range, or there is text to be split and no NLTK.
        """
        return self._carried_out(map(self._job, requests), options)

    def submit(
        self, scheduler: Scheduler, sentence: TextOrWords, *, deadline: float | None = None
    ) -> Future[Parse]:
        """Queue the parsing of a sentence, constrained to trees, with the settings of the model.

        After the `deadline`, a value of `time.monotonic()`, parsing fails with `TimeoutError`.

        Raises:
            DataError: The sentence is not Unicode, or too long.
            UsageError: There is text to be split and no NLTK.
        """
        words, ids = self._encode(ParseRequest("", sentence))
        job = Job([Source(ids)], lambda found: self._parse(words, found[0][0]))
        return scheduler.submit(self._plan, job, deadline=deadline)

    @cached_property
    def _plan(self) -> SearchPlan:
        search = self.config.search
        return SearchPlan(self.engine, search, constraint=self._constraint(search))

    def attention(
        self, sentence: TextOrWords, tree: str | None = None, *, for_page: bool = False
    ) -> "Attention":
        """The attention weights for parsing `sentence` into `tree`, by default the model's own.

        Args:
            sentence: Text, or its words.
            tree: A tree over these words, in brackets.
            for_page: Whether to refuse, before they are computed, more weights than a page holds.

        Raises:
            UsageError, DataError: See `attentions`.
        """
        return next(self.attentions([sentence], None if tree is None else [tree], for_page=for_page))

    def attentions(
        self, sentences: Sequence[TextOrWords], trees: Sequence[str] | None = None, *, for_page: bool = False
    ) -> "Iterator[Attention]":
        """The attention weights of each sentence, as text or words; all are parsed first, in batches.

        Args:
            sentences: Sentences.
            trees: One over the words of each, in brackets; by default the model's own.
            for_page: See `attention`.

        Raises:
            UsageError: There are several models, or there is text to be split and no NLTK.
            DataError: A sentence is not Unicode, it or its tree is too long, or a tree has other words, or
                labels that the model does not know.
        """
        from allyouneed.inference.attention_weights import capture_attention, only_model
        from allyouneed.tasks.attention_maps import Pieces, look_into, require_few_weights

        model, config = only_model(self.engine.models), self.config.search
        if trees is not None:
            require_one_each("sentences", sentences, "trees", trees)
        requests = map(ParseRequest, count(1), sentences)
        encoded = list(require_all(map(partial(encoded_or_failure, self._encode), requests), "sentence"))
        if trees is None:
            found = generate(
                self.engine,
                (ids for _, ids in encoded),
                config,
                constraint=self._constraint(config),
                batching=Batching(workers=self._workers),
            )
            written: Iterator[list[int]] = (hypotheses[0].ids for hypotheses in found)
        else:
            written = self._encode_trees(trees, (words for words, _ in encoded))
        for (words, source), target in zip(encoded, written, strict=True):
            if for_page:
                require_few_weights(model.config, source, target)
            weights = capture_attention(model, source, target)
            shown = [as_shown(self.vocabulary.symbols[token]) for token in target]
            symbols = Pieces.of_words(shown, shown)
            yield look_into(weights, self._pieces(words, source), symbols, self.config)

    def _pieces(self, words: Sequence[str], ids: Sequence[int]) -> "Pieces":
        from allyouneed.tasks.attention_maps import Pieces

        if isinstance(self._tokenizer, WordFeatures):
            return Pieces.of_words(words, [self._tokenizer.symbols[token] for token in ids])
        return Pieces.of(self._tokenizer, ids, is_split=True)

    def _constraint(self, config: SearchConfig) -> Constraint:
        of_form = JoinedTreeConstraint if self.vocabulary.brackets == "joined" else TreeConstraint
        symbols_of = self._symbols_of if of_form is JoinedTreeConstraint else self._words_of
        limits, last = (config.max_extra_tokens, config.max_length), self._last_constraint
        if last is None or last[0] != limits:  # with many words, building it takes time and memory
            found = of_form(self.vocabulary, symbols_of, config, self.engine.max_positions)
            self._last_constraint = last = limits, found
        return last[1]

    def _encode_trees(self, trees: Iterable[str], sentences: Iterable[list[str]]) -> Iterator[list[int]]:
        """The ids of the tree over each sentence, or a DataError with its number."""
        for number, tree, words in zip(count(1), trees, sentences, strict=False):
            try:
                yield self._encode_tree(tree, words)
            except DataError as error:
                raise DataError(f"sentence {number}: {error.messages[0]}", label=error.label) from None

    def _encode_tree(self, tree: str, words: list[str]) -> list[int]:
        cleaned = clean(tree_of(tree))
        if cleaned is None or list(cleaned.words) != words:
            leaves = "none" if cleaned is None else " ".join(cleaned.words)
            raise DataError(f"the tree is of other words ({leaves}) than the sentence")
        ids = self.vocabulary.encode(str(cleaned))
        if UNKNOWN in ids:
            raise DataError("the tree has brackets that the model cannot write, as no training tree has them")
        if (positions := self.engine.max_positions) is not None and len(ids) >= positions:
            raise too_long_error(len(ids), positions - 1)
        return ids

    def _job(self, request: ParseRequest | Failure) -> Job[Answer[Parse]] | Failure:
        def encode(request: ParseRequest) -> Job[Answer[Parse]]:
            words, ids = self._encode(request)
            return Job([Source(ids)], lambda found: Answer(request.id, self._parse(words, found[0][0])))

        return encoded_or_failure(encode, request)

    def _carried_out(self, jobs: Iterable[Job[Result] | Result], options: ParseOptions) -> Iterator[Result]:
        own = {name: value for name, value in options.items() if name in ParseConfig.model_fields}
        config = ParseConfig.checked(**own)
        given = {name: v for name, v in options.items() if name not in own and v is not None}
        if idle := [name for name in ("mbr", "alignments") if given.get(name)]:
            raise UsageError(f"{', '.join(idle)}: this is for translations only; leave it out", settings=idle)
        search = combined_search(given, self.config.search)
        constraint = self._constraint(search) if config.constrained else None
        batching = Batching(config.batch_tokens, workers=config.workers or self._workers)
        return carry_out(SearchPlan(self.engine, search, constraint=constraint), jobs, batching)

    def _encode(self, request: ParseRequest) -> tuple[list[str], list[int]]:
        """The words of a request, and the ids of their sub-words."""
        sentence = request.sentence
        words = penn_words(sentence) if isinstance(sentence, str) else [unescaped(word) for word in sentence]
        if "" in words:
            raise DataError("an empty word; leave it out")
        if any("\0" in word for word in words):
            raise DataError("a NUL character, which no file of trees may have; remove it")
        words = [one_word(word) for word in words]
        ids = self._tokenizer.encode(" ".join(words)) if words else []
        limit = min(MAX_TOKENS, (self.engine.max_positions or MAX_TOKENS + 1) - 1)
        if len(ids) > limit:
            raise too_long_error(len(ids), limit)
        return words, ids

    def _words_of(self, source: Sequence[int]) -> list[str]:
        return self._tokenizer.decode(source).split(" ")

    def _symbols_of(self, source: Sequence[int]) -> list[str]:
        if isinstance(self._tokenizer, WordFeatures):
            return self._tokenizer.word_symbols_of(source)
        words = self._words_of(source)
        return list(map(ending, words)) if self.vocabulary.tags == "endings" else words

    def _parse(self, words: list[str], hypothesis: Hypothesis) -> Parse:
        if not words:
            return NO_PARSE
        tree, well_formed = self.vocabulary.decode(hypothesis.ids, words)
        log_probs = hypothesis.token_log_probs
        confidence = math.exp(statistics.fmean(log_probs)) if log_probs else 0.0
        return Parse(tree, hypothesis.score, not well_formed, confidence)
