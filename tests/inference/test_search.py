import itertools
import math
import random
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from allyouneed.config.run import SearchConfig
from allyouneed.inference.beams import Hypothesis, SearchRequest
from allyouneed.inference.plain_search import search_outputs
from allyouneed.inference.search import BeamSearch, length_penalty
from allyouneed.inference.selection import Continuation
from allyouneed.inference.torch_selection import TensorDecoding, stable_top_k
from allyouneed.symbols import END, PADDING, SENTINEL, START, UNKNOWN

NORMALIZATIONS = ("gnmt", "average", "none")
NEVER_PRODUCED = {PADDING, START, SENTINEL}
Prefix = tuple[int, ...]
LogitsOfPrefix = Callable[[int, Prefix], list[float]]


class PrefixDecoding(TensorDecoding):
    """A decoding that keeps every prefix as it is, and looks its logits up in a function of it."""

    def __init__(self, beams: int, logits: LogitsOfPrefix) -> None:
        self.sentences: list[int] = []
        self.prefixes: list[list[Prefix]] = []
        self.beams, self.logits_of = beams, logits

    def admit(self, sources: Sequence[Sequence[int]]) -> None:
        """The first number of a source says which sentence it is."""
        self.sentences += [source[0] for source in sources]
        self.prefixes += [[()] * self.beams for _ in sources]

    def logits(self, tokens: Any) -> Any:
        self.prefixes = [
            [(*prefix, token) for prefix, token in zip(prefixes, new, strict=True)]
            for prefixes, new in zip(self.prefixes, tokens.tolist(), strict=True)
        ]
        found = [
            [self.logits_of(sentence, prefix[1:]) for prefix in prefixes]
            for sentence, prefixes in zip(self.sentences, self.prefixes, strict=True)
        ]
        return torch.tensor(found)

    def reorder(self, parents: Any) -> None:
        self.prefixes = [
            [prefixes[b] for b in beams]
            for prefixes, beams in zip(self.prefixes, parents.tolist(), strict=True)
        ]

    def keep(self, sentences: Any) -> None:
        self.prefixes = [self.prefixes[s] for s in sentences.tolist()]
        self.sentences = [self.sentences[s] for s in sentences.tolist()]


def random_logits(seed: int, vocab_size: int, levels: int | None = None) -> LogitsOfPrefix:
    """Logits drawn for each prefix; of few `levels` they are often equal."""

    def logits(sentence: int, prefix: Prefix) -> list[float]:
        draw = random.Random(hash((seed, sentence, prefix)))
        if levels is None:
            return [draw.gauss(0, 2) for _ in range(vocab_size)]
        return [float(draw.randrange(levels)) for _ in range(vocab_size)]

    return logits


def search(
    logits: LogitsOfPrefix,
    max_lengths: list[int],
    config: SearchConfig,
    n_best: int = 1,
    kind: type[PrefixDecoding] = PrefixDecoding,
) -> list[list[Hypothesis]]:
    beams = BeamSearch(kind(config.beam_size, logits), config, n_best)
    beams.admit(sentences_of(max_lengths))
    results: dict[int, list[Hypothesis]] = {}
    while beams.sentences:
        results.update((sentence.key, found) for sentence, found in beams.step())
    return [results[number] for number in range(len(max_lengths))]


def sentences_of(max_lengths: list[int]) -> list[SearchRequest]:
    return [SearchRequest(number, [number, END], most) for number, most in enumerate(max_lengths)]


def penalty(length: int, config: SearchConfig) -> float:
    if config.length_normalization == "gnmt":
        return math.pow((5 + length) / 6, config.length_penalty)
    return length if config.length_normalization == "average" else 1.0


def log_probs_of(logits: list[float]) -> dict[int, float]:
    """Token -> its log-probability, rounded as it is in search, so that ties are ties there too."""
    decoding = PrefixDecoding(1, random_logits(0, 1))
    values, ids = decoding.choose(torch.tensor([[logits]]), Continuation(len(logits)))
    return dict(zip(ids[0, 0].tolist(), values[0, 0].tolist(), strict=True))


def ended_first(hypotheses: list[Hypothesis], max_length: int) -> list[Hypothesis]:
    """Best first; those that were cut at the maximum length after all others."""
    return sorted(hypotheses, key=lambda hypothesis: (len(hypothesis.ids) == max_length, -hypothesis.score))


def assert_same(found: list[Hypothesis], expected: list[Hypothesis]) -> None:
    assert [h.ids for h in found] == [h.ids for h in expected]
    assert [h.score for h in found] == pytest.approx([h.score for h in expected], rel=1e-12)


class Problem(NamedTuple):
    """Sentences to be searched."""

    logits: LogitsOfPrefix
    vocab_size: int
    max_lengths: list[int]
    config: SearchConfig
    n_best: int


@st.composite
def problems(draw: st.DrawFn, longest: int) -> Problem:
    config = SearchConfig.checked(
        beam_size=draw(st.integers(1, 6)),
        length_penalty=draw(st.sampled_from([0.0, 0.6, 1.0, 2.5])),
        length_normalization=draw(st.sampled_from(NORMALIZATIONS)),
        early_stopping=draw(st.booleans()),
    )
    vocab_size = draw(st.integers(5, 9))
    logits = random_logits(draw(st.integers(0, 10**9)), vocab_size, draw(st.sampled_from([None, 2, 4])))
    max_lengths = draw(st.lists(st.integers(1, longest), min_size=1, max_size=4))
    return Problem(logits, vocab_size, max_lengths, config, draw(st.integers(1, config.beam_size)))


def assert_as_plain(
    problem: Problem, kind: type[PrefixDecoding], log_probs_of: Callable[[list[float]], dict[int, float]]
) -> None:
    """The search by a kind of decoding is the plain one; `log_probs_of` rounds as the decoding does."""
    logits, vocab_size, max_lengths, config, n_best = problem
    results = search(logits, max_lengths, config, n_best, kind)
    for sentence, (found, max_length) in enumerate(zip(results, max_lengths, strict=True)):

        def next_log_probs(ids: list[int], sentence: int = sentence) -> list[float]:
            log_probs = log_probs_of(logits(sentence, tuple(ids)))
            return [log_probs.get(token, -math.inf) for token in range(vocab_size)]

        assert_same(found, search_outputs(next_log_probs, max_length, config, n_best))


@settings(max_examples=150)
@given(problems(longest=7))
def test_beam_search_equals_the_plain_one(problem: Problem) -> None:
    assert_as_plain(problem, PrefixDecoding, log_probs_of)


@pytest.mark.parametrize("normalization", NORMALIZATIONS)
@pytest.mark.parametrize("seed", range(5))
def test_beam_search_equals_exhaustive_search_when_the_beam_covers_everything(
    normalization: str, seed: int
) -> None:
    vocab_size, max_length = (
        7,
        4,
    )  # three tokens beside the end: at most 27 * 4 candidates before the last step
    config = SearchConfig.model_validate({"beam_size": 81, "length_normalization": normalization})
    logits = random_logits(seed, vocab_size)
    everything = []
    for ids in itertools.chain.from_iterable(
        itertools.product(range(UNKNOWN, vocab_size), repeat=length) for length in range(max_length + 1)
    ):
        written = (*ids, END)[:max_length]
        log_prob = sum(log_probs_of(logits(0, ids[:i]))[token] for i, token in enumerate(written))
        everything.append(Hypothesis(list(ids), log_prob / penalty(len(written), config)))
    [found] = search(logits, [max_length], config, n_best=81)
    assert_same(found, ended_first(everything, max_length)[:81])


@pytest.mark.parametrize("seed", range(20))
def test_a_beam_of_one_is_greedy_search(seed: int) -> None:
    logits = random_logits(seed, vocab_size=9)
    expected: Prefix = ()
    while len(expected) < 12:
        allowed = {i: x for i, x in enumerate(logits(0, expected)) if i not in NEVER_PRODUCED}
        token = max(allowed, key=lambda i: allowed[i])
        if token == END:
            break
        expected = (*expected, token)
    [[found]] = search(logits, [12], SearchConfig(beam_size=1))
    assert found.ids == list(expected)


@settings(max_examples=100)
@given(
    seed=st.integers(0, 10**9),
    vocab_size=st.integers(4, 8),
    max_lengths=st.lists(st.integers(1, 12), max_size=5),
    beam_size=st.integers(1, 40),
    length_penalty=st.floats(0, 10),
    normalization=st.sampled_from(NORMALIZATIONS),
    end_logit=st.floats(-60, 10),
)
def test_search_ends_in_time_with_sorted_finite_scores_and_no_control_ids(
    seed: int,
    vocab_size: int,
    max_lengths: list[int],
    beam_size: int,
    length_penalty: float,
    normalization: str,
    end_logit: float,
) -> None:
    random_ones = random_logits(seed, vocab_size)

    def logits(sentence: int, prefix: Prefix) -> list[float]:
        values = random_ones(sentence, prefix)
        return [20.0 if i in NEVER_PRODUCED else end_logit if i == END else x for i, x in enumerate(values)]

    config = SearchConfig.model_validate(
        {"beam_size": beam_size, "length_penalty": length_penalty, "length_normalization": normalization}
    )
    results = search(logits, max_lengths, config, n_best=beam_size)
    assert len(results) == len(max_lengths)
    for hypotheses, max_length in zip(results, max_lengths, strict=True):
        assert 1 <= len(hypotheses) <= beam_size
        assert hypotheses == ended_first(hypotheses, max_length)
        assert [h.ended for h in hypotheses] == [len(h.ids) < max_length for h in hypotheses]
        assert all(math.isfinite(h.score) for h in hypotheses)
        assert all(len(h.ids) <= max_length for h in hypotheses)
        assert all(token > END and token != SENTINEL for h in hypotheses for token in h.ids)
        assert len({tuple(h.ids) for h in hypotheses}) == len(hypotheses)


def test_equal_scores_go_to_the_lowest_beam_then_the_lowest_id() -> None:
    def all_equal(_: int, __: Prefix) -> list[float]:
        return [0.0] * 9

    config = SearchConfig(beam_size=3, length_normalization="none")
    # Step 1 has END, 4, 5, 6, 7, 8 in this order: END is finished, 4, 5, 6 stay alive.
    # Step 2 takes END, 4, 5, 6, 7, 8 from the beam that wrote 4; the other two get nothing.
    [found] = search(all_equal, [2], config, n_best=3)
    assert [h.ids for h in found] == [[], [4], [4, 4]]


def test_search_goes_on_until_as_many_as_wanted_are_finished() -> None:
    def end_is_nearly_sure(_: int, __: Prefix) -> list[float]:
        return [-90.0, -90.0, 30.0, -90.0, 1.0, 0.0]

    config = SearchConfig(beam_size=4)
    [found] = search(end_is_nearly_sure, [9], config, n_best=4)
    assert [h.ids for h in found] == [[], [4], [5], [4, 4]]


def test_search_stops_as_soon_as_nothing_can_come_before_the_wanted_ones() -> None:
    longest_prefix = 0

    def end_is_nearly_sure(_: int, prefix: Prefix) -> list[float]:
        nonlocal longest_prefix
        longest_prefix = max(longest_prefix, len(prefix))
        return [-90.0, -90.0, 30.0, -90.0, 1.0, 0.0]

    search(end_is_nearly_sure, [9, 9], SearchConfig(beam_size=4), n_best=1)
    assert longest_prefix == 0
    search(end_is_nearly_sure, [9, 9], SearchConfig(beam_size=4), n_best=2)
    assert longest_prefix == 1


def test_early_stopping_stops_when_as_many_have_ended_as_the_beam_is_wide() -> None:
    longest = 0

    def logits(_: int, prefix: Prefix) -> list[float]:
        nonlocal longest
        longest = max(longest, len(prefix))
        end = 90.0 if len(prefix) == 29 else 1.5 if prefix else -3.0
        return [-90.0, -90.0, end, -90.0, 1.0, 30.0 if len(prefix) > 1 else 0.9]

    # Both hypotheses of the first step end in the second, where they are the best of four candidates.
    config = SearchConfig(beam_size=2, length_normalization="average", early_stopping=True)
    [[first]] = search(logits, [30], config)
    assert (first.ids, longest) == ([4], 1)
    [[best]] = search(logits, [30], config.replace(early_stopping=False))
    assert len(best.ids) == 29
    assert best.score > first.score


@pytest.mark.parametrize("early_stopping", [False, True])
def test_sentences_that_wait_for_company_have_what_they_would_have_alone(early_stopping: bool) -> None:
    """Of 40 sentences five leave together, so that most wait while the others go on."""
    logits = random_logits(7, vocab_size=7)
    config = SearchConfig(beam_size=3, early_stopping=early_stopping, length_normalization="average")
    together = search(logits, [20] * 40, config, n_best=2)
    alone = []
    for sentence in range(40):

        def logits_of_it(_: int, prefix: Prefix, sentence: int = sentence) -> list[float]:
            return logits(sentence, prefix)

        alone += search(logits_of_it, [20], config, n_best=2)
    assert together == alone


def test_an_output_that_ended_comes_before_better_ones_that_were_cut() -> None:
    def rarely_ends(_: int, prefix: Prefix) -> list[float]:
        return [-90.0, -90.0, -1.5 if len(prefix) == 2 else -math.inf, -90.0, 0.0, -1.0]

    [[first, second]] = search(rarely_ends, [5], SearchConfig(beam_size=2, length_penalty=2.0), n_best=2)
    assert (first.ids, second.ids) == ([4, 4], [4, 4, 4, 4, 4])
    assert (first.ended, second.ended) == (True, False)
    assert second.score > first.score
    [[first, second]] = search(rarely_ends, [2], SearchConfig(beam_size=2), n_best=2)
    assert (first.ended, second.ended) == (False, False)  # used where nothing ended


def test_hypotheses_cut_at_the_maximum_length_count_all_their_tokens() -> None:
    def never_ends(_: int, __: Prefix) -> list[float]:
        return [-90.0, -90.0, -math.inf, -90.0, 0.0, -1.0]

    [[found]] = search(never_ends, [3], SearchConfig(beam_size=2, length_penalty=1.0))
    assert found.ids == [4, 4, 4]
    assert found.score == pytest.approx(3 * -math.log(1 + math.exp(-1)) / (8 / 6), rel=1e-6)


def test_numbers_that_are_none_end_the_search() -> None:
    assert search(lambda _, __: [math.nan] * 6, [5], SearchConfig()) == [[]]


def test_length_penalty_counts_as_published() -> None:
    lengths = np.array([1, 7, 13])
    gnmt = length_penalty(lengths, SearchConfig(length_penalty=0.5))
    assert gnmt.tolist() == pytest.approx([1.0, math.sqrt(2), math.sqrt(3)])
    assert length_penalty(lengths, SearchConfig(length_normalization="average")).tolist() == [1, 7, 13]
    assert length_penalty(lengths, SearchConfig(length_normalization="none")).tolist() == [1, 1, 1]


def test_stable_top_k_finds_ties_however_many_there_are() -> None:
    values = torch.randint(0, 4, (50, 3, 300), generator=torch.Generator().manual_seed(1)).float()
    values[:10] = torch.rand(10, 3, 300).bfloat16().float()
    values[20, 0] = -math.inf
    for k in (1, 5, 260, 290, 300, 400):
        expected = values.sort(dim=-1, descending=True, stable=True)
        found, places = stable_top_k(values, k)
        assert torch.equal(found, expected.values[..., :k])
        assert torch.equal(places, expected.indices[..., :k])


@given(
    rows=st.lists(st.lists(st.integers(0, 3), min_size=6, max_size=6), min_size=1, max_size=5),
    k=st.integers(1, 8),
)
def test_stable_top_k_equals_a_stable_sort(rows: list[list[int]], k: int) -> None:
    values, places = stable_top_k(torch.tensor(rows, dtype=torch.float32), k)
    for row, row_values, row_places in zip(rows, values.tolist(), places.tolist(), strict=True):
        expected = sorted(range(6), key=lambda i: -row[i])[:k]
        assert row_places == expected
        assert row_values == [row[i] for i in expected]
