"""A step of the kernel leaves the same bits in every array as a step of numpy, whatever the candidates."""

import math
from collections.abc import Iterator

import numpy as np
import pytest
from numpy.typing import NDArray
from tests.kernels import require_kernels

from allyouneed.config.run import SearchConfig
from allyouneed.inference.beams import Beams, SearchRules
from allyouneed.inference.search import length_penalty
from allyouneed.symbols import END, UNKNOWN

NORMALIZATIONS = ("gnmt", "average", "none")
ARRAYS = ("scores", "lengths", "max_lengths", "tokens", "parents", "log_probs", "num_ended")
NUM_WALKS, LONGEST = 60, 75
_LEVELS = np.array([-0.25, -0.5, -1.0, -4.0], np.float32)


class Walk:
    """A random search, step by step in both ways; sentences join and leave as in `BeamSearch`.

    Its candidates are drawn: of few different values, so that most scores tie, or of many; some are
    impossible, some are no numbers, and some end.
    """

    def __init__(self, seed: int, beam_size: int, *, early_stopping: bool) -> None:
        self._draw = np.random.default_rng((seed, beam_size, early_stopping))
        config = SearchConfig.model_validate(
            {
                "length_normalization": NORMALIZATIONS[seed % 3],
                "length_penalty": float(self._draw.choice([0.0, 0.6, 2.5])),
            }
        )
        self._rules = [
            SearchRules(
                num_candidates=2 * beam_size if beam_size > 1 else 1,
                penalties=length_penalty(np.arange(LONGEST + 1), config),
                early_stopping=early_stopping,
                native=native,
            )
            for native in (True, False)
        ]
        shares = [0.0, 0.1, 0.5], [0.0, 0.2, 0.8], [0.0, 0.0, 0.1]
        self._ends, self._impossible, self._no_numbers = (
            self._draw.choice(values) if seed % 4 else 0.0  # nothing stops every fourth walk
            for values in shares
        )
        self._has_levels = bool(self._draw.integers(2))
        self._chosen = int(self._draw.integers(1, 2 * beam_size + 1))
        self._left_to_join = int(self._draw.integers(4))
        n_best = 1 + seed % beam_size
        self.longest, max_lengths = 0, self._max_lengths(1 + int(self._draw.integers(4)))
        self.beams = [Beams.of(max_lengths.copy(), beam_size, n_best) for _ in self._rules]

    def steps(self) -> Iterator[tuple[list[NDArray[np.int64]], list[NDArray[np.bool_]]]]:
        """Parents and sentences that are done after each step, by the kernel and by numpy."""
        while len(self.beams[0].lengths):
            log_probs, tokens = self._candidates()
            parents, done = zip(
                *(
                    beams.advance(log_probs.copy(), tokens.copy(), rules)
                    for beams, rules in zip(self.beams, self._rules, strict=True)
                ),
                strict=True,
            )
            yield list(parents), list(done)
            self.longest = max(self.longest, int(self.beams[1].lengths.max()))
            self._join_and_leave(done[1])

    def _max_lengths(self, num_sentences: int) -> NDArray[np.int64]:
        longest = self._draw.choice([3, 20, LONGEST], num_sentences)
        lengths: NDArray[np.int64] = self._draw.integers(1, longest + 1)
        return lengths

    def _candidates(self) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        draw, shape = self._draw, (*self.beams[0].scores.shape, self._chosen)
        values = draw.choice(_LEVELS, shape) if self._has_levels else -draw.exponential(size=shape)
        log_probs = values.astype(np.float32)
        log_probs[draw.random(shape) < self._impossible] = -math.inf
        log_probs[draw.random(shape) < self._no_numbers] = math.nan
        tokens = draw.integers(UNKNOWN, UNKNOWN + 9, shape)
        tokens[draw.random(shape) < self._ends] = END
        return log_probs, tokens

    def _join_and_leave(self, done: NDArray[np.bool_]) -> None:
        """Sentences that are done wait for others, but not if one has reached its maximum length."""
        at_end = self.beams[1].lengths >= self.beams[1].max_lengths
        if done.any() and (at_end.any() or self._draw.random() < 0.3):
            self.beams = [beams.keep((~done).nonzero()[0]) for beams in self.beams]
        if self._left_to_join and self._draw.random() < 0.2:
            self._left_to_join -= 1
            more = self._max_lengths(1)
            self.beams = [beams.with_more(more.copy()) for beams in self.beams]


def bits(beams: Beams) -> dict[str, bytes]:
    """All arrays; of the finished hypotheses every field, as there is unused space between them."""
    found = {name: getattr(beams, name).tobytes() for name in ARRAYS}
    return found | {name: beams.finished[name].tobytes() for name in beams.finished.dtype.names or ()}


@pytest.mark.parametrize("early_stopping", [False, True])
@pytest.mark.parametrize("beam_size", [1, 2, 4, 5])
def test_the_kernel_leaves_the_bits_of_numpy_in_all_arrays(beam_size: int, early_stopping: bool) -> None:
    require_kernels()
    longest = 0
    for seed in range(NUM_WALKS):
        walk = Walk(seed, beam_size, early_stopping=early_stopping)
        for parents, done in walk.steps():
            native, expected = walk.beams
            assert bits(native) == bits(expected)
            for found, wanted in (parents, done):
                assert (found.dtype, found.tobytes()) == (wanted.dtype, wanted.tobytes())
            for sentence in done[1].nonzero()[0].tolist():
                assert native.best(sentence) == expected.best(sentence)
        longest = max(longest, walk.longest)
    assert longest > 64  # the positions have doubled twice
