from typing import Any

import pytest

from allyouneed.config.run import SearchConfig
from allyouneed.inference.generate import generate
from allyouneed.inference.plain_search import plain_beam_search
from allyouneed.inference.torch_engine import TorchEngine

SOURCES = [[5], [6, 4, 9]]


@pytest.mark.parametrize("beam_size", [1, 4])
@pytest.mark.parametrize("length_penalty", [0.0, 0.6])
@pytest.mark.parametrize("early_stopping", [False, True])
@pytest.mark.parametrize("settings", [{}, {"source_end": False, "norm": "pre"}], ids=str)
def test_of_a_model_the_plain_search_finds_what_the_fast_one_finds(
    tiny_model: Any, settings: dict[str, Any], beam_size: int, length_penalty: float, early_stopping: bool
) -> None:
    config = SearchConfig(
        beam_size=beam_size, length_penalty=length_penalty, early_stopping=early_stopping, max_extra_tokens=3
    )
    for seed in range(2):
        model = tiny_model(seed, num_layers=1, **settings).eval()
        fast = generate(TorchEngine(model), SOURCES, config, n_best=beam_size)
        for source, expected in zip(SOURCES, fast, strict=True):
            found = plain_beam_search(model, source, config, n_best=beam_size)
            assert [output.ids for output in found] == [output.ids for output in expected]
            for output, wanted in zip(found, expected, strict=True):
                assert output.score == pytest.approx(wanted.score, abs=1e-5)
                assert output.token_log_probs == pytest.approx(wanted.token_log_probs, abs=1e-5)
