"""Parity check before an export is published: does the other software compute what the model computes?"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from allyouneed.config.model import ModelConfig
from allyouneed.config.run import SearchConfig
from allyouneed.data.tokenizer import Tokenizer
from allyouneed.errors import ModelError
from allyouneed.inference.engine_choice import build_engine
from allyouneed.inference.generate import generate
from allyouneed.inference.scoring import score_targets
from allyouneed.inference.stored_model import Model
from allyouneed.symbols import SENTINEL

TOLERANCE = 1e-4
"""Maximum difference between log-probabilities of a token: in nats, or relative for those below -1."""

SENTENCES = (
    "A dog runs.",
    "Zwei Hunde laufen über die Straße, und niemand weiß, warum.",
    "It costs 3,141.59 dollars;  nobody's </s> <unk> can  pay it!",
    "これは文です。",
)
_LENGTHS = (1, 2, 3, 5, 8, 13, 21, 34, 55)

Ids = Sequence[int]


@dataclass(frozen=True)
class Agreement:
    """How well an export agrees with its model."""

    difference: float
    """Largest difference between log-probabilities of a token; NaN if the software is not installed."""
    lacking: str = ""
    """Python package of the software, if that is not installed."""


class Exported(Protocol):
    """An exported model, loaded by its target software."""

    def encode(self, text: str) -> list[int]:
        """The source ids of a text, without end symbol."""

    def decode(self, ids: Ids) -> str:
        """The text of target ids."""

    def score(self, sources: Sequence[Ids], targets: Sequence[Ids]) -> list[list[float]]:
        """The log-probability of each token of each target, the end symbol's last."""


def require_agreement(
    exported: Exported, model: Model, source_tokenizer: Tokenizer, target_tokenizer: Tokenizer
) -> float:
    """Compare an export with its model on random tokens and on translations of sentences.

    Returns the `largest_difference`; raises ModelError, too, if they split or join text differently.
    """
    encoded = [source_tokenizer.encode(text) for text in SENTENCES]
    if [exported.encode(text) for text in SENTENCES] != encoded:
        raise ModelError(
            "the export splits text into other sub-words than the model; it is not kept, please report it"
        )
    written = [*map(target_tokenizer.encode, SENTENCES)]
    if [*map(exported.decode, written)] != [*map(target_tokenizer.decode, written)]:
        raise ModelError(
            "the export joins sub-words to other text than the model; it is not kept, please report it"
        )
    sources, targets = random_pairs(model.config, SENTINEL)
    most = most_tokens(model.config)
    sentences = [ids[:most] for ids in encoded]
    greedy, engine = SearchConfig(beam_size=1, max_extra_tokens=5), build_engine(model)
    sources += sentences
    targets += [found[0].ids[:most] for found in generate(engine, sentences, greedy)]
    ours = [score.token_log_probs for score in score_targets(engine, sources, targets)]
    return largest_difference(ours, exported.score(sources, targets))


def random_pairs(config: ModelConfig, least: int) -> tuple[list[Ids], list[Ids]]:
    """Pairs of different lengths with random ids from `least` on; always the same pairs."""
    draw, most = np.random.default_rng(1), most_tokens(config)
    lengths = [min(length, most) for length in _LENGTHS]
    sources = [draw.integers(least, config.source_vocab_size, n).tolist() for n in lengths]
    targets = [draw.integers(least, config.target_vocab_size, n).tolist() for n in reversed(lengths)]
    return sources, targets


def most_tokens(config: ModelConfig) -> int:
    """Number of tokens of the longest sentence that is compared, without its end symbol."""
    return (config.most_positions or max(_LENGTHS) + 1) - 1


def largest_difference(ours: list[list[float]], theirs: list[list[float]]) -> float:
    """The largest difference between log-probabilities of a token; raises ModelError if above `TOLERANCE`."""
    if list(map(len, ours)) != list(map(len, theirs)):
        raise ModelError(
            "the other software does not score every token of a target; nothing is kept, please report it"
        )
    expected, found = np.concatenate(ours), np.concatenate(theirs)
    largest = float(np.max(np.abs(expected - found) / np.maximum(1, np.abs(expected))))
    if not largest <= TOLERANCE:  # rejects NaN too
        raise ModelError(
            f"the other software gives other log-probabilities than the model: {largest:.2g} apart, "
            f"{TOLERANCE:g} allowed; nothing is kept, please report it"
        )
    return largest
