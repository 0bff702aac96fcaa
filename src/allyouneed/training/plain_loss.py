"""Label-smoothed cross-entropy (paper 5.4), written to be read.

Training uses `projected_loss` in `loss.py`, which never holds all logits; tests keep the two equal.
"""

from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional

from allyouneed.training.loss import LossSums


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
