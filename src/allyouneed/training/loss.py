"""Label-smoothed cross-entropy (paper 5.4): `1 - smoothing` on the right token, `smoothing / V` on all.

`label_smoothed_cross_entropy` is written to be read; training uses `projected_loss`, which never holds all
logits. Tests keep the two equal.
"""

from typing import Any, NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional

from allyouneed.native.gradient_kernels import accumulate_, is_known, scaled_difference, softmax_
from allyouneed.native.library import library
from allyouneed.training.memory_estimate import chunk_elements


class LossSums(NamedTuple):
    """Sums over the tokens of a batch, in nats; divide by the number of tokens of the global batch."""

    smoothed: Float[Tensor, ""]
    """The training objective."""
    negative_log_likelihood: Float[Tensor, ""]
    """The loss without smoothing, for perplexity. It has no gradient."""


def label_smoothed_cross_entropy(
    logits: Float[Tensor, "tokens vocab"], targets: Int[Tensor, " tokens"], smoothing: float
) -> LossSums:
    """Sum `-sum_k q(k) log p(k)` over the tokens, with `q = (1 - smoothing) onehot(target) + smoothing / V`.

    Args:
        logits: Scores of each next token, whose softmax is p.
        targets: The right tokens, without padding.
        smoothing: Probability that is spread evenly over all V tokens; 0.1 in the paper.
    """
    log_probs = logits.log_softmax(dim=-1)
    vocab = logits.size(-1)
    onehot = functional.one_hot(targets, vocab).to(log_probs.dtype)
    smoothed = (1 - smoothing) * onehot + smoothing / vocab
    return LossSums(-(smoothed * log_probs).sum(), -(onehot * log_probs).sum().detach())


def smoothing_over_all(smoothing: float, over: str, vocab_size: int) -> float:
    """Convert `smoothing` over "all" entries, or over the "others", to smoothing over all entries.

    The authors' code of 2017 puts `smoothing / (V - 1)` on every other token and `1 - smoothing` on the right
    one. That equals `smoothing V / (V - 1)` spread over all tokens.
    """
    return smoothing if over == "all" else smoothing * vocab_size / (vocab_size - 1)


def projected_loss(
    hidden: Float[Tensor, "tokens d_model"],
    matrix: Float[Tensor, "vocab d_model"],
    targets: Int[Tensor, " tokens"],
    smoothing: float,
    bias: Float[Tensor, " vocab"] | None = None,
) -> LossSums:
    """The loss of the logits `hidden @ matrix.T`, plus `bias`, without ever storing all of them.

    The same pass computes the products of the gradients; that of the matrix is finished in the backward pass.
    With p the softmax of a row of logits, the row's gradient is
    `p - smoothing / V - (1 - smoothing) onehot(target)`. Only p is a full matrix: the other terms have rank
    one or are sparse, and are added exactly after the products with p. If autocast is on, the products use
    its dtype. Products of gradients that nothing needs are left out.
    """
    of_hidden, of_matrix = (torch.is_grad_enabled() and each.requires_grad for each in (hidden, matrix))
    return LossSums(
        *_ProjectedLoss.apply(hidden, matrix, targets, smoothing, bias, of_hidden, of_matrix)  # type: ignore[no-untyped-call]
    )


class _ProjectedLoss(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        hidden: Tensor,
        matrix: Tensor,
        targets: Tensor,
        smoothing: float,
        bias: Tensor | None,
        of_hidden: bool,
        of_matrix: bool,
    ) -> tuple[Tensor, Tensor]:
        uniform = smoothing / matrix.size(0)
        hidden_gradient = torch.empty_like(hidden) if of_hidden else None
        bias_gradient = None if bias is None else torch.zeros_like(bias)
        log_normalisers, ctx.product = _softmax_terms(
            hidden, matrix, bias, hidden_gradient, bias_gradient, of_matrix=of_matrix
        )
        gold_rows, sum_of_rows = matrix[targets], matrix.sum(0)
        if hidden_gradient is not None:
            hidden_gradient -= (1 - smoothing) * gold_rows + uniform * sum_of_rows
        gold_logits = (hidden * gold_rows).sum()
        all_logits = hidden.sum(0) @ sum_of_rows
        if bias is not None and bias_gradient is not None:
            gold_logits += bias[targets].sum()
            all_logits += len(targets) * bias.sum()
            bias_gradient -= uniform * len(targets)
            bias_gradient.index_add_(0, targets, bias.new_full(targets.shape, smoothing - 1))
        ctx.save_for_backward(hidden, targets, hidden_gradient, bias_gradient)
        ctx.uniform, ctx.smoothing = uniform, smoothing
        smoothed = log_normalisers - (1 - smoothing) * gold_logits - uniform * all_logits
        negative_log_likelihood = log_normalisers - gold_logits
        ctx.mark_non_differentiable(negative_log_likelihood)
        return smoothed, negative_log_likelihood

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, scale: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
        hidden, targets, of_hidden, of_bias = ctx.saved_tensors
        of_hidden, of_bias = (None if each is None else each.mul_(scale) for each in (of_hidden, of_bias))
        of_matrix = None
        if ctx.product is not None:
            # One pass over the matrix, now that the scale is known.
            of_matrix = scaled_difference(ctx.product, ctx.uniform * hidden.sum(0), scale)
            of_matrix.index_add_(0, targets, hidden * ((ctx.smoothing - 1) * scale))
            ctx.product = None
        return of_hidden, of_matrix, None, None, of_bias, None, None


def _softmax_terms(
    hidden: Tensor,
    matrix: Tensor,
    bias: Tensor | None,
    hidden_gradient: Tensor | None,
    bias_gradient: Tensor | None,
    *,
    of_matrix: bool,
) -> tuple[Tensor, Tensor | None]:
    """Sum of the logs of the softmax denominators, and if wanted its gradient for the matrix.

    This gradient has the type of the products if there is one chunk, and else that of the matrix. The others
    are written into `hidden_gradient`, and added to `bias_gradient`.
    """
    device_type = hidden.device.type
    autocast = torch.is_autocast_enabled(device_type)
    dtype = torch.get_autocast_dtype(device_type) if autocast else hidden.dtype
    matrix_gradient = torch.zeros_like(matrix) if of_matrix and not len(hidden) else None
    low_matrix, low_hidden = matrix.to(dtype), hidden.to(dtype)
    log_normalisers = hidden.new_zeros(())
    num_chunks = -(-hidden.size(0) * matrix.size(0) // chunk_elements(hidden.device.type))
    chunk = -(-hidden.size(0) // max(1, num_chunks))  # equal chunks: a short last one would be slow
    with torch.autocast(device_type, enabled=False):
        for start in range(0, hidden.size(0), chunk) if chunk else ():
            rows = slice(start, start + chunk)
            logits = low_hidden[rows] @ low_matrix.T  # (chunk, vocab)
            if bias is not None:
                logits += bias.to(dtype)
            probabilities, normalisers = _softmax(logits, hidden.dtype)
            log_normalisers += normalisers.sum()
            if hidden_gradient is not None:
                hidden_gradient[rows] = probabilities @ low_matrix
            if of_matrix:
                product = probabilities.T @ low_hidden[rows]
                if num_chunks == 1:
                    matrix_gradient = product
                elif matrix_gradient is None:
                    matrix_gradient = product.to(matrix.dtype)
                else:
                    accumulate_(matrix_gradient, product)
            if bias_gradient is not None:
                bias_gradient += probabilities.sum(0, dtype=bias_gradient.dtype)
    return log_normalisers, matrix_gradient


def _softmax(logits: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """The softmax of each row, and the log of its denominator in `dtype`; may overwrite the logits."""
    if is_known(logits) and library():
        return logits, softmax_(logits)
    probabilities = logits.softmax(dim=-1)
    # log(sum exp) from the largest entry, as its probability cannot underflow.
    return probabilities, logits.amax(dim=-1).to(dtype) - probabilities.amax(dim=-1).to(dtype).log()
