import math

import numpy as np
import pytest
import torch
from torch.nn import functional

from allyouneed.config.run import RunConfig
from allyouneed.data.batch_plans import make_batch
from allyouneed.model import Transformer
from allyouneed.symbols import PADDING
from allyouneed.training.plain_loss import label_smoothed_cross_entropy
from allyouneed.training.trainer import Corpus
from allyouneed.training.update import batch_loss


def test_smoothing_is_that_of_the_paper_by_hand_and_by_torch() -> None:
    # The probabilities are 1/8, 2/8, 5/8 and 3/8, 3/8, 2/8. Smoothing 0.3 puts 0.1 on each of three ids.
    logits = torch.tensor([[1.0, 2.0, 5.0], [3.0, 3.0, 2.0]], dtype=torch.float64).log()
    targets = torch.tensor([2, 0])
    first = 0.8 * math.log(5 / 8) + 0.1 * math.log(1 / 8) + 0.1 * math.log(2 / 8)
    second = 0.8 * math.log(3 / 8) + 0.1 * math.log(3 / 8) + 0.1 * math.log(2 / 8)
    sums = label_smoothed_cross_entropy(logits, targets, 0.3)
    assert sums.smoothed.item() == pytest.approx(-first - second, abs=1e-12)
    assert sums.negative_log_likelihood.item() == pytest.approx(-math.log(5 / 8 * 3 / 8), abs=1e-12)
    by_torch = functional.cross_entropy(logits, targets, label_smoothing=0.3, reduction="sum")
    assert sums.smoothed.item() == pytest.approx(by_torch.item(), abs=1e-12)


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_of_a_padded_batch_the_plain_loss_and_its_gradient_are_those_of_training(
    corpus: Corpus, config: RunConfig, smoothing: float
) -> None:
    torch.manual_seed(1)
    model = Transformer(config.model.replace(dropout=0.0)).double()
    batch = make_batch(corpus.train, np.arange(24))
    targets = torch.from_numpy(batch.target_output)
    is_token = targets != PADDING
    assert not is_token.all()
    hidden = model(torch.from_numpy(batch.source), torch.from_numpy(batch.target_input))
    plain = label_smoothed_cross_entropy(model.project(hidden)[is_token], targets[is_token], smoothing)
    trained_on = batch_loss(model, batch, smoothing, "float32")
    torch.testing.assert_close(trained_on, plain, rtol=1e-9, atol=0)
    found, expected = (
        torch.autograd.grad(sums.smoothed, list(model.parameters())) for sums in (trained_on, plain)
    )
    torch.testing.assert_close(found, expected, rtol=1e-6, atol=1e-9)
