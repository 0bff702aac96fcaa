"""The loss in its plain form, which `projected_loss` is compared with."""

from jaxtyping import Float, Int
from torch import Tensor

from allyouneed.training.loss import LossSums


def loss_of_logits(
    logits: Float[Tensor, "tokens vocab"], targets: Int[Tensor, " tokens"], smoothing: float
) -> LossSums:
    """The loss in its plain form, with all logits in memory."""
    log_probs = logits.log_softmax(dim=-1)
    gold = log_probs.gather(1, targets[:, None]).sum()
    uniform = log_probs.mean(dim=-1).sum()
    return LossSums(-(1 - smoothing) * gold - smoothing * uniform, -gold.detach())
