import itertools
import math
import random
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from tests.inference.conftest import next_logits

from allyouneed.config.run import SearchConfig
from allyouneed.errors import UsageError
from allyouneed.inference.beams import Hypothesis
from allyouneed.inference.engine_choice import build_engine
from allyouneed.inference.generate import generate
from allyouneed.inference.projection import FullProjection
from allyouneed.inference.scheduler import Scheduler, Source, search_of
from allyouneed.inference.scoring import score_targets
from allyouneed.inference.search import Decoding
from allyouneed.inference.search_plan import Batching, SearchPlan
from allyouneed.inference.torch_engine import TorchEngine, TransformerDecoding
from allyouneed.model.transformer import Transformer
from allyouneed.symbols import END, PADDING, SENTINEL, START, UNKNOWN

NORMALIZATIONS = ("gnmt", "average", "none")
VOCAB_SIZE = 11


def random_sources(num: int, longest: int = 9) -> list[list[int]]:
    draw = random.Random(num)
    return [[draw.randrange(UNKNOWN, VOCAB_SIZE) for _ in range(draw.randrange(longest))] for _ in range(num)]


def assert_same(found: list[list[Hypothesis]], expected: list[list[Hypothesis]]) -> None:
    assert [[h.ids for h in hypotheses] for hypotheses in found] == [
        [h.ids for h in hypotheses] for hypotheses in expected
    ]
    scores = [h.score for hypotheses in found for h in hypotheses]
    assert scores == pytest.approx([h.score for hypotheses in expected for h in hypotheses], abs=1e-5)


@pytest.mark.parametrize("beam_size", [1, 3])
def test_a_given_token_begins_the_output_and_has_probability_one(tiny_model: Any, beam_size: int) -> None:
    model = tiny_model().eval()
    config = SearchConfig(beam_size=beam_size, length_normalization="none")
    for engine in (build_engine(model), TorchEngine(model)):
        plan = SearchPlan(engine, config)
        scheduler, found = Scheduler(Batching()), []
        for num_given in (0, 1):
            found.append(scheduler.submit(plan, search_of(Source([5, 6], [7, 8], num_given))))
        with engine.ready():
            scheduler.work_off()
        [free], [given] = (each.result() for each in found)
        assert free.ids[:2] == given.ids[:2] == [7, 8]
        assert given.ids == free.ids
        assert given.token_log_probs[0] == 0 > free.token_log_probs[0]
        assert given.token_log_probs[1:] == free.token_log_probs[1:]
        assert given.score == pytest.approx(sum(given.token_log_probs))


@pytest.mark.parametrize("normalization", NORMALIZATIONS)
@pytest.mark.parametrize("seed", range(3))
def test_generation_equals_scoring_every_possible_output(
    tiny_model: Any, seed: int, normalization: str
) -> None:
    model = tiny_model(seed, vocab_size=7).eval()
    config = SearchConfig.model_validate(
        {"beam_size": 81, "length_normalization": normalization, "max_extra_tokens": 1}
    )
    source, max_length = [5, 4], 4
    outputs = [
        list(ids)
        for length in range(max_length + 1)
        for ids in itertools.product(range(UNKNOWN, 7), repeat=length)
    ]
    with torch.no_grad():
        rows = torch.tensor([[START, *ids, *[PADDING] * (max_length - len(ids))] for ids in outputs])
        hidden = model(torch.tensor([[*source, END]]).expand(len(rows), -1), rows)
        log_probs = model.project(hidden).double().log_softmax(-1)
    expected = []
    for ids, rows_log_probs in zip(outputs, log_probs, strict=True):
        written = [*ids, END][:max_length]
        n = len(written)
        penalty = {"gnmt": ((5 + n) / 6) ** 0.6, "average": n, "none": 1}[normalization]
        log_prob = sum(float(rows_log_probs[i, token]) for i, token in enumerate(written))
        expected.append(Hypothesis(ids, log_prob / penalty))
    expected.sort(key=lambda hypothesis: (len(hypothesis.ids) == max_length, -hypothesis.score))
    found = list(generate(TorchEngine(model), [source], config, n_best=40))
    assert_same(found, [expected[:40]])


@pytest.mark.parametrize("beam_size", [1, 4])
def test_a_batch_equals_its_sentences_alone(tiny_model: Any, beam_size: int) -> None:
    engine = TorchEngine(tiny_model(3))
    config = SearchConfig(beam_size=beam_size, max_extra_tokens=6)
    sources = random_sources(60)
    alone = [next(generate(engine, [source], config, n_best=beam_size)) for source in sources]
    for limits in ({"size": 60, "tokens": None}, {"size": 7}, {"tokens": 50}):
        batching = Batching(**limits)
        assert_same(list(generate(engine, sources, config, n_best=beam_size, batching=batching)), alone)
    assert_same(
        list(
            generate(engine, iter(sources), config, n_best=beam_size, batching=Batching(window_sentences=13))
        ),
        alone,
    )


def test_an_empty_source_has_the_empty_hypothesis(tiny_model: Any) -> None:
    found = list(generate(TorchEngine(tiny_model()), [[], [5, 6], []], SearchConfig()))
    assert found[0] == found[2] == [Hypothesis([], 0.0)]
    assert list(generate(TorchEngine(tiny_model()), [], SearchConfig())) == []


def test_sources_are_read_no_further_than_a_window(tiny_model: Any) -> None:
    num_read = 0

    def sources() -> Iterator[list[int]]:
        nonlocal num_read
        for num_read in range(1, 1000):  # noqa: B007
            yield [5]

    results = generate(
        TorchEngine(tiny_model()),
        sources(),
        SearchConfig(max_extra_tokens=1),
        batching=Batching(window_sentences=8),
    )
    assert num_read == 0
    next(results)
    assert num_read == 8
    list(itertools.islice(results, 8))
    assert num_read == 16


def test_outputs_are_bounded_by_their_own_source(tiny_model: Any) -> None:
    model = tiny_model(d_model=8, num_heads=2)
    sources = [[5] * length for length in (1, 4, 9)]
    config = SearchConfig(max_extra_tokens=2, min_length=99)  # so that all outputs are cut
    found = [len(hypotheses[0].ids) for hypotheses in generate(TorchEngine(model), sources, config)]
    assert found == [len(source) + 1 + 2 for source in sources]


def test_outputs_end_where_the_learned_positions_do(tiny_model: Any) -> None:
    engine = TorchEngine(tiny_model(positions="learned", max_positions=7))
    [[hypothesis]] = generate(engine, [[5, 6, 7, 8]], SearchConfig(length_normalization="average"))
    assert len(hypothesis.ids) <= 7


def test_scores_equal_forced_decoding(tiny_model: Any) -> None:
    model = tiny_model(5)
    config = SearchConfig(beam_size=5, max_extra_tokens=30)
    sources = [source for source in random_sources(20) if source]
    for source, hypotheses in zip(
        sources, generate(TorchEngine(model), sources, config, n_best=5), strict=True
    ):
        ended = [h for h in hypotheses if len(h.ids) < len(source) + 1 + 30]
        targets = score_targets(TorchEngine(model), [source] * len(ended), [h.ids for h in ended])
        for hypothesis, target in zip(ended, targets, strict=True):
            normalized = target.log_prob / ((5 + len(hypothesis.ids) + 1) / 6) ** 0.6
            assert hypothesis.score == pytest.approx(normalized, abs=1e-5)


@torch.no_grad()
def most_probable(model: Transformer, source: list[int], max_extra_tokens: int) -> list[int]:
    written = [START]
    while END not in written and len(written) <= len(source) + 1 + max_extra_tokens:
        logits = model.project(model(torch.tensor([[*source, END]]), torch.tensor([written])))[0, -1]
        logits[[PADDING, START, SENTINEL]] = -math.inf
        written.append(int(logits.argmax()))
    return [token for token in written if token not in (START, END)]


@pytest.fixture(scope="module")
def argmax_loop(tiny_model: Any) -> tuple[Transformer, list[list[int]], list[list[int]]]:
    """A model, sources, and what a loop writes for them with at most 8 extra tokens."""
    model = tiny_model(7).eval()
    sources = [source for source in random_sources(20) if source]
    return model, sources, [most_probable(model, source, 8) for source in sources]


def test_greedy_search_equals_an_argmax_loop(
    argmax_loop: tuple[Transformer, list[list[int]], list[list[int]]],
) -> None:
    model, sources, expected = argmax_loop
    found = generate(TorchEngine(model), sources, SearchConfig(beam_size=1, max_extra_tokens=8))
    assert [hypothesis.ids for [hypothesis] in found] == expected


def test_training_mode_and_dropout_do_not_reach_the_search(tiny_model: Any) -> None:
    model = tiny_model(dropout=0.9)
    first, second = (list(generate(TorchEngine(model), random_sources(9), SearchConfig())) for _ in range(2))
    assert first == second
    assert model.training


def test_what_is_certain_grows_until_it_is_the_best_output(tiny_model: Any) -> None:
    engine, config = TorchEngine(tiny_model(4)), SearchConfig(beam_size=2, max_extra_tokens=20)
    sources = [source for source in random_sources(30) if source]
    prefix = [9, 4, 7]
    found = generate(engine, sources, config, prefixes=itertools.repeat(prefix))
    with engine.ready(), Scheduler(Batching()) as scheduler:
        certain: list[list[int]] = []
        for source, [best] in zip(sources, found, strict=True):
            certain.clear()
            job = search_of(Source(source, prefix))
            scheduler.submit(SearchPlan(engine, config), job, watch=lambda _, ids, __: certain.append(ids))
            scheduler.work_off()
            assert certain[:3] == [[9], [9, 4], [9, 4, 7]]
            assert certain[-1] == best.ids
            assert all(longer[: len(part)] == part for part, longer in itertools.pairwise(certain))
            assert all(len(part) < len(longer) for part, longer in itertools.pairwise(certain[:-1]))


def test_more_hypotheses_than_beams_are_refused_at_once(tiny_model: Any) -> None:
    with pytest.raises(UsageError, match="5 hypotheses a sentence are wanted of a beam of 4; raise"):
        generate(TorchEngine(tiny_model()), [[5]], SearchConfig(beam_size=4), n_best=5)


@pytest.mark.gpu
def test_a_gpu_finds_what_a_cpu_finds(tiny_model: Any) -> None:
    model, sources = tiny_model(2), random_sources(40)
    expected = list(generate(TorchEngine(model), sources, SearchConfig(), n_best=4))
    assert_same(list(generate(TorchEngine(model.cuda()), sources, SearchConfig(), n_best=4)), expected)


@pytest.mark.parametrize("workers", [1, 2])
def test_pytorch_has_as_many_threads_as_the_engine_while_it_decodes(tiny_model: Any, workers: int) -> None:
    """Else each worker would have a thread for every core, and wait for all of them in every operation."""
    seen: list[int] = []

    class Watched(TorchEngine):
        threads = 3

        def start(self, beam_size: int) -> Decoding:
            torch.ones(1 << 20).sum()  # lets PyTorch decide on the threads of this thread
            seen.append(torch.get_num_threads())
            return super().start(beam_size)

    before = torch.get_num_threads()
    engine = Watched(tiny_model().eval())
    list(generate(engine, random_sources(8), SearchConfig(), batching=Batching(workers=workers)))
    assert seen == [3] * workers
    assert torch.get_num_threads() == before
    engine.threads = 0
    list(generate(engine, random_sources(8), SearchConfig()))
    assert seen[-1] == before


@pytest.mark.parametrize("build", [TorchEngine, build_engine])
def test_a_large_batch_stays_within_learned_positions(tiny_model: Any, build: Any) -> None:
    """Sentences that are done wait for others to leave with them, but not beyond the last position."""
    model = tiny_model(positions="learned", max_positions=20).eval()
    sources = [source for source in random_sources(400) if source]
    config = SearchConfig(max_extra_tokens=30, length_normalization="average")
    found = list(generate(build(model), sources, config, batching=Batching(size=40)))
    assert max(len(hypotheses[0].ids) for hypotheses in found) <= 20


def test_every_source_wants_a_prefix_of_its_own(tiny_model: Any) -> None:
    with pytest.raises(ValueError, match="fewer prefixes than sources"):
        list(generate(TorchEngine(tiny_model()), [[5], [6]], SearchConfig(), prefixes=[[4]]))


def test_a_long_source_that_has_left_takes_no_room(tiny_model: Any) -> None:
    decoding = TransformerDecoding(tiny_model().eval(), FullProjection(tiny_model().project), 2)
    with torch.no_grad():
        decoding.admit([[5] * 300 + [END], [6, END]])
        next_logits(decoding, np.full((2, 2), START))
        decoding.keep(np.array([1]))
        decoding.admit([[7, END]] * 5)
    assert {part.size(2) for parts in decoding._memory for part in parts} == {2}
