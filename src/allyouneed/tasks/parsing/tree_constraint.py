"""The parsing constraints: every output is one balanced tree with exactly one leaf per word."""

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from allyouneed.config.run import SearchConfig
from allyouneed.symbols import END, UNKNOWN
from allyouneed.tasks.parsing.linearisation import ending, is_word, symbols_per_word
from allyouneed.tasks.parsing.tree_vocabulary import TreeVocabulary

_WORDS_LEFT, _TOKENS_LEFT, _DEPTH, _IS_EMPTY, _STACK = range(5)
"""Columns of a state: words and tokens left, number of open constituents, whether the innermost one is still
empty, and from `_STACK` on the label of each open constituent; then, if outputs have endings, those of the
words."""

_MAY_OPEN, _MAY_ADD, _MAY_CLOSE = 1, 2, 4
_NUM_COMBINATIONS = 8


class TreeConstraint:
    """Restricts the symbols of a `TreeVocabulary` to a single tree; implements `selection.Constraint`.

    A constituent may open only while a word is left for it, and tokens for everything still required: one per
    word left, one per constituent to close, and the end symbol. So every output can be completed.

    Args:
        vocabulary: Vocabulary of the outputs.
        words_of: Returns the words of a source, given its ids with the end symbol.
        config: Search settings; `max_extra_tokens` and `max_length` limit the tokens of an output.
        max_positions: Number of positions of the model, if limited.
        max_depth: Maximum depth of nested constituents.
    """

    def __init__(
        self,
        vocabulary: TreeVocabulary,
        words_of: Callable[[Sequence[int]], Sequence[str]],
        config: SearchConfig,
        max_positions: int | None = None,
        max_depth: int = 100,
    ) -> None:
        self._words_of, self._max_depth = words_of, max_depth
        self._first_word = _STACK + max_depth + 1
        self._max_extra_tokens = config.max_extra_tokens
        self._limits = [limit for limit in (config.max_length, max_positions) if limit is not None]
        symbols = ["" if token <= UNKNOWN else symbol for token, symbol in enumerate(vocabulary.symbols)]
        self._opens = np.array([symbol.startswith("(") for symbol in symbols])
        self._closes = np.array([symbol.startswith(")") for symbol in symbols])
        self._adds = np.array([symbol != "" for symbol in symbols]) & ~self._opens & ~self._closes
        # A plain bracket closes any constituent, so all labels count as one.
        brackets = self._opens | self._closes
        names = [
            symbol[1:] if is_bracket and vocabulary.brackets == "labelled" else ""
            for symbol, is_bracket in zip(symbols, brackets, strict=True)
        ]
        labels = sorted(set(names))
        self._label, self._num_labels = np.array([labels.index(name) for name in names]), len(labels)
        # Symbols that are tied to a word by its ending; none if any symbol may stand for any word.
        self._endings = np.flatnonzero(self._adds).tolist() if vocabulary.tags == "endings" else []
        self._place_of = {vocabulary.symbols[token]: place for place, token in enumerate(self._endings)}
        self.table = self._build_table()

    def start(self, sources: Sequence[Sequence[int]]) -> NDArray[np.int64]:
        """The states of empty outputs (sentences, columns); sources include their end symbols."""
        words = [self._words_of(source) for source in sources]
        longest = max(map(len, words)) if self._endings else 0
        states = np.zeros((len(sources), self._first_word + longest), np.int64)
        for state, source, of_source in zip(states, sources, words, strict=True):
            state[_WORDS_LEFT] = len(of_source)
            state[_TOKENS_LEFT] = min([len(source) + self._max_extra_tokens, *self._limits])
            if (
                self._endings
            ):  # the last word first, so that the number of words left tells the next one's place
                places = [self._place_of[ending(word)] for word in reversed(of_source)]
                state[self._first_word : self._first_word + len(places)] = places
        return states

    def classify(self, states: NDArray[np.int64]) -> NDArray[np.int64]:
        """The class (sentences, beams) of each state: what may come next, and the label that may close."""
        words, tokens, depth, is_empty = np.moveaxis(states[..., :_STACK], -1, 0)
        # After one more opening: the words left, the constituents to close, and the end symbol must fit.
        fits = (tokens - 1 >= words + (depth + 1) + 1) & (depth < self._max_depth)
        combination = (
            _MAY_OPEN * ((words > 0) & fits)
            + _MAY_ADD * ((words > 0) & (depth > 0))
            + _MAY_CLOSE * ((depth > 0) & (is_empty == 0) & ((depth > 1) | (words == 0)))
        )
        innermost = np.maximum(_STACK + depth - 1, _STACK)[..., None]
        label = np.take_along_axis(states, innermost, -1)[..., 0]
        is_whole = (depth == 0) & (words == 0)
        following: NDArray[np.int64] | int = 0
        if self._endings:
            place = self._first_word + np.maximum(words - 1, 0)
            following = np.take_along_axis(states, place[..., None], -1)[..., 0]
        open_class = (following * _NUM_COMBINATIONS + combination) * self._num_labels + label
        return np.where(is_whole, len(self.table) - 1, open_class)

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
        """Allowed tokens (classes, vocab): rows by next word, combination, label, in this order; the end."""
        tokens = np.arange(len(self._opens))
        words = [tokens == token for token in self._endings] or [self._adds]
        closes_label = self._closes & (self._label == np.arange(self._num_labels)[:, None])
        rows = [
            (self._opens & bool(combination & _MAY_OPEN))
            | (word & bool(combination & _MAY_ADD))
            | (closes_label & bool(combination & _MAY_CLOSE))
            for word in words
            for combination in range(_NUM_COMBINATIONS)
        ]
        return np.concatenate([*rows, (tokens == END)[None]])


_UNREAD_WORDS, _NUM_OPEN, _DEEPEST, _NUM_WRITTEN, _WORD_SYMBOLS = range(5)
"""Columns of a state: words not yet complete; open constituents, and the most that may be open; number of
symbols written of the current word; then, if outputs have endings or words, those of the words, last word
first."""


class JoinedTreeConstraint:
    """As `TreeConstraint`, for joined brackets.

    Before a word, only as many constituents may open as the words left can close; the first word opens at
    least one. After a word, at least one constituent stays open; after the last word, all close. `symbols_of`
    returns a symbol for each word of a source; if outputs have endings or words, those of the word.
    """

    def __init__(
        self,
        vocabulary: TreeVocabulary,
        symbols_of: Callable[[Sequence[int]], Sequence[str]],
        config: SearchConfig,
        max_positions: int | None = None,
        max_depth: int = 100,
    ) -> None:
        self._symbols_of, self._max_depth = symbols_of, max_depth
        self._per_word = symbols_per_word(vocabulary.tags)
        self._max_extra_tokens = config.max_extra_tokens
        self._limits = [limit for limit in (config.max_length, max_positions) if limit is not None]
        symbols = ["" if token <= UNKNOWN else symbol for token, symbol in enumerate(vocabulary.symbols)]
        self._opens = np.array([symbol.startswith("(") for symbol in symbols])
        self._closes = np.array([symbol.startswith(")") for symbol in symbols])
        is_of_word = np.array([is_word(symbol) for symbol in symbols])
        self._adds = np.array([symbol != "" for symbol in symbols])
        self._adds &= ~(self._opens | self._closes | is_of_word)
        self._begun = np.array([sum(map(bool, s.split("("))) if s.startswith("(") else 0 for s in symbols])
        self._ended = np.array([int(s[1:]) if s.startswith(")") else 0 for s in symbols])
        self._most_begun, self._most_ended = (
            min(int(numbers.max()), max_depth) for numbers in (self._begun, self._ended)
        )
        self._word_comes_first = vocabulary.tags == "words"  # before what opens; an ending comes after it
        of_words = {"endings": self._adds, "words": is_of_word}.get(vocabulary.tags, np.zeros(0, bool))
        self._word_symbols = np.flatnonzero(of_words).tolist()
        self._place_of = {vocabulary.symbols[token]: place for place, token in enumerate(self._word_symbols)}
        self.table = self._build_table()

    def start(self, sources: Sequence[Sequence[int]]) -> NDArray[np.int64]:
        """The states of empty outputs (sentences, columns); sources include their end symbols."""
        words = [self._symbols_of(source) for source in sources]
        longest = max(map(len, words)) if self._word_symbols else 0
        states = np.zeros((len(sources), _WORD_SYMBOLS + longest), np.int64)
        for state, source, of_source in zip(states, sources, words, strict=True):
            state[_UNREAD_WORDS] = len(of_source)
            tokens = min([len(source) + self._max_extra_tokens, *self._limits])
            # Without room for all symbols and the end symbol, nothing may open: there is no tree.
            state[_DEEPEST] = self._max_depth * (tokens > self._per_word * len(of_source))
            if self._word_symbols:
                places = [self._place_of[symbol] for symbol in of_source]
                state[_WORD_SYMBOLS : _WORD_SYMBOLS + len(places)] = places[::-1]
        return states

    def classify(self, states: NDArray[np.int64]) -> NDArray[np.int64]:
        """The class (sentences, beams) of each state: kind of the next symbol, least and most brackets."""
        words, depth, deepest, num_written = np.moveaxis(states[..., :_WORD_SYMBOLS], -1, 0)
        room = np.minimum(deepest, self._most_ended * words) - depth
        opening = (depth == 0) * (self._most_begun + 1) + room.clip(0, self._most_begun)
        least = np.where(words == 1, depth, depth - np.minimum(deepest, self._most_ended * (words - 1)))
        most = np.where(words == 1, depth, depth - 1)
        least, most = least.clip(0, self._most_ended), most.clip(0, self._most_ended)
        closing = self._first_closing + least * (self._most_ended + 1) + most
        found = np.where(num_written == int(self._word_comes_first), opening, self._any_tag)
        if self._word_symbols:
            place = (_WORD_SYMBOLS + np.maximum(words - 1, 0))[..., None]
            writing = self._first_word_class + np.take_along_axis(states, place, -1)[..., 0]
            found = np.where(num_written == int(not self._word_comes_first), writing, found)
        found = np.where(num_written == self._per_word - 1, closing, found)
        return np.where(words == 0, len(self.table) - 1, found)

    def advance(self, states: NDArray[np.int64], tokens: NDArray[np.int64]) -> NDArray[np.int64]:
        """The states after one more token (sentences, beams) each."""
        states = states.copy()
        depth = states[..., _NUM_OPEN] + self._begun[tokens] - self._ended[tokens]
        states[..., _NUM_OPEN] = depth.clip(0, self._max_depth)  # beams without a hypothesis write anything
        num_written = states[..., _NUM_WRITTEN] + 1
        states[..., _NUM_WRITTEN] = num_written % self._per_word
        is_whole = num_written == self._per_word
        states[..., _UNREAD_WORDS] = np.maximum(states[..., _UNREAD_WORDS] - is_whole, 0)
        return states

    def _build_table(self) -> NDArray[np.bool_]:
        """Allowed tokens (classes, vocab): rows for opening and closing symbols, any tag, words; the end."""
        begun, ended = np.arange(self._most_begun + 1), np.arange(self._most_ended + 1)
        opening = [
            self._opens & (self._begun >= least) & (self._begun <= most) for least in (0, 1) for most in begun
        ]
        closing = [
            self._closes & (self._ended >= least) & (self._ended <= most) for least in ended for most in ended
        ]
        words = np.zeros((len(self._word_symbols), len(self._opens)), bool)
        words[range(len(words)), self._word_symbols] = True
        self._first_closing = len(opening)
        self._any_tag = len(opening) + len(closing)
        self._first_word_class = self._any_tag + 1
        end = np.arange(len(self._opens)) == END
        return np.concatenate([np.array([*opening, *closing, self._adds]), words, end[None]])
