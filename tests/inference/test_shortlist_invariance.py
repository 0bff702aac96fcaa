"""With a shortlist, too, the bits of a score do not depend on the batch and its restrictions."""

import random
from typing import Any

import numpy as np
import pytest
import torch
from tests.inference.conftest import KINDS
from tests.kernels import require_kernels

from allyouneed.config.model import ModelConfig
from allyouneed.config.run import SearchConfig
from allyouneed.inference.generate import generate
from allyouneed.inference.native_engine import NativeEngine
from allyouneed.inference.search_plan import Batching
from allyouneed.inference.vocabulary_shortlist import Shortlist
from allyouneed.model.transformer import Transformer
from allyouneed.native.library import FORMS
from allyouneed.symbols import UNKNOWN

VOCAB_SIZE = 203
FIRST = UNKNOWN + 1
SETTINGS: dict[str, dict[str, Any]] = {
    "min_length": {"min_length": 4},
    "prefixes": {},
    "prefixes and min_length": {"min_length": 4},
    "repetition": {"repetition_penalty": 1.5},
}


def native_engine(form: str) -> NativeEngine:
    """Logits that are neither flat nor certain, of some tokens more than there are lanes."""
    torch.manual_seed(1)
    sizes: dict[str, Any] = {"d_model": 60, "d_ff": 90, "num_layers": 1, "num_heads": 3, "d_k": 20, "d_v": 20}
    model = Transformer(
        ModelConfig(source_vocab_size=VOCAB_SIZE, target_vocab_size=VOCAB_SIZE, **sizes)
    ).eval()
    with torch.no_grad():
        model.embeddings.matrix("output").mul_(3)
    table = np.random.default_rng(0).integers(FIRST, VOCAB_SIZE, (VOCAB_SIZE, 9), np.int32)
    shortlist = Shortlist(table, np.arange(FIRST, 25, dtype=np.int32), VOCAB_SIZE, {})
    return NativeEngine(model, form, shortlist=shortlist)


@pytest.mark.parametrize("instructions", KINDS, indirect=True)
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("restricted", SETTINGS)
def test_bits_do_not_depend_on_how_other_sentences_of_the_batch_are_restricted(
    restricted: str, form: str
) -> None:
    require_kernels()
    draw, engine = random.Random(3), native_engine(form)
    lengths = draw.choices([1, 5, 9, 30], k=24)
    texts = [[draw.randrange(FIRST, VOCAB_SIZE) for _ in range(length)] for length in lengths]
    prefixes = [[FIRST] if "prefixes" in restricted and i % 5 == 0 else [] for i in range(24)]
    config = SearchConfig(max_extra_tokens=5, **SETTINGS[restricted])

    def found(size: int) -> list[list[tuple[list[int], str]]]:
        batching = Batching(size=size)
        results = generate(engine, texts, config, n_best=2, prefixes=prefixes, batching=batching)
        return [[(h.ids, h.score.hex()) for h in hypotheses] for hypotheses in results]

    alone = found(1)
    assert found(3) == alone
    assert found(64) == alone
