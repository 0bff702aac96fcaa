"""Steps in tensors leave what steps of numpy leave, to the bit, however many the host does not look at."""

import math

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from allyouneed.config.run import SearchConfig
from allyouneed.inference.beams import Beams, SearchRules
from allyouneed.inference.search import STEPS_BETWEEN_LOOKS, length_penalty
from allyouneed.inference.tensor_beams import TensorBeams
from allyouneed.symbols import END, UNKNOWN

NORMALIZATIONS = ("gnmt", "average", "none")
NUM_WALKS, LONGEST = 40, 40
TABLES = "tokens", "parents", "log_probs"
_LEVELS = np.array([-0.25, -0.5, -1.0, -4.0], np.float32)
CPU = torch.device("cpu")


class Walk:
    """A random search: of the batch in tensors, and of each of its sentences with numpy.

    Candidates are drawn: of few different values, so that most scores tie, or of many; some are impossible,
    some are no numbers, and some end.
    """

    def __init__(self, seed: int, beam_size: int, *, early_stopping: bool) -> None:
        self.draw = np.random.default_rng((seed, beam_size, early_stopping))
        config = SearchConfig.model_validate(
            {"length_normalization": NORMALIZATIONS[seed % 3], "length_penalty": seed % 4 / 2}
        )
        self.rules = SearchRules(
            num_candidates=2 * beam_size if beam_size > 1 else 1,
            penalties=length_penalty(np.arange(LONGEST + 1), config),
            early_stopping=early_stopping,
            native=False,
        )
        self._k = int(self.draw.integers(1, 2 * beam_size + 1))
        self._ends, self._impossible, self._no_numbers = (
            self.draw.choice(values) if seed % 4 else 0.0  # nothing stops every fourth walk
            for values in ([0.0, 0.05, 0.4], [0.0, 0.2], [0.0, 0.02])
        )
        self._has_levels = bool(self.draw.integers(2))
        max_lengths = self.draw.integers(1, 1 + self.draw.choice([3, LONGEST], 5))
        n_best = 1 + seed % beam_size
        self.batch = Beams.of(max_lengths.copy(), beam_size, n_best)
        self.alone = [Beams.of(max_lengths[[place]], beam_size, n_best) for place in range(len(max_lengths))]
        self.done = np.zeros(len(max_lengths), np.bool_)

    def go(self) -> None:
        """Do some steps in both ways."""
        num_steps = int(self.draw.integers(1, STEPS_BETWEEN_LOOKS + 1))
        there = TensorBeams(self.batch, self.rules, STEPS_BETWEEN_LOOKS, CPU)
        there.load(self.batch)
        for _ in range(num_steps):
            log_probs, tokens = self._candidates()
            there.advance(torch.from_numpy(log_probs.copy()), torch.from_numpy(tokens.copy()))
            for place, beams in enumerate(self.alone):
                if beams.lengths[0] < beams.max_lengths[0]:
                    _, [self.done[place]] = beams.advance(log_probs[[place]], tokens[[place]], self.rules)
        assert there.give_back(self.batch, num_steps).tolist() == self.done.tolist()

    def leave(self) -> None:
        self.batch = self.batch.keep((~self.done).nonzero()[0])
        self.alone = [beams for beams, is_done in zip(self.alone, self.done, strict=True) if not is_done]
        self.done = self.done[~self.done]

    def _candidates(self) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        shape = (*self.batch.scores.shape, self._k)
        values = self.draw.choice(_LEVELS, shape) if self._has_levels else -self.draw.exponential(size=shape)
        log_probs = values.astype(np.float32)
        log_probs[self.draw.random(shape) < self._impossible] = -math.inf
        log_probs[self.draw.random(shape) < self._no_numbers] = math.nan
        tokens = self.draw.integers(UNKNOWN, UNKNOWN + 9, shape)
        tokens[self.draw.random(shape) < self._ends] = END
        return log_probs, tokens


def bits(beams: Beams) -> dict[str, bytes]:
    """The state of a single sentence, as far as it has been written."""
    written = int(beams.lengths[0]) + 1
    found = {name: getattr(beams, name).tobytes() for name in ("scores", "lengths", "num_ended")}
    found |= {name: getattr(beams, name)[:, :, :written].tobytes() for name in TABLES}
    return found | {name: beams.finished[name].tobytes() for name in beams.finished.dtype.names or ()}


@pytest.mark.parametrize("early_stopping", [False, True])
@pytest.mark.parametrize("beam_size", [1, 2, 4, 5])
def test_a_step_in_tensors_leaves_the_bits_of_a_step_of_numpy(beam_size: int, early_stopping: bool) -> None:
    longest = 0
    for seed in range(NUM_WALKS):
        walk = Walk(seed, beam_size, early_stopping=early_stopping)
        while walk.alone:
            walk.go()
            for place, expected in enumerate(walk.alone):
                if not walk.done[place]:
                    assert bits(walk.batch.keep(np.array([place]))) == bits(expected)
                assert walk.batch.best(place) == expected.best(0)
            longest = max(longest, int(walk.batch.lengths.max()))
            if walk.done.all() or walk.draw.random() < 0.3:
                walk.leave()
    assert longest > 32  # the positions have doubled


def test_sentences_stay_as_they_are_once_they_are_done() -> None:
    """A sentence that reaches its maximum length goes through the steps of the others unchanged."""
    rules = SearchRules(4, np.ones(9), native=False)
    beams = Beams.of(np.array([1, 8]), beam_size=2, n_best=2)
    there = TensorBeams(beams, rules, STEPS_BETWEEN_LOOKS, CPU)
    there.load(beams)
    log_probs = torch.tensor([-1.0, -2.0]).expand(2, 2, 2).contiguous()
    tokens = torch.tensor([5, 6]).expand(2, 2, 2).contiguous()
    for _ in range(8):
        there.advance(log_probs, tokens)
        assert there.positions().tolist() == [0, min(int(there.lengths[1]), 7)]
    assert there.give_back(beams, 8).all()
    assert [hypothesis.ids for hypothesis in beams.best(0)] == [[5], [6]]
    assert [hypothesis.ids for hypothesis in beams.best(1)] == [[5] * 8, [5] * 7 + [6]]
    assert beams.lengths.tolist() == [1, 8]
