"""The logits of the next token (paper 3.4), over the whole vocabulary or each sentence's shortlist."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from allyouneed.inference.selection import Candidates
from allyouneed.inference.vocabulary_shortlist import Shortlist
from allyouneed.native.arrays import Int64
from allyouneed.symbols import PADDING

_MOST_BLOCKS = 8

Project = Callable[[Any], Any]
"""Hidden states (*rows, d_model) -> logits (*rows, columns), both NumPy's arrays or PyTorch's tensors."""


class FullProjection:
    """Logits of the whole vocabulary, whatever sentences join and leave."""

    candidates: Candidates | None = None
    """Token of each column of the logits; None if column i is token i."""

    def __init__(self, project: Project) -> None:
        self._project = project

    def admit(self, sources: Sequence[Sequence[int]]) -> None:
        """Append sentences to the batch."""

    def keep(self, sentences: Int64[np.ndarray, " kept"]) -> None:
        """Keep only these sentences."""

    def __call__(self, hidden: Any) -> Any:
        """The logits (sentences, beams, columns) of hidden states (sentences, beams, d_model).

        They are valid until the next call.
        """
        return self._project(hidden)


class ShortlistProjection(FullProjection):
    """Logits of the candidates of each sentence.

    The logits of all sentences' candidates are computed together; then each sentence gets its own. A
    sentence's columns do not depend on the rest of the batch, so its normaliser has the same bits in any
    batch. New tokens are packed as a separate block. When there are too many blocks, the tokens still in use
    are packed again as one. `pack` builds the projection to the given token ids.
    """

    def __init__(
        self, shortlist: Shortlist, pack: Callable[[Int64[np.ndarray, " columns"]], Project]
    ) -> None:
        self._shortlist, self._pack = shortlist, pack
        self._of_sentences: list[NDArray[np.int64]] = []
        self._blocks: list[Project] = []
        self._num_columns = 0
        self._column_of = np.full(shortlist.target_vocab_size, -1)

    def admit(self, sources: Sequence[Sequence[int]]) -> None:
        """Append sentences to the batch."""
        if not sources:
            return
        new = [self._shortlist.candidates(source) for source in sources]
        self._of_sentences += new
        self._add_columns(np.unique(np.concatenate(new)))
        self._arrange()

    def keep(self, sentences: Int64[np.ndarray, " kept"]) -> None:
        """Keep only these sentences."""
        self._of_sentences = [self._of_sentences[sentence] for sentence in sentences.tolist()]
        self._arrange()

    def __call__(self, hidden: Any) -> Any:
        """The logits; -inf in the columns beyond a sentence's number of candidates."""
        return self._own([block(hidden) for block in self._blocks])

    def _own(self, logits: list[Any]) -> Any:
        """The logits of each sentence's candidates, given those of all blocks (sentences, beams, columns)."""
        joined = logits[0] if len(logits) == 1 else np.concatenate(logits, axis=2)
        own = np.take_along_axis(joined, self._columns[:, None], axis=2)
        np.copyto(own, -np.inf, where=self._absent[:, None])
        return own

    def _add_columns(self, ids: NDArray[np.int64]) -> None:
        missing = ids[self._column_of[ids] < 0]
        if not len(missing):
            return
        if len(self._blocks) == _MOST_BLOCKS:
            self._blocks.clear()
            self._num_columns = 0
            self._column_of.fill(-1)
            missing = np.unique(np.concatenate(self._of_sentences))
        self._column_of[missing] = np.arange(self._num_columns, self._num_columns + len(missing))
        self._num_columns += len(missing)
        self._blocks.append(self._pack(missing))

    def _arrange(self) -> None:
        """Look up the columns of every sentence's candidates."""
        if not self._of_sentences:
            return
        counts = np.array([len(of_sentence) for of_sentence in self._of_sentences])
        self._absent = np.arange(counts.max()) >= counts[:, None]
        ids = np.full(self._absent.shape, PADDING)
        ids[~self._absent] = np.concatenate(self._of_sentences)
        self._columns = self._column_of[ids]  # (sentences, candidates)
        self.candidates = Candidates(ids, self._shortlist.target_vocab_size)
