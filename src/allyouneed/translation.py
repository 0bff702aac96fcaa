"""Task 1, translation (paper 5 and 6.1): raw text in, raw text out."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from allyouneed.config import RunConfig, SearchConfig
from allyouneed.data.lines import is_blank
from allyouneed.data.tokenizer import Tokenizer
from allyouneed.errors import DataError, UsageError
from allyouneed.evaluation import Metric, Score, bleu_13a, chrf, perplexity
from allyouneed.inference.attention_capture import AttentionWeights, capture_attention
from allyouneed.inference.engine import Engine
from allyouneed.inference.generate import DEFAULT_BATCH_TOKENS, generate
from allyouneed.inference.scoring import score_targets
from allyouneed.inference.search import Hypothesis
from allyouneed.model import Transformer
from allyouneed.preparation import SOURCE_TOKENIZER, TARGET_TOKENIZER
from allyouneed.training.checkpoint import load_checkpoint
from allyouneed.training.run_directory import resolve_model

MAX_TOKENS = 1_024
"""A longer sentence is refused: its cost grows with the square of its length."""


@dataclass(frozen=True)
class Translation:
    """An output of a translator."""

    text: str
    score: float
    """The log-probability divided by the length penalty."""
    tokens: list[str]
    """The sub-word pieces that the text is made of, in print."""


@dataclass(frozen=True)
class Attention:
    """Attention weights with the pieces that they belong to; see `AttentionWeights`."""

    weights: AttentionWeights
    source: list[str]
    """Pieces of the source and its end symbol."""
    target: list[str]
    """What the decoder reads: the start symbol and the pieces of the target."""


class Translator:
    """A model with its tokenisers; made by `load`.

    Args:
        model: The model, wherever it is to compute.
        config: Of its run; `config.search` is used where a call does not say otherwise.
        source_tokenizer: Of the texts to translate.
        target_tokenizer: Of the translations.
    """

    def __init__(
        self,
        model: Transformer,
        config: RunConfig,
        source_tokenizer: Tokenizer,
        target_tokenizer: Tokenizer,
    ) -> None:
        self.config = config
        self._model, self._engine = model, Engine(model)
        self._source_tokenizer, self._target_tokenizer = source_tokenizer, target_tokenizer

    def translate(self, texts: Sequence[str], **options: Any) -> list[Translation]:
        """The best translation of each text, in order.

        Args:
            texts: One sentence each. A blank one has the empty translation.
            **options: As of `stream`, without `n_best`.

        Raises:
            DataError: A text is too long, or no Unicode.
        """
        return [translations[0] for translations in self.stream(texts, **options)]

    def stream(
        self,
        texts: Iterable[str],
        *,
        n_best: int = 1,
        batch_tokens: int | None = DEFAULT_BATCH_TOKENS,
        batch_size: int | None = None,
        failed: Callable[[DataError], None] | None = None,
        **search: Any,
    ) -> Iterator[list[Translation]]:
        """Up to `n_best` translations of each text, best first, in order and in constant memory.

        Args:
            texts: Read as far ahead as sorting by length wants.
            n_best: Translations wanted of each text.
            batch_tokens: Tokens of a batch, padding included, times the beam size: a bound on memory.
            batch_size: The most sentences of a batch.
            failed: Is told why a text cannot be translated; the text then has the empty translation. Without
                it the error is raised.
            **search: Settings of `SearchConfig`; those that are None or missing are the model's own.

        Raises:
            DataError: A text is too long, or no Unicode.
            UsageError: A setting is out of range.
            TypeError: One text is given in place of several.
        """
        if isinstance(texts, str):
            raise TypeError("one text is given where several are wanted; put it in a list: [text]")
        limits = {"--n-best": n_best, "--batch-tokens": batch_tokens, "--batch-size": batch_size}
        for option, value in limits.items():
            if value is not None and value < 1:
                raise UsageError(f"{option} {value}: give 1 or more")
        config = self._search_config(search)
        found = generate(
            self._engine,
            _each_encoded(texts, self.encode, failed),
            config,
            n_best=n_best,
            batch_tokens=batch_tokens,
            batch_size=batch_size,
        )
        return ([self._translation(hypothesis) for hypothesis in hypotheses] for hypotheses in found)

    def encode(self, text: str) -> list[int]:
        """The source ids of a text; none if it is blank.

        Raises:
            DataError: It is too long, or no Unicode.
        """
        return [] if is_blank(text) else self._encode(self._source_tokenizer, text)

    def negative_log_likelihood(self, sources: Sequence[str], targets: Sequence[str]) -> tuple[float, int]:
        """The sum over all target tokens, end symbols included, in nats, and their number."""
        source_ids = list(_each_encoded(sources, self.encode, name="source"))
        target_ids = list(_each_encoded(targets, self._encode_target, name="target"))
        scores = score_targets(self._model, source_ids, target_ids)
        return -sum(score.log_prob for score in scores), sum(len(score.token_log_probs) for score in scores)

    def attention(self, text: str, target: str | None = None) -> Attention:
        """The attention weights with which the model translates `text`, by default as it would itself."""
        source = self.encode(text)
        if target is None:
            (hypotheses,) = generate(self._engine, [source], self.config.search)
            written = hypotheses[0].ids[: self._max_tokens]
        else:
            written = self._encode_target(target)
        weights = capture_attention(self._model, source, written)
        pieces = [*self._source_tokenizer.pieces(source), "</s>"]
        return Attention(weights, pieces, ["<s>", *self._target_tokenizer.pieces(written)])

    @property
    def _max_tokens(self) -> int:
        """Of a sentence; learned positions have to do for its start or end symbol too."""
        positions = self._engine.max_positions
        return MAX_TOKENS if positions is None else min(MAX_TOKENS, positions - 1)

    def _encode_target(self, text: str) -> list[int]:
        return self._encode(self._target_tokenizer, text)

    def _encode(self, tokenizer: Tokenizer, text: str) -> list[int]:
        ids = tokenizer.encode(text)
        if len(ids) > self._max_tokens:
            raise DataError(
                f"the sentence has {len(ids):,} tokens, {self._max_tokens:,} are the most; split it",
                label="E-TOO-LONG",
            )
        return ids

    def _search_config(self, settings: dict[str, Any]) -> SearchConfig:
        given = {key: value for key, value in settings.items() if value is not None}
        return SearchConfig.checked(**self.config.search.model_dump() | given)

    def _translation(self, hypothesis: Hypothesis) -> Translation:
        tokenizer = self._target_tokenizer
        return Translation(
            tokenizer.decode(hypothesis.ids), hypothesis.score, tokenizer.pieces(hypothesis.ids)
        )


def _each_encoded(
    texts: Iterable[str],
    encode: Callable[[str], list[int]],
    failed: Callable[[DataError], None] | None = None,
    name: str = "text",
) -> Iterator[list[int]]:
    """The ids of each text; where one has none, `failed` is told why, or an error names it by its number."""
    for number, text in enumerate(texts, start=1):
        try:
            ids = encode(text)
        except DataError as error:
            if failed is None:
                raise DataError(f"{name} {number}: {error.messages[0]}", label=error.label) from None
            failed(error)
            ids = []
        yield ids


def load(path: Path | str, device: torch.device | str = "cpu") -> Translator:
    """The translator kept in a model directory, a checkpoint, or a run, whose latest checkpoint is taken.

    Raises:
        ModelError: There is none, or it is damaged.
    """
    checkpoint = load_checkpoint(resolve_model(Path(path)))
    tokenizers = (
        Tokenizer.load(checkpoint.directory / name) for name in (SOURCE_TOKENIZER, TARGET_TOKENIZER)
    )
    return Translator(checkpoint.build_model().to(device), checkpoint.config, *tokenizers)


def evaluate(
    translator: Translator,
    sources: Sequence[str],
    references: Sequence[str],
    metrics: Sequence[Metric] = (bleu_13a, chrf),
    **search: Any,
) -> list[Score]:
    """Scores of a translator on sentences whose translation is known, its perplexity the last of them.

    Args:
        translator: What translates.
        sources: One sentence each.
        references: The right translation of each.
        metrics: What compares the translations with the references; see `translation_metrics`.
        **search: As of `Translator.stream`.

    Raises:
        DataError: A sentence is too long, or there are not as many references as sources.
    """
    likelihood = translator.negative_log_likelihood(sources, references)
    texts = [translation.text for translation in translator.translate(sources, **search)]
    return [*(metric(texts, references) for metric in metrics), perplexity(*likelihood)]
