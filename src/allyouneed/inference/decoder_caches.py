"""The memory of a decoder: keys and values of the tokens that it has read, or the cells of a recurrent unit.

All of it grows in place: a step writes to the memory that the step before has read.
"""

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn import functional

from allyouneed.model.attention import CrossAttention, SelfAttention, fused_attention
from allyouneed.model.masks import DenseAttention, Positions
from allyouneed.model.ssru import SSRU


def attention_form(attention: SelfAttention | CrossAttention) -> DenseAttention:
    """The form in which a step computes an attention: fused on an accelerator, if it is equation 1."""
    is_on_cpu = attention.output.weight.device.type == "cpu"
    return fused_attention if attention.plain.is_equation_1 and not is_on_cpu else attention.plain


class TokenKeysValues:
    """The keys and values of all tokens that a self-attention has read."""

    def __init__(self, attention: SelfAttention) -> None:
        self._attention, self._keys, self._values = attention, _Store(), _Store()
        self._attend = attention_form(attention)

    def read(
        self,
        x: Float[Tensor, "sentences beams d_model"],
        entries: Int[Tensor, "sentences beams"],
        ancestry: Bool[Tensor, "sentences beams entries"],
        positions: Positions,
    ) -> Float[Tensor, "sentences beams d_model"]:
        """Store one more token of each hypothesis; return what it attends to."""
        query, key, value = self._attention.project(x, positions.query)
        keys = self._keys.write(entries, key, ancestry.size(2))
        values = self._values.write(entries, value, ancestry.size(2))
        attended = self._attend(query, keys, values, ancestry[:, None], positions)
        return self._attention.join(attended)

    def admit(self, num_sentences: int) -> None:
        """Make room for more sentences."""
        self._keys.admit(num_sentences)
        self._values.admit(num_sentences)

    def reorder(self, parents: Int[Tensor, "sentences beams"]) -> None:
        """Do nothing: the ancestry tells the entries of each hypothesis."""

    def keep(self, sentences: Int[Tensor, " kept"], num_entries: int) -> None:
        """Keep only these sentences and their first `num_entries` entries."""
        self._keys.keep(sentences, num_entries)
        self._values.keep(sentences, num_entries)


class Cells:
    """The cells (sentences, beams, d_model) of a recurrent unit."""

    def __init__(self, unit: SSRU, beam_size: int) -> None:
        weight = unit.forget.weight
        self._unit = unit
        dtype = torch.promote_types(weight.dtype, torch.float32)
        self._cells = torch.zeros(0, beam_size, weight.size(0), dtype=dtype, device=weight.device)

    def read(self, x: Float[Tensor, "sentences beams d_model"], *_: object) -> Tensor:
        """Read one more token of each hypothesis; return the unit's outputs."""
        output, cells = self._unit.step(x, self._cells)
        self._cells.copy_(cells)
        return output

    def admit(self, num_sentences: int) -> None:
        """Add sentences of which nothing has been read."""
        self._cells = functional.pad(self._cells, (0, 0, 0, 0, 0, num_sentences))

    def reorder(self, parents: Int[Tensor, "sentences beams"]) -> None:
        """Give each hypothesis the cells of its parent."""
        self._cells.copy_(self._cells.gather(1, parents[:, :, None].expand_as(self._cells)))

    def keep(self, sentences: Int[Tensor, " kept"], num_entries: int) -> None:
        """Keep only these sentences."""
        self._cells = self._cells[sentences]


class _Store:
    """Keys or values (sentences, heads, entries, width); unused entries are zero."""

    def __init__(self) -> None:
        self._memory: Tensor | None = None
        self._num_sentences = 0

    def admit(self, num_sentences: int) -> None:
        """Make room for more sentences."""
        self._num_sentences += num_sentences
        if self._memory is not None:
            self._memory = functional.pad(self._memory, (0, 0, 0, 0, 0, 0, 0, num_sentences))

    def write(
        self,
        entries: Int[Tensor, "sentences beams"],
        new: Float[Tensor, "sentences heads beams width"],
        num_entries: int,
    ) -> Tensor:
        """Write `new` to these entries; return all `num_entries` entries."""
        _, heads, _, width = new.shape
        if self._memory is None:
            self._memory = new.new_zeros(self._num_sentences, heads, num_entries, width)
        if more := num_entries - self._memory.size(2):
            self._memory = functional.pad(self._memory, (0, 0, 0, more))
        return self._memory.scatter_(2, entries[:, None, :, None].expand_as(new), new)

    def keep(self, sentences: Int[Tensor, " kept"], num_entries: int) -> None:
        """Keep only these sentences and their first `num_entries` entries."""
        self._num_sentences = len(sentences)
        if self._memory is not None:
            self._memory = self._memory[sentences, :, :num_entries]
