"""The kernels write to no token that the vocabulary does not have."""

import pytest
import torch

from allyouneed.native.kernels import top_log_probs
from allyouneed.symbols import END


@pytest.mark.parametrize(("width", "excluded", "ends"), [(3, (0, 3), True), (END, (), False)])
def test_a_token_beyond_the_logits_is_refused(width: int, excluded: tuple[int, ...], ends: bool) -> None:
    cannot_end = None if ends else torch.tensor([True]).numpy()
    with pytest.raises(AssertionError):
        top_log_probs(torch.zeros(1, width), 1, excluded, cannot_end=cannot_end)
    values, _ = top_log_probs(torch.zeros(1, width + 1), 1, excluded, cannot_end=cannot_end)
    assert values.isfinite().all()
