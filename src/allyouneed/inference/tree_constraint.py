"""The constraint of parsing: every output is one balanced tree with as many leaves as there are words."""

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from allyouneed.config import SearchConfig
from allyouneed.data.linearisation import TreeVocabulary
from allyouneed.symbols import END, UNKNOWN

_WORDS_LEFT, _TOKENS_LEFT, _DEPTH, _IS_EMPTY, _STACK = range(5)
"""Columns of a state: words and tokens that may still come, constituents that are open, whether the innermost
one holds nothing yet, and from the last on the label of each that is open."""

_MAY_OPEN, _MAY_ADD, _MAY_CLOSE = 1, 2, 4
_NUM_COMBINATIONS = 8


class TreeConstraint:
    """Symbols of `TreeVocabulary` that make one tree; states as `restrictions.Constraint` has them.

    A constituent may open while a word is left for it and tokens for all that has to come: a symbol for each
    word, one for each constituent to close, and the end symbol. So there is always a way to the end.

    Args:
        vocabulary: Of the outputs.
        count_words: The number of words of a source, from its ids with the end symbol.
        config: `max_extra_tokens` and `max_length` bound the tokens of an output.
        max_positions: That the model has, if they are limited.
        max_depth: The most constituents inside each other.
    """

    def __init__(
        self,
        vocabulary: TreeVocabulary,
        count_words: Callable[[Sequence[int]], int],
        config: SearchConfig,
        max_positions: int | None = None,
        max_depth: int = 100,
    ) -> None:
        self._count_words, self._max_depth = count_words, max_depth
        self._max_extra_tokens = config.max_extra_tokens
        self._limits = [limit for limit in (config.max_length, max_positions) if limit is not None]
        symbols = ["" if token <= UNKNOWN else symbol for token, symbol in enumerate(vocabulary.symbols)]
        self._opens = np.array([symbol.startswith("(") for symbol in symbols])
        self._closes = np.array([symbol.startswith(")") for symbol in symbols])
        self._adds = np.array([symbol != "" for symbol in symbols]) & ~self._opens & ~self._closes
        # A plain bracket closes whatever is open: then all labels are one.
        brackets = self._opens | self._closes
        names = [
            symbol[1:] if is_bracket and vocabulary.closing == "labelled" else ""
            for symbol, is_bracket in zip(symbols, brackets, strict=True)
        ]
        labels = sorted(set(names))
        self._label, self._num_labels = np.array([labels.index(name) for name in names]), len(labels)
        self.table = self._build_table()

    def start(self, sources: Sequence[Sequence[int]]) -> NDArray[np.int64]:
        """The states of empty outputs (sentences, columns); sources have their end symbols."""
        states = np.zeros((len(sources), _STACK + self._max_depth + 1), np.int64)
        for state, source in zip(states, sources, strict=True):
            state[_WORDS_LEFT] = self._count_words(source)
            state[_TOKENS_LEFT] = min([len(source) + self._max_extra_tokens, *self._limits])
        return states

    def classify(self, states: NDArray[np.int64]) -> NDArray[np.int64]:
        """The class (sentences, beams) of each state: what may come, and the label to be closed."""
        words, tokens, depth, is_empty = np.moveaxis(states[..., :_STACK], -1, 0)
        # With one more constituent: its words and those after it, what has to be closed, and the end symbol.
        fits = (tokens - 1 >= words + (depth + 1) + 1) & (depth < self._max_depth)
        combination = (
            _MAY_OPEN * ((words > 0) & fits)
            + _MAY_ADD * ((words > 0) & (depth > 0))
            + _MAY_CLOSE * ((depth > 0) & (is_empty == 0) & ((depth > 1) | (words == 0)))
        )
        innermost = np.maximum(_STACK + depth - 1, _STACK)[..., None]
        label = np.take_along_axis(states, innermost, -1)[..., 0]
        is_whole = (depth == 0) & (words == 0)
        return np.where(is_whole, len(self.table) - 1, combination * self._num_labels + label)

    def advance(self, states: NDArray[np.int64], tokens: NDArray[np.int64]) -> NDArray[np.int64]:
        """The states after one more token (sentences, beams) each."""
        opens, closes = self._opens[tokens], self._closes[tokens]
        states = states.copy()
        next_place = (_STACK + states[..., _DEPTH])[..., None]
        before = np.take_along_axis(states, next_place, -1)
        label = np.where(opens[..., None], self._label[tokens][..., None], before)
        np.put_along_axis(states, next_place, label, -1)
        states[..., _WORDS_LEFT] -= self._adds[tokens]
        states[..., _TOKENS_LEFT] -= 1
        depth = states[..., _DEPTH] + opens - closes
        states[..., _DEPTH] = depth.clip(0, self._max_depth)  # beams without a hypothesis write anything
        states[..., _IS_EMPTY] = opens
        return states

    def _build_table(self) -> NDArray[np.bool_]:
        """(classes, vocab): a row for each combination of what may come and label; the last is the end."""
        closes_label = self._closes & (self._label == np.arange(self._num_labels)[:, None])
        rows = [
            (self._opens & bool(combination & _MAY_OPEN))
            | (self._adds & bool(combination & _MAY_ADD))
            | (closes_label & bool(combination & _MAY_CLOSE))
            for combination in range(_NUM_COMBINATIONS)
        ]
        end = np.arange(len(self._opens)) == END
        return np.concatenate([*rows, end[None]])
