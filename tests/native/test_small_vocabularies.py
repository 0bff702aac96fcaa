"""The kernels write to no token that the vocabulary does not have."""

import pytest
import torch
from tests.kernels import require_kernels
from tests.native.with_tensors import top_log_probs
from tests.tiny import TinyModel

from allyouneed.config.run import SearchConfig
from allyouneed.inference.beams import SearchRequest
from allyouneed.inference.native_engine import NativeEngine
from allyouneed.inference.search import BeamSearch
from allyouneed.symbols import END, SENTINEL


@pytest.mark.parametrize(("width", "excluded", "ends"), [(3, (0, 3), True), (END, (), False)])
def test_a_token_beyond_the_logits_is_refused(width: int, excluded: tuple[int, ...], ends: bool) -> None:
    cannot_end = None if ends else torch.tensor([True]).numpy()
    with pytest.raises(AssertionError):
        top_log_probs(torch.zeros(1, width), 1, excluded, cannot_end=cannot_end)
    values, _ = top_log_probs(torch.zeros(1, width + 1), 1, excluded, cannot_end=cannot_end)
    assert values.isfinite().all()


@torch.no_grad()
@pytest.mark.parametrize("width", [SENTINEL, SENTINEL + 1])
def test_a_search_without_all_control_symbols_is_refused(width: int, tiny_model: TinyModel) -> None:
    require_kernels()
    search = BeamSearch(NativeEngine(tiny_model(vocab_size=width)).start(4), SearchConfig())
    search.admit([SearchRequest(0, [0], max_length=3)])
    if width > SENTINEL:
        search.step()
    else:
        with pytest.raises(AssertionError):
            search.step()
