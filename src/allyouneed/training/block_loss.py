"""The loss of heads that predict tokens after the next one (Stern et al. 2018, section 6)."""

import numpy as np
import torch
from jaxtyping import Float, Int64
from numpy.typing import NDArray
from torch import Tensor

from allyouneed.model.block_heads import BlockHeads
from allyouneed.model.encoder_decoder import EncoderDecoder
from allyouneed.model.masks import sent
from allyouneed.symbols import PADDING
from allyouneed.training.loss import projected_loss


def block_loss(
    model: EncoderDecoder,
    hidden: Float[Tensor, "target_tokens d_model"],
    target_output: Int64[np.ndarray, "rows target_len"],
    smoothing: float,
) -> Float[Tensor, ""]:
    """The sum over the tokens of a batch of the loss of one head each, in turn.

    That estimates, at the cost of one, the mean of all heads' losses, as the paper's random choice of a head
    for each batch does.

    Args:
        model: A model with heads.
        hidden: Its hidden states, row after row.
        target_output: The tokens that they predict, padded.
        smoothing: As for `projected_loss`.
    """
    heads = model.get_submodule("block_heads")
    assert isinstance(heads, BlockHeads)
    targets = tokens_ahead(target_output, len(heads))
    states, wanted = list[Tensor](), list[NDArray[np.int64]]()
    for head in range(len(heads)):
        own = np.arange(head, len(targets), len(heads))
        own = own[targets[own] != PADDING]
        states.append(heads.of_head(head, hidden[sent(torch.from_numpy(own), hidden.device)]))
        wanted.append(targets[own])
    matrix, bias = model.embeddings.matrix("output"), model.embeddings.bias
    expected = sent(torch.from_numpy(np.concatenate(wanted)), hidden.device)
    return projected_loss(torch.cat(states), matrix, expected, smoothing, bias).smoothed


def tokens_ahead(
    target_output: Int64[np.ndarray, "rows target_len"], num_heads: int
) -> Int64[np.ndarray, " target_tokens"]:
    """The token that the head of each token predicts; padding beyond the end of a sentence.

    Tokens are counted row after row; token n trains head `n % num_heads`, which predicts the token
    `n % num_heads + 1` places behind it.
    """
    rows, places = (target_output != PADDING).nonzero()
    wide = np.pad(target_output, [(0, 0), (0, num_heads)], constant_values=PADDING)
    ahead: NDArray[np.int64] = wide[rows, places + 1 + np.arange(len(rows)) % num_heads]
    return ahead
