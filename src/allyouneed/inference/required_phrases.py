"""Phrases that an output must contain, and how much of them it has; token ids only."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from allyouneed.symbols import END


class Progress(NamedTuple):
    """How much of its phrases an output has."""

    missing: tuple[int, ...]
    """The phrases that are still to be written."""
    begun: tuple[tuple[int, int, int], ...] = ()
    """Phrase, form and number of tokens of each form that the last tokens may be the beginning of."""
    is_behind: bool = False
    """Whether the last token completed a phrase."""


@dataclass(frozen=True, eq=False)
class RequiredPhrases:
    """Phrases that an output must contain."""

    forms: Sequence[Sequence[Sequence[int]]]
    """Token ids of the forms of each phrase, of which one suffices; none is empty. A phrase that must occur
    twice is there twice."""
    continues: NDArray[np.bool_]
    """Whether each token of the vocabulary continues a word, and so cannot follow a phrase."""
    place: int | None = None
    """Number of tokens before the last of the phrases, if it has a place."""

    def start(self) -> Progress:
        """The progress of an empty output."""
        return Progress(tuple(range(len(self.forms))))

    def advanced(self, progress: Progress, token: int, length: int) -> Progress:
        """The progress after one more token, behind `length` others."""
        starts = ((phrase, form, 0) for phrase in progress.missing for form in range(len(self.forms[phrase])))
        begun = []
        for phrase, form, num in chain(progress.begun, starts):
            ids = self.forms[phrase][form]
            is_early = phrase == len(self.forms) - 1 and self.place is not None and length - num < self.place
            if ids[num] != token or is_early:
                continue
            if num + 1 == len(ids):
                missing = [each for each in progress.missing if each != phrase]
                return Progress(tuple(missing), is_behind=True)
            begun.append((phrase, form, num + 1))
        return Progress(progress.missing, tuple(begun))

    def next_tokens(self, progress: Progress, length: int) -> set[int]:
        """The tokens that continue a form that was begun or, if there is none, begin one.

        `length` is the number of tokens that have been written.
        """
        begun = progress.begun
        if self._is_due(progress, length):
            forms, num, last = self.forms[-1], length - (self.place or 0), len(self.forms) - 1
            is_begun = [not num or (last, form, num) in begun for form in range(len(forms))]
            return {ids[num] for ids, is_it in zip(forms, is_begun, strict=True) if is_it}
        if begun:
            return {self.forms[phrase][form][num] for phrase, form, num in begun}
        return {ids[0] for phrase in progress.missing for ids in self.forms[phrase]}

    def allows(self, progress: Progress, token: int, length: int) -> bool:
        """Whether a token may follow."""
        if self._is_due(progress, length):
            return token in self.next_tokens(progress, length)
        if token == END:
            return not progress.missing
        return not (progress.is_behind and self.continues[token])

    def _is_due(self, progress: Progress, length: int) -> bool:
        """Whether the next token must be of the phrase that has a place."""
        is_missing = len(self.forms) - 1 in progress.missing
        return self.place is not None and length >= self.place and is_missing
