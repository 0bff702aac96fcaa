"""How much is computed at once by default: what a CPU always had, or what a device has room for."""

import torch
from tests.tiny import TinyModel

from allyouneed.config.model import ModelConfig
from allyouneed.config.run import SearchConfig
from allyouneed.inference.engine import BATCH_TOKENS, Engine, batch_tokens_within
from allyouneed.inference.ensemble import Ensemble
from allyouneed.inference.scoring import score_targets
from allyouneed.inference.search_plan import Batching, Room, SearchPlan
from allyouneed.inference.torch_engine import TorchEngine

GIB = 2**30


class Roomy(TorchEngine):
    """An engine with room for another number of tokens, which counts the pairs that it scores at once."""

    batch_tokens = 60
    shortest_source = 1
    num_scored = 0

    def token_log_probs(self, sources: object, targets: object) -> object:  # type: ignore[override]
        self.num_scored = max(self.num_scored, len(sources))  # type: ignore[arg-type]
        return super().token_log_probs(sources, targets)  # type: ignore[arg-type]


def test_a_device_gets_as_many_tokens_as_half_of_its_memory_holds() -> None:
    """In float32: keys and values of 4 numbers in one layer, at 64 positions, and 16 logits, per 8 tokens."""
    config = ModelConfig(
        target_vocab_size=16, source_vocab_size=16, d_model=2, num_heads=1, num_layers=1, d_ff=2
    )
    bytes_of_token = (64 * 4 * 4 + 16 * (4 + 8)) // 8
    assert batch_tokens_within(2 * 5 * 1_024 * bytes_of_token, config, 4) == 5 * 1_024
    assert batch_tokens_within(2 * 5 * 1_024 * bytes_of_token - 1, config, 4) == 4 * 1_024
    assert batch_tokens_within(1, config, 4) == 1_024


def test_large_cards_get_the_most_and_small_ones_less() -> None:
    base = ModelConfig()
    assert batch_tokens_within(140 * GIB, base, 2) == 262_144
    assert (
        BATCH_TOKENS
        < batch_tokens_within(8 * GIB, base, 2)
        < batch_tokens_within(24 * GIB, base, 2)
        < 262_144
    )
    assert batch_tokens_within(8 * GIB, base, 4) < batch_tokens_within(8 * GIB, base, 2)


def test_a_cpu_has_what_it_always_had(tiny_model: TinyModel) -> None:
    engines: list[Engine] = [TorchEngine(tiny_model(seed)) for seed in (0, 1)]
    assert [engine.batch_tokens for engine in engines] == [8_192] * 2
    assert Ensemble(engines).batch_tokens == 8_192
    assert Ensemble([*engines, Roomy(tiny_model(2))]).batch_tokens == 60


def test_workers_take_as_much_as_the_engine_has_room_for(tiny_model: TinyModel) -> None:
    plans = [SearchPlan(Roomy(tiny_model(seed).eval()), SearchConfig(beam_size=2)) for seed in (0, 1)]
    for batching, most in ((Batching(), 6), (Batching(tokens=80), 8), (Batching(size=4), 4)):
        room = Room(batching, {})
        assert [room.admits(plans[n % 2], 5) for n in range(most + 1)] == [True] * most + [False]


def test_short_sources_count_as_longer_ones_where_memory_is_planned(tiny_model: TinyModel) -> None:
    """The outputs of many single words need memory, too; a number that is given counts as it is."""
    engine = Roomy(tiny_model().eval())
    assert (engine.shortest_source, Ensemble([engine]).shortest_source) == (1, 1)
    engine.shortest_source = 5
    for batching, most in ((Batching(), 6), (Batching(tokens=60), 15)):
        room = Room(batching, {})
        plan = SearchPlan(engine, SearchConfig(beam_size=2))
        assert [room.admits(plan, 2) for _ in range(most + 1)] == [True] * most + [False]


def test_scores_are_computed_in_batches_of_half_as_much(tiny_model: TinyModel) -> None:
    engine = Roomy(tiny_model().eval())
    with torch.inference_mode():
        score_targets(engine, [[5, 6, 7, 8]] * 20, [[5]] * 20)
    assert engine.num_scored == 60 // 2 // 5
