"""What holds for a model of any architecture."""

import pytest
import torch

from allyouneed.config.model import ModelConfig
from allyouneed.model.architectures import build_model


@pytest.mark.parametrize("training", [False, True])
def test_no_sentences_have_no_hidden_states_and_no_loss(any_config: ModelConfig, training: bool) -> None:
    model = build_model(any_config).train(training)
    hidden = model(torch.zeros(0, 5, dtype=torch.int64), torch.zeros(0, 4, dtype=torch.int64))
    assert hidden.shape == (0, 4, 12)
    loss = model.auxiliary_loss()
    assert loss is None or loss.item() == 0
