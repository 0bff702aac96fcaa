"""Task 2, constituency parsing (paper 6.3): raw sentences in, trees out."""

import math
import statistics
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import tee
from typing import Any

from allyouneed.config.bounds import require_counts
from allyouneed.config.run import RunConfig, SearchConfig
from allyouneed.data.sentences import too_long_error
from allyouneed.data.tokenizer import Tokenizer
from allyouneed.errors import DataError
from allyouneed.inference.attention_capture import capture_attention, only_model
from allyouneed.inference.beams import Hypothesis
from allyouneed.inference.engine_choice import build_engines
from allyouneed.inference.generate import Batching, generate
from allyouneed.inference.restrictions import Constraint
from allyouneed.model import EncoderDecoder
from allyouneed.symbols import UNKNOWN
from allyouneed.tasks.attention import Attention, Pieces, look_into
from allyouneed.tasks.parsing.joined_tree_constraint import JoinedTreeConstraint
from allyouneed.tasks.parsing.penn_words import penn_words
from allyouneed.tasks.parsing.tree_cleaning import clean
from allyouneed.tasks.parsing.tree_constraint import TreeConstraint
from allyouneed.tasks.parsing.tree_vocabulary import TreeVocabulary
from allyouneed.tasks.parsing.trees import Tree, one_word, tree_of, unescaped
from allyouneed.tasks.parsing.word_features import WordFeatures

MAX_TOKENS = 2_048
"""A longer sentence is refused: the cost grows with the square of the length."""

Sentence = str | Sequence[str]
"""Text, which is split into words as the Penn Treebank does, or the words, where `-LRB-` is a bracket too."""


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
    """The geometric mean of the probabilities of its symbols, the end symbol's among them. What the model
    would rather have written than what it was held to makes it small."""

    def __str__(self) -> str:
        """Penn brackets on one line; nothing of a blank sentence."""
        return "" if self.tree is None else str(self.tree)


class Parser:
    """A model, or several as one, with its sub-words, or words, and its symbols; made by `load`.

    Args:
        model: The model, wherever it is to compute, or several of the same vocabularies.
        config: Of its run, or the first one's; `config.search` is used where a call does not say otherwise.
        tokenizer: Of the words.
        vocabulary: Of the trees.
        precision: Of the matrix products of decoding: float32, bfloat16 or int8.
        threads: Number of threads per matrix product (CPU only).
    """

    def __init__(
        self,
        model: EncoderDecoder | Sequence[EncoderDecoder],
        config: RunConfig,
        tokenizer: Tokenizer | WordFeatures,
        vocabulary: TreeVocabulary,
        *,
        precision: str = "float32",
        threads: int = 1,
    ) -> None:
        self.config, self.vocabulary = config, vocabulary
        self._models = [model] if isinstance(model, EncoderDecoder) else model
        self._engine, self._workers = build_engines(self._models, precision, threads)
        self._tokenizer = tokenizer

    def parse(self, sentences: Sequence[Sentence], **options: Any) -> list[Parse]:
        """The tree of each sentence, in order.

        Args:
            sentences: One sentence each, as text or as its words. A blank one has no tree.
            **options: As of `stream`.

        Raises:
            DataError: A sentence is no Unicode, or too long.
            UsageError: A setting is out of range, or there is text to be split and no NLTK.
        """
        return list(self.stream(sentences, **options))

    def stream(
        self,
        sentences: Iterable[Sentence],
        *,
        constrained: bool = True,
        batch_tokens: int | None = Batching.tokens,
        workers: int | None = None,
        failed: Callable[[DataError], None] | None = None,
        **search: Any,
    ) -> Iterator[Parse]:
        """The tree of each sentence, in order and in constant memory.

        Args:
            sentences: Read as far ahead as sorting by length wants.
            constrained: Search among trees over the words only. Otherwise, as in the paper, among all
                outputs; what is no tree is repaired.
            batch_tokens: Sub-words of a batch, padding included, times the beam size: a bound on memory.
            workers: Batches computed at once; by default one for each core.
            failed: Is told why a sentence cannot be parsed, which then has no tree. Without it the error is
                raised.
            **search: Settings of `SearchConfig`; those that are None or missing are the model's own.

        Raises:
            DataError: A sentence is no Unicode, or too long.
            UsageError: A setting is out of range, or there is text to be split and no NLTK.
            TypeError: One sentence is given in place of several.
        """
        if isinstance(sentences, str):
            raise TypeError("one sentence is given where several are wanted; put it in a list: [sentence]")
        require_counts(batch_tokens=batch_tokens, workers=workers)
        given = {key: value for key, value in search.items() if value is not None}
        config = SearchConfig.checked(**self.config.search.model_dump() | given)
        encoded, again = tee(self._encode_each(sentences, failed))
        found = generate(
            self._engine,
            (ids for _, ids in encoded),
            config,
            constraint=self._constraint(config) if constrained else None,
            batching=Batching(batch_tokens, workers=workers or self._workers),
        )
        return (
            self._parse(words, hypotheses[0]) for (words, _), hypotheses in zip(again, found, strict=False)
        )

    def attention(self, sentence: Sentence, tree: str | None = None) -> Attention:
        """The attention weights with which the model parses `sentence`, by default as it would itself."""
        return next(self.attentions([sentence], None if tree is None else [tree]))

    def attentions(
        self, sentences: Sequence[Sentence], trees: Sequence[str] | None = None
    ) -> Iterator[Attention]:
        """The attention weights of each sentence; the sentences are parsed first, all together.

        Args:
            sentences: One each, as text or as its words.
            trees: One over the words of each, in brackets; by default the model's own.

        Raises:
            UsageError: There are several models, or there is text to be split and no NLTK.
            DataError: A sentence is no Unicode, it or its tree is too long, or a tree is of other words, or
                of labels that the model does not know.
        """
        model, config = only_model(self._models), self.config.search
        encoded = list(self._encode_each(sentences, None))
        if trees is None:
            found = generate(
                self._engine,
                (ids for _, ids in encoded),
                config,
                constraint=self._constraint(config),
                batching=Batching(workers=self._workers),
            )
            written = (hypotheses[0].ids for hypotheses in found)
        else:
            of_trees = zip(trees, encoded, strict=True)
            written = (self._encode_tree(tree, words) for tree, (words, _) in of_trees)
        for (words, source), target in zip(encoded, written, strict=True):
            weights = capture_attention(model, source, target)
            symbols = [self.vocabulary.symbols[token] for token in target]
            yield look_into(weights, self._pieces(words, source), Pieces.of_symbols(symbols), self.config)

    def _pieces(self, words: Sequence[str], ids: Sequence[int]) -> Pieces:
        if isinstance(self._tokenizer, WordFeatures):
            return Pieces.of_words(words, [self._tokenizer.symbols[token] for token in ids])
        return Pieces.of(self._tokenizer, ids, is_split=True)

    def _constraint(self, config: SearchConfig) -> Constraint:
        of_form = JoinedTreeConstraint if self.vocabulary.brackets == "joined" else TreeConstraint
        return of_form(self.vocabulary, self._words_of, config, self._engine.max_positions)

    def _encode_tree(self, tree: str, words: list[str]) -> list[int]:
        """The ids of a tree over these words."""
        cleaned = clean(tree_of(tree))
        if cleaned is None or list(cleaned.words) != words:
            leaves = "none" if cleaned is None else " ".join(cleaned.words)
            raise DataError(f"the tree is of other words ({leaves}) than the sentence")
        ids = self.vocabulary.encode(str(cleaned))
        if UNKNOWN in ids:
            raise DataError("the tree has brackets that the model cannot write, as no training tree has them")
        if (positions := self._engine.max_positions) is not None and len(ids) >= positions:
            raise too_long_error(len(ids), positions - 1)
        return ids

    def _encode_each(
        self, sentences: Iterable[Sentence], failed: Callable[[DataError], None] | None
    ) -> Iterator[tuple[list[str], list[int]]]:
        """The words of each sentence, and the ids of their sub-words."""
        for number, sentence in enumerate(sentences, start=1):
            try:
                yield self._encode(sentence)
            except DataError as error:
                if failed is None:
                    raise DataError(f"sentence {number}: {error.messages[0]}", label=error.label) from None
                failed(error)
                yield [], []

    def _encode(self, sentence: Sentence) -> tuple[list[str], list[int]]:
        words = penn_words(sentence) if isinstance(sentence, str) else [unescaped(word) for word in sentence]
        if "" in words:
            raise DataError("an empty word; leave it out")
        words = [one_word(word) for word in words]
        ids = self._tokenizer.encode(" ".join(words)) if words else []
        limit = min(MAX_TOKENS, (self._engine.max_positions or MAX_TOKENS + 1) - 1)
        if len(ids) > limit:
            raise too_long_error(len(ids), limit)
        return words, ids

    def _words_of(self, source: Sequence[int]) -> list[str]:
        return self._tokenizer.decode(source).split(" ")

    def _parse(self, words: list[str], hypothesis: Hypothesis) -> Parse:
        if not words:
            return Parse(None, 0.0)
        tree, well_formed = self.vocabulary.decode(hypothesis.ids, words)
        log_probs = hypothesis.token_log_probs
        confidence = math.exp(statistics.fmean(log_probs)) if log_probs else 0.0
        return Parse(tree, hypothesis.score, not well_formed, confidence)
