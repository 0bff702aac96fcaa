"""Hidden states of packed micro-batches by `torch.compile`: few kernels, and none that waits for the host.

Compiled code serves batches of one size. So sentences of padding bring all batches to one number of tokens.
Their hidden states are cut off before the loss, which gives their tokens the weight zero.
"""

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
"""The number of tokens is a multiple of this, as kernels divide their work into tiles."""
_ORDINARY_LENGTH = 32
"""Few batches have longer sentences on average, so fewer sentences than of this length need no size."""


class FixedSizes:
    """Fills batches up to one number of tokens per side, and of sentences, which doubles when it must.

    Both sides of a batch are filled with equally many sentences of padding, none empty or longer than the
    longest: flash attention leaves the results of tokens outside of any sentence undefined.

    Args:
        most_tokens: Maximum tokens per side of a batch.
        longest: Maximum tokens of a sentence.
    """

    def __init__(self, most_tokens: int, longest: int) -> None:
        self._longest = max(2, longest)
        # As many tokens are left as sentences of padding could be needed.
        tokens = -(-(most_tokens + 1) * self._longest // (self._longest - 1))
        self._tokens = -(-tokens // _MULTIPLE) * _MULTIPLE
        self._sentences = 1 << (self._tokens // _ORDINARY_LENGTH).bit_length()

    def pack(self, batch: Batch, device: torch.device) -> tuple[PackedIds, PackedIds]:
        """Pack source and target input of a batch in a size that other batches have, too."""
        sides = batch.source, batch.target_input
        gaps = [self._tokens - int((ids != PADDING).sum()) for ids in sides]
        num_fillers = -(-max(gaps) // self._longest)
        while self._sentences < len(batch.pairs) + num_fillers:
            self._sentences *= 2
        source, target = (
            pack(torch.from_numpy(ids), device, self._filling(gap, num_fillers))
            for ids, gap in zip(sides, gaps, strict=True)
        )
        return source, target

    def _filling(self, tokens: int, num_fillers: int) -> Filling:
        lengths = torch.full((num_fillers,), tokens // num_fillers)
        lengths[: tokens % num_fillers] += 1
        return Filling(lengths, self._sentences, self._longest)


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
        torch.compiler.reset()  # PyTorch compiles `forward` eight times, those of former objects included
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
        needed = "training.packed_tokens" if config.compiled == "on" else "bfloat16 on an NVIDIA GPU"
        return (
            f"micro-batches are not packed; from the start of a run that takes {needed}, "
            "and no variant of attention"
        )
    if model.config.feed_forward == "experts":
        return "the expert of a token depends on its value"
    if num_processes > 1 and config.compiled == "auto":
        return "the other processes could take one that compiles for one that hangs (training.compiled)"
    return None
