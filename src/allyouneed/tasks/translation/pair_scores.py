"""How probable a model finds translations that are given: pairs of texts in, log-probabilities out."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import tee

import numpy as np

from allyouneed.config.run import SearchConfig
from allyouneed.data.tokenizer import Tokenizer
from allyouneed.errors import DataError
from allyouneed.inference.engine import Engine
from allyouneed.inference.ensemble import Ensemble
from allyouneed.inference.scoring import TargetScore, score_pairs
from allyouneed.inference.search import length_penalty

Encode = Callable[[str], list[int]]
EncodedPair = tuple[list[int], list[int]]


@dataclass(frozen=True)
class PairScore:
    """How probable a translation is, given its source."""

    log_prob: float
    """Natural logarithm of the probability of all its tokens, the end symbol's included."""
    score: float
    """The log-probability divided by the length penalty, as search ranks by it."""
    tokens: list[str]
    """The pieces of the translation, in print, and the end symbol."""
    token_log_probs: list[float]
    """Of each of these, given the source and those before it; their sum is `log_prob`."""


def stream_scores(
    engine: Engine | Ensemble,
    pairs: Iterable[EncodedPair | None],
    target_tokenizer: Tokenizer,
    config: SearchConfig,
    *,
    workers: int = 1,
) -> Iterator[PairScore | None]:
    """The score of each pair, in order and in constant memory.

    Args:
        engine: The model, or several.
        pairs: Of `encode_pairs`; None has no score.
        target_tokenizer: Of the targets.
        config: Its length penalty divides the scores.
        workers: Batches computed at once.
    """
    pairs, again = tee(pairs)
    scores = score_pairs(engine, pairs, workers=workers)
    return (
        None
        if score is None or pair is None
        else _pair_score(score, target_tokenizer.pieces(pair[1]), config)
        for score, pair in zip(scores, again, strict=True)
    )


def encode_pairs(
    pairs: Iterable[tuple[str, str] | None],
    encode_source: Encode,
    encode_target: Encode,
    failed: Callable[[DataError], None] | None = None,
) -> Iterator[EncodedPair | None]:
    """The ids of both sides of each pair; None for a pair that has none, or is None itself.

    Args:
        pairs: Source and target.
        encode_source: The ids of a source.
        encode_target: The ids of a target.
        failed: Is told why a pair has no ids. Without it the error is raised, with the number of the pair.

    Raises:
        DataError: A text cannot be encoded.
    """
    for number, pair in enumerate(pairs, start=1):
        place = "" if failed else f" {number}"
        try:
            encoded = pair and (
                _encode(f"source{place}", encode_source, pair[0]),
                _encode(f"target{place}", encode_target, pair[1]),
            )
        except DataError as error:
            if failed is None:
                raise
            failed(error)
            encoded = None
        yield encoded


def _encode(name: str, encode: Encode, text: str) -> list[int]:
    try:
        return encode(text)
    except DataError as error:
        raise DataError(f"{name}: {error.messages[0]}", label=error.label) from None


def _pair_score(score: TargetScore, pieces: list[str], config: SearchConfig) -> PairScore:
    tokens = [*pieces, "</s>"]
    penalty = float(length_penalty(np.array(len(tokens)), config))
    return PairScore(score.log_prob, score.log_prob / penalty, tokens, score.token_log_probs)
