"""What is drawn has the model's distribution, and depends on seed, source and number alone."""

import functools
import itertools
import math
import random
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from sacrebleu import CHRF
from tests.kernels import require_kernels

from allyouneed.config.run import SearchConfig
from allyouneed.errors import UsageError
from allyouneed.evaluation.pairwise_chrf import pairwise_chrf
from allyouneed.inference import sampling as numpy_sampling
from allyouneed.inference import torch_selection
from allyouneed.inference.beams import Hypothesis, SearchRequest
from allyouneed.inference.engine_choice import build_engine
from allyouneed.inference.generate import generate
from allyouneed.inference.native_engine import NativeEngine
from allyouneed.inference.sampling import (
    BLOCK_POSITIONS,
    Draws,
    draws_of,
    rank_by_expected_utility,
    uniform_numbers,
)
from allyouneed.inference.scoring import score_targets
from allyouneed.inference.search_plan import Batching
from allyouneed.inference.selection import Continuation, choose
from allyouneed.inference.torch_engine import TorchEngine
from allyouneed.model.transformer import Transformer
from allyouneed.symbols import END, NEVER_PRODUCED, START, UNKNOWN

NUM_SAMPLES = 6_000
SOURCE = [5, 6]
VOCAB_SIZE = 8


def sampling(**options: Any) -> SearchConfig:
    return SearchConfig(sampling=True, **options)


@pytest.fixture(scope="module")
def flat_model(tiny_model: Any) -> Transformer:
    """A model so flat that every token is drawn."""
    model: Transformer = tiny_model(3, vocab_size=VOCAB_SIZE).eval()
    with torch.no_grad():
        model.embeddings.matrix("output").mul_(0.4)
    return model


@functools.cache
@torch.no_grad()
def next_logits(model: Transformer, prefix: tuple[int, ...]) -> list[float]:
    hidden = model(torch.tensor([[*SOURCE, END]]), torch.tensor([[START, *prefix]]))
    logits: list[float] = model.project(hidden)[0, -1].tolist()
    return logits


def next_distribution(model: Transformer, prefix: tuple[int, ...], config: SearchConfig) -> dict[int, float]:
    """Token -> probability by the definitions, in plain Python."""
    weights = {
        token: math.exp(logit / config.temperature)
        for token, logit in enumerate(next_logits(model, prefix))
        if token not in NEVER_PRODUCED
    }
    order = sorted(weights, key=lambda token: -weights[token])[: config.top_k]
    total, kept, kept_weight = sum(weights[token] for token in order), [], 0.0
    for token in order:
        if kept_weight < config.top_p * total:
            kept.append(token)
            kept_weight += weights[token]
    return {token: weights[token] / kept_weight for token in kept}


def output_distribution(
    model: Transformer, config: SearchConfig, max_length: int
) -> dict[tuple[int, ...], float]:
    outputs: dict[tuple[int, ...], float] = {}
    alive: dict[tuple[int, ...], float] = {(): 1.0}
    for length in range(1, max_length + 1):
        longer: dict[tuple[int, ...], float] = {}
        for prefix, probability in alive.items():
            for token, share in next_distribution(model, prefix, config).items():
                ended = token == END or length == max_length
                output = prefix if token == END else (*prefix, token)
                reached = outputs if ended else longer
                reached[output] = reached.get(output, 0.0) + probability * share
        alive = longer
    return outputs


def chi_square(counts: Counter[tuple[int, ...]], distribution: dict[tuple[int, ...], float]) -> float:
    """In standard deviations from what is expected; outputs that are hardly ever drawn are taken together."""
    rare = {output for output, share in distribution.items() if share * NUM_SAMPLES < 8}
    pairs = [(counts[o], share * NUM_SAMPLES) for o, share in distribution.items() if o not in rare]
    if rare:
        rare_share = sum(distribution[o] for o in rare)
        pairs.append((sum(counts[o] for o in rare), rare_share * NUM_SAMPLES))
    statistic = sum((found - expected) ** 2 / expected for found, expected in pairs)
    freedom = len(pairs) - 1
    assert freedom >= 4
    return (statistic - freedom) / math.sqrt(2 * freedom)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"temperature": 0.6},
        {"temperature": 2.0},
        {"top_k": 3},
        {"top_p": 0.8},
        {"temperature": 1.5, "top_k": 4, "top_p": 0.9},
    ],
    ids=str,
)
def test_samples_have_the_distribution_that_the_definitions_give(
    flat_model: Transformer, options: dict[str, Any]
) -> None:
    config = sampling(max_extra_tokens=0, **options)
    distribution = output_distribution(flat_model, config, max_length=3)
    assert sum(distribution.values()) == pytest.approx(1.0)
    [samples] = generate(build_engine(flat_model), [SOURCE], config, n_best=NUM_SAMPLES)
    counts = Counter(tuple(sample.ids) for sample in samples)
    assert set(counts) <= set(distribution)
    assert abs(chi_square(counts, distribution)) < 4
    other = output_distribution(flat_model, sampling(temperature=1.2 if not options else 1.0), max_length=3)
    if set(distribution) == set(other):  # the test must be able to tell
        assert chi_square(counts, other) > 4


def test_scores_are_log_probabilities_under_the_model_over_the_length_penalty(tiny_model: Any) -> None:
    model = tiny_model(5)
    config = sampling(temperature=1.5, top_k=5, max_extra_tokens=90, length_normalization="gnmt")
    [samples] = generate(TorchEngine(model), [SOURCE], config, n_best=50)
    ended = [sample for sample in samples if len(sample.ids) < len(SOURCE) + 1 + 90]
    targets = score_targets(TorchEngine(model), [SOURCE] * len(ended), [sample.ids for sample in ended])
    assert len(ended) > 10
    for sample, target in zip(ended, targets, strict=True):
        normalized = target.log_prob / ((5 + len(sample.ids) + 1) / 6) ** 0.6
        assert sample.score == pytest.approx(normalized, abs=1e-5)


def test_at_the_smallest_temperature_the_samples_are_those_of_greedy_search(tiny_model: Any) -> None:
    engine = build_engine(tiny_model(7))
    draw_length = random.Random(1)
    sources = [[draw_length.randrange(UNKNOWN, 11) for _ in range(n)] for n in range(1, 9)]
    greedy = generate(engine, sources, SearchConfig(beam_size=1))
    for options in ({"temperature": 0.001}, {"top_k": 1}, {"top_p": 1e-9}, {"top_p": 1e-300}):
        drawn = generate(engine, sources, sampling(**options), n_best=3)
        greedy, expected = itertools.tee(greedy)
        for samples, [best] in zip(drawn, expected, strict=True):
            assert [sample.ids for sample in samples] == [best.ids] * 3
            assert samples[0].score == pytest.approx(best.score, abs=1e-5)


def bits(found: list[list[Hypothesis]]) -> list[list[tuple[list[int], str]]]:
    return [[(h.ids, h.score.hex()) for h in hypotheses] for hypotheses in found]


@pytest.mark.parametrize("options", [{}, {"top_k": 40}, {"top_p": 0.9}], ids=str)
def test_a_sample_has_the_same_bits_in_any_batch_order_and_number(
    tiny_model: Any, options: dict[str, Any]
) -> None:
    model = tiny_model(2, vocab_size=600)
    with torch.no_grad():
        model.embeddings.matrix("output").mul_(0.5)
        model.embeddings.matrix("output")[END] *= 4
    require_kernels()
    engine = build_engine(model)
    assert isinstance(engine, NativeEngine)
    choose = random.Random(4)
    sources = [[choose.randrange(UNKNOWN, 600) for _ in range(choose.choice([1, 3, 8]))] for _ in range(9)]
    config = sampling(temperature=1.3, max_extra_tokens=BLOCK_POSITIONS, **options)
    expected = bits(list(generate(engine, sources, config, n_best=4)))
    assert len({len(ids) for samples in expected for ids, _ in samples}) > 9
    assert bits(list(generate(engine, sources, config, n_best=4, batching=Batching(size=1)))) == expected
    assert bits(list(generate(engine, sources, config, n_best=2, batching=Batching(size=4)))) == [
        s[:2] for s in expected
    ]
    backwards = list(generate(engine, sources[::-1], config, n_best=4, batching=Batching(workers=2, size=2)))
    assert bits(backwards[::-1]) == expected
    other_seed = config.replace(seed=2)
    assert bits(list(generate(engine, sources, other_seed, n_best=4))) != expected


def test_samples_of_a_source_differ_and_equal_sources_have_equal_ones(tiny_model: Any) -> None:
    config = sampling(temperature=3.0)
    first, other, again = generate(TorchEngine(tiny_model()), [[5, 6], [6, 5], [5, 6]], config, n_best=5)
    assert first == again != other
    assert len({tuple(sample.ids) for sample in first}) == 5


def test_random_numbers_are_uniform_and_a_function_of_their_name() -> None:
    names = [(seed, (4, 5), number, block) for seed in (1, 2) for number in range(100) for block in (0, 1)]
    numbers = np.stack([uniform_numbers(*name) for name in names])
    assert (numbers == np.stack([uniform_numbers(*name) for name in names])).all()
    assert ((numbers >= 0) & (numbers < 1)).all()
    assert len(set(numbers.ravel().tolist())) == numbers.size
    counts = np.histogram(numbers, bins=32, range=(0, 1))[0]
    assert ((counts - numbers.size / 32) ** 2 / (numbers.size / 32)).sum() < 31 + 4 * math.sqrt(62)


def draw_with_numpy(logits: torch.Tensor, uniform: torch.Tensor, config: SearchConfig) -> list[int]:
    require_kernels()
    drawn: list[int] = numpy_sampling.draw(
        logits.numpy().copy(), Draws(uniform.double().numpy(), config)
    ).tolist()
    return drawn


def draw_with_torch(logits: torch.Tensor, uniform: torch.Tensor, config: SearchConfig) -> list[int]:
    logits = logits.clone()
    logits[:, NEVER_PRODUCED] = -math.inf
    drawn: list[int] = torch_selection.draw(logits, uniform, config).tolist()
    return drawn


Draw = Callable[[torch.Tensor, torch.Tensor, SearchConfig], list[int]]
both = pytest.mark.parametrize("draw", [draw_with_numpy, draw_with_torch])


@both
def test_top_k_and_top_p_keep_exactly_the_sets_of_their_definitions(draw: Draw) -> None:
    def kept(probabilities: list[float], **options: Any) -> list[int]:
        """Tokens that are drawn at any of many numbers, of those which may be produced, the first being 0."""
        first = UNKNOWN  # the end symbol, 2, apart, all from here on may be produced
        log_probs = torch.tensor([[0.0] * first + probabilities]).log().expand(4_000, -1)
        uniform = torch.arange(4_000, dtype=torch.float64) / 4_000
        return sorted({token - first for token in draw(log_probs, uniform, sampling(**options))})

    probabilities = [1 / 16, 1 / 4, 1 / 16, 1 / 2, 1 / 8]
    assert kept(probabilities, top_k=1) == [3]
    assert kept(probabilities, top_k=3) == [1, 3, 4]
    assert kept(probabilities, top_k=4) == [0, 1, 3, 4]  # of equals the lower id
    assert kept(probabilities, top_k=9) == kept(probabilities) == [0, 1, 2, 3, 4]
    assert kept(probabilities, top_p=0.01) == kept(probabilities, top_p=0.49) == [3]
    assert kept(probabilities, top_p=0.51) == kept(probabilities, top_p=0.74) == [1, 3]
    assert kept(probabilities, top_p=0.76) == kept(probabilities, top_p=0.87) == [1, 3, 4]
    assert kept(probabilities, top_p=0.88) == [0, 1, 2, 3, 4]  # equals together
    # Of 1/2 and 1/4 the first alone has 2/3; at a temperature of 1/2, 4/5.
    assert kept(probabilities, top_k=2, top_p=0.66) == [3]
    assert kept(probabilities, top_k=2, top_p=0.67) == [1, 3]
    assert kept(probabilities, top_k=2, top_p=0.79, temperature=0.5) == [3]
    assert kept(probabilities, top_k=2, top_p=0.81, temperature=0.5) == [1, 3]


@settings(max_examples=50)
@given(
    seed=st.integers(0, 10**6),
    width=st.integers(1, 1_500),
    spread=st.floats(0.0, 8.0),
    top_p=st.floats(0.001, 0.999),
)
def test_the_nucleus_is_the_fewest_entries_that_have_its_probability(
    seed: int, width: int, spread: float, top_p: float
) -> None:
    noise = torch.randn(3, width, generator=torch.Generator().manual_seed(seed))
    probabilities = (spread * noise).softmax(dim=-1)
    found_by_both = (
        torch.from_numpy(numpy_sampling.nucleus(probabilities.numpy().copy(), top_p)),
        torch_selection.nucleus(probabilities.clone(), top_p),
    )
    for row, found in itertools.chain(
        *(zip(probabilities.double(), found.double(), strict=True) for found in found_by_both)
    ):
        chosen = found > 0
        assert torch.equal(found[chosen], row[chosen])
        least = row[chosen].min()
        assert (row[~chosen] < least).all()
        assert row[chosen].sum() / row.sum() > top_p - 1e-6
        assert row[row > least].sum() / row.sum() < top_p + 1e-6


@pytest.mark.parametrize("precision", [torch.float64, torch.float32])
@both
def test_a_token_is_drawn_where_the_cumulative_distribution_passes_the_number(
    draw: Draw, precision: torch.dtype
) -> None:
    """Also in float32, for devices that have no float64, where the last number rounds to 1."""
    probabilities = torch.tensor([[0.0, 0.0, 0.25, 0.0, 0.25, 0.5]]).log()  # of 0 to 5, 0 1 3 never produced
    for number, token in ((0.0, 2), (0.249, 2), (0.251, 4), (0.499, 4), (0.501, 5), (1 - 2.0**-52, 5)):
        uniform = torch.tensor([number], dtype=precision)
        assert draw(probabilities, uniform, sampling()) == [token]


@both
def test_control_symbols_are_never_drawn_however_probable(draw: Draw) -> None:
    log_probs = torch.tensor([[0.97, 0.01, 0.005, 0.01, 0.005]]).log().expand(64, -1)
    uniform = torch.arange(64, dtype=torch.float64) / 64
    for options in (
        {},
        {"top_k": 2},
        {"top_k": 5},
        {"top_p": 0.9},
        {"temperature": 0.01},
        {"temperature": 100},
    ):
        assert set(draw(log_probs, uniform, sampling(**options))) == {2, 4}


@pytest.mark.parametrize("options", [{}, {"top_k": 2}, {"top_p": 0.9}], ids=str)
@both
def test_a_row_without_a_token_to_draw_does_no_harm_to_others(draw: Draw, options: dict[str, Any]) -> None:
    logits = torch.tensor([[-math.inf] * 6, [0.0, 0.0, 9.0, 0.0, 0.0, 0.0]])
    drawn = draw(logits, torch.tensor([0.5, 0.5], dtype=torch.float64), sampling(**options))
    assert drawn[0] in range(6)
    assert drawn[1] == 2


def test_scores_of_samples_do_not_depend_on_the_batch() -> None:
    require_kernels()
    logits = np.random.default_rng(0).standard_normal((60, 1, 40_000), np.float32)
    requests = [SearchRequest(number, [5, number], 9) for number in range(60)]

    def chosen(sentences: slice) -> Any:
        lengths = np.zeros(60, np.int64)[sentences]
        draws = draws_of(requests[sentences], lengths, sampling())
        return choose(logits[sentences].copy(), Continuation(1, draws=draws)).log_probs

    alone = [chosen(slice(number, number + 1)) for number in range(60)]
    assert (chosen(slice(60)) == np.concatenate(alone)).all()


@pytest.mark.parametrize(
    "options",
    [
        {"temperature": 0.0},
        {"temperature": 101.0},
        {"top_k": 0},
        {"top_p": 0.0},
        {"top_p": 1.01},
        {"seed": -1},
    ],
    ids=str,
)
def test_settings_out_of_range_are_refused(options: dict[str, Any]) -> None:
    [name] = options
    with pytest.raises(UsageError, match=f"^{name}: must be"):
        SearchConfig.checked(**options)


@pytest.mark.gpu
def test_a_gpu_draws_what_a_cpu_draws(tiny_model: Any) -> None:
    model, config = tiny_model(2), sampling(top_p=0.95)
    expected = list(generate(TorchEngine(model), [[5, 6, 7], [8]], config, n_best=20))
    found = list(generate(TorchEngine(model.cuda()), [[5, 6, 7], [8]], config, n_best=20))
    assert [[h.ids for h in samples] for samples in found] == [
        [h.ids for h in samples] for samples in expected
    ]


@given(
    samples=st.lists(st.sampled_from(["the cat", "the cats", "a cat", "dogs run", "", "cat the"]), min_size=1)
)
def test_the_ranking_is_that_of_all_pairs_one_by_one(samples: list[str]) -> None:
    metric = CHRF()
    expected = [
        sum(metric.sentence_score(candidate, [truth]).score for truth in samples) / len(samples)
        for candidate in samples
    ]
    ranked = rank_by_expected_utility(samples, pairwise_chrf)
    assert sorted(samples[r.first] for r in ranked) == sorted(set(samples))
    assert [r.expected_utility for r in ranked] == pytest.approx([expected[r.first] for r in ranked])
    assert all(samples.index(samples[r.first]) == r.first for r in ranked)
    utilities = [r.expected_utility for r in ranked]
    assert utilities == sorted(utilities, reverse=True)
    assert utilities[0] == pytest.approx(max(expected))


def test_the_utility_is_asked_once_for_distinct_samples_and_equal_utilities_keep_their_order() -> None:
    asked: list[list[str]] = []

    def utility(texts: Sequence[str]) -> NDArray[np.float64]:
        asked.append(list(texts))
        return np.eye(len(texts))

    ranked = rank_by_expected_utility(["c", "a", "b", "a", "b", "d"], utility)
    assert asked == [["c", "a", "b", "d"]]
    assert [tuple(r) for r in ranked] == [(1, 2 / 6), (2, 2 / 6), (0, 1 / 6), (5, 1 / 6)]


def test_which_of_a_pair_is_the_truth_matters() -> None:
    def utility(texts: Sequence[int]) -> NDArray[np.float64]:
        return np.array([[float(candidate >= truth) for truth in texts] for candidate in texts])

    assert [tuple(r) for r in rank_by_expected_utility([3, 9, 5, 5], utility)] == [
        (1, 1.0),
        (2, 0.75),
        (0, 0.25),
    ]
