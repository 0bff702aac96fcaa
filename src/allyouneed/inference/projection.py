"""The logits of the next token (paper 3.4), over the whole vocabulary or each sentence's shortlist."""

from collections.abc import Callable, Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from allyouneed.inference.selection import Candidates
from allyouneed.inference.vocabulary_shortlist import Shortlist
from allyouneed.symbols import PADDING

_MOST_BLOCKS = 8

Project = Callable[[Tensor], Tensor]
"""Hidden states (*rows, d_model) -> logits (*rows, columns)."""


class FullProjection:
    """Logits of the whole vocabulary, whatever sentences join and leave."""

    candidates: Candidates | None = None
    """Token of each column of the logits; None if column i is token i."""

    def __init__(self, project: Project) -> None:
        self._project = project

    def admit(self, sources: Sequence[Sequence[int]]) -> None:
        """Append sentences to the batch."""

    def keep(self, sentences: Int[Tensor, " kept"]) -> None:
        """Keep only these sentences."""

    def __call__(self, hidden: Float[Tensor, "sentences beams d_model"]) -> Tensor:
        """The logits (sentences, beams, columns), valid until the next call."""
        return self._project(hidden)


class ShortlistProjection:
    """Logits of the candidates of each sentence.

    The logits of all sentences' candidates are computed together; then each sentence gets its own. A
    sentence's columns do not depend on the rest of the batch, so its normaliser has the same bits in any
    batch. New tokens are packed as a separate block. When there are too many blocks, the tokens still in use
    are packed again as one. `pack` builds the projection to the given token ids.
    """

    def __init__(
        self, shortlist: Shortlist, pack: Callable[[Int[Tensor, " columns"]], Project], device: torch.device
    ) -> None:
        self._shortlist, self._pack, self._device = shortlist, pack, device
        self._of_sentences: list[Tensor] = []
        self._blocks: list[Project] = []
        self._num_columns = 0
        self.candidates: Candidates | None = None
        self._column_of = torch.full((shortlist.target_vocab_size,), -1)

    def admit(self, sources: Sequence[Sequence[int]]) -> None:
        """Append sentences to the batch."""
        if not sources:
            return
        new = [torch.from_numpy(self._shortlist.candidates(source)) for source in sources]
        self._of_sentences += new
        self._add_columns(torch.cat(new).unique())
        self._arrange()

    def keep(self, sentences: Int[Tensor, " kept"]) -> None:
        """Keep only these sentences."""
        self._of_sentences = [self._of_sentences[sentence] for sentence in sentences.tolist()]
        self._arrange()

    def __call__(self, hidden: Tensor) -> Tensor:
        """The logits; -inf in the columns beyond a sentence's number of candidates."""
        logits = torch.cat([block(hidden) for block in self._blocks], dim=-1)
        own = logits.gather(2, self._columns[:, None].expand(-1, hidden.size(1), -1))
        return own.masked_fill_(self._absent[:, None], float("-inf"))

    def _add_columns(self, ids: Int[Tensor, " tokens"]) -> None:
        missing = ids[self._column_of[ids] < 0]
        if not len(missing):
            return
        if len(self._blocks) == _MOST_BLOCKS:
            self._blocks.clear()
            self._num_columns = 0
            self._column_of.fill_(-1)
            missing = torch.cat(self._of_sentences).unique()
        self._column_of[missing] = torch.arange(self._num_columns, self._num_columns + len(missing))
        self._num_columns += len(missing)
        self._blocks.append(self._pack(missing.to(self._device)))

    def _arrange(self) -> None:
        """Look up the columns of every sentence's candidates."""
        if not self._of_sentences:
            return
        ids = pad_sequence(self._of_sentences, batch_first=True, padding_value=PADDING)
        counts = torch.tensor([len(of_sentence) for of_sentence in self._of_sentences])
        self._columns = self._column_of[ids].to(self._device)  # (sentences, candidates)
        self._absent = (torch.arange(ids.size(1)) >= counts[:, None]).to(self._device)
        self.candidates = Candidates(ids.to(self._device), self._shortlist.target_vocab_size)


Projection = FullProjection | ShortlistProjection
"""Output projection of a decoding, for sentences that join and leave."""
