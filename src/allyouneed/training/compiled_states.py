"""Hidden states of packed micro-batches by `torch.compile`: few kernels, and none that waits for the host.

Compiled code serves batches of one size. So sentences of padding bring each batch to one of a few sizes.
Their hidden states are cut off before the loss, which gives their tokens the weight zero.
"""

from itertools import product
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from allyouneed.config.run import TrainingConfig
from allyouneed.data.batch_plans import Batch
from allyouneed.hardware.devices import is_nvidia_since_ampere
from allyouneed.model.encoder_decoder import EncoderDecoder
from allyouneed.model.masks import Filling, PackedIds, pack
from allyouneed.model.transformer import Transformer
from allyouneed.symbols import PADDING
from allyouneed.training.update import takes_flash

_MULTIPLE = 128
"""Sizes are multiples of this, as kernels divide their work into tiles."""
_LEVELS = 4, 8, *range(12, 17)
"""Sizes, in 16ths of the largest; most batches are nearly full."""
_MOST_SIZES = 6
"""Number of sizes in use from which on a batch takes a larger one that is; PyTorch compiles eight."""


class PackedSize(NamedTuple):
    """The size of a packed batch."""

    source_tokens: int
    target_tokens: int
    sentences: int


class FixedSizes:
    """Chooses the sizes of packed batches, and fills batches up to them.

    Both sides of a batch are filled with equally many sentences of padding, none empty or longer than the
    longest: flash attention leaves the results of tokens outside of any sentence undefined.

    Args:
        most_tokens: Maximum tokens per side of a batch.
        longest: Maximum tokens of a sentence.
    """

    def __init__(self, most_tokens: int, longest: int) -> None:
        self._longest = max(2, longest)
        # As many tokens are left in the largest size as sentences of padding could be needed.
        top = _rounded(-(-(most_tokens + 1) * self._longest // (self._longest - 1)))
        self._levels = sorted({_rounded(top * level // 16) for level in _LEVELS} | {top})
        self._used: list[PackedSize] = []

    def pack(self, batch: Batch, device: torch.device) -> tuple[PackedIds, PackedIds]:
        """Pack source and target input of a batch in a size that other batches have, too."""
        sides = batch.source, batch.target_input
        tokens = [int((ids != PADDING).sum()) for ids in sides]
        size = self._size(tokens, len(batch.pairs))
        num_fillers = self._num_fillers(size, tokens)
        source, target = (
            pack(torch.from_numpy(ids), device, self._filling(of_size - real, num_fillers, size.sentences))
            for ids, real, of_size in zip(sides, tokens, size, strict=False)
        )
        return source, target

    def _filling(self, tokens: int, num_fillers: int, num_sentences: int) -> Filling:
        lengths = torch.full((num_fillers,), tokens // num_fillers)
        lengths[: tokens % num_fillers] += 1
        return Filling(lengths, num_sentences, self._longest)

    def _num_fillers(self, size: PackedSize, tokens: list[int]) -> int:
        """The number of sentences of padding that fill both sides; 0 if no number does."""
        gaps = size.source_tokens - tokens[0], size.target_tokens - tokens[1]
        number = -(-max(gaps) // self._longest)
        return number if number <= min(gaps) else 0

    def _size(self, tokens: list[int], rows: int) -> PackedSize:
        """The smallest size that a batch can be filled up to, or, after several, the smallest in use."""
        possible = [PackedSize(source, target, rows) for source, target in product(self._levels, repeat=2)]
        size = min((size for size in possible if self._num_fillers(size, tokens)), key=sum)
        size = size._replace(sentences=_stepped(rows + self._num_fillers(size, tokens)))
        if size not in self._used and len(self._used) >= _MOST_SIZES:
            size = min(
                (used for used in self._used if 0 < self._num_fillers(used, tokens) <= used.sentences - rows),
                key=sum,
                default=self._largest(rows),
            )
        if size not in self._used:
            self._used.append(size)
        return size

    def _largest(self, rows: int) -> PackedSize:
        top = self._levels[-1]
        return PackedSize(
            top, top, _stepped(max(rows, *(used.sentences for used in self._used)) + top // self._longest)
        )


class CompiledStates:
    """Hidden states like those of `packed_hidden_states`, computed by compiled code.

    Dropout draws from PyTorch's generator of the device, in another order than the same model not compiled.
    """

    def __init__(self, model: EncoderDecoder, most_tokens: int, longest: int) -> None:
        assert isinstance(model, Transformer)
        self._sizes = FixedSizes(most_tokens, longest)
        for positions in (model.source_positions, model.target_positions):
            positions(longest)  # compiled code cannot lengthen their tables

        def forward(source: PackedIds, target_input: PackedIds) -> Tensor:
            hidden: Tensor = model(source, target_input)  # (1, target_tokens, d_model)
            return hidden[0]

        self._model = model
        self._compiled = torch.compile(forward, fullgraph=True, dynamic=False)

    def __call__(
        self, model: EncoderDecoder, batch: Batch, device: torch.device
    ) -> Float[Tensor, "target_tokens d_model"]:
        """The hidden states that predict the batch's target tokens; `model` is the one given before."""
        assert model is self._model
        hidden = self._compiled(*self._sizes.pack(batch, device))
        return hidden[: batch.num_target_tokens]


def is_packed(model: EncoderDecoder, config: TrainingConfig, device: torch.device) -> bool:
    """Whether a run packs micro-batches; without flash attention that takes the square of their memory."""
    if config.packed_tokens is None:
        return False
    return config.compiled == "on" or takes_flash(model, config.precision, device)


def reason_not_to_compile(
    model: EncoderDecoder, config: TrainingConfig, device: torch.device, num_processes: int
) -> str | None:
    """Why a run is not compiled, in a few words; "" if that needs no words, None if it is compiled."""
    if config.compiled == "off" or (config.compiled == "auto" and not is_nvidia_since_ampere(device)):
        return ""
    if not is_packed(model, config, device):
        return (
            "micro-batches are not packed; that takes bfloat16, an NVIDIA GPU and no variant of attention, "
            "from the start of a run"
        )
    if model.config.feed_forward == "experts":
        return "the expert of a token depends on its value"
    if num_processes > 1 and config.compiled == "auto":
        return "the other processes could take one that compiles for one that hangs (training.compiled)"
    return None


def _rounded(tokens: int) -> int:
    return -(-tokens // _MULTIPLE) * _MULTIPLE


def _stepped(sentences: int) -> int:
    """The next number of the form 2^n or 3 * 2^n."""
    power = 1 << (sentences - 1).bit_length()
    return power * 3 // 4 if sentences <= power * 3 // 4 else power
