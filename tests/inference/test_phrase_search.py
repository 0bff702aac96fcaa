"""Search for outputs with given phrases finds the best of all outputs that have them."""

import itertools
import math
from collections.abc import Sequence

import numpy as np
import pytest
from tests.inference.test_search import LogitsOfPrefix, Prefix, PrefixDecoding, random_logits

from allyouneed.config.run import SearchConfig
from allyouneed.inference.beams import SearchRequest
from allyouneed.inference.required_phrases import RequiredPhrases
from allyouneed.inference.search import BeamSearch
from allyouneed.symbols import END, UNKNOWN

VOCAB_SIZE = 7
WORDS = (UNKNOWN, 5, 6)
MOST = 6
COVERING = SearchConfig(beam_size=500, length_penalty=0.0)
Phrases = Sequence[Sequence[Sequence[int]]]


def required(forms: Phrases, continues: Sequence[int] = (), place: int | None = None) -> RequiredPhrases:
    return RequiredPhrases(forms, np.isin(np.arange(VOCAB_SIZE), continues), place)


def searched(
    logits: LogitsOfPrefix,
    phrases: RequiredPhrases | None,
    config: SearchConfig = COVERING,
    prefix: Prefix = (),
) -> list[int]:
    requests = [SearchRequest(0, [0, END], MOST, prefix, required=phrases), SearchRequest(1, [1, END], MOST)]
    together, alone = (outputs(logits, config, each) for each in (requests, requests[1:]))
    assert together[1] == alone[1], "a sentence beside one with phrases is searched as it is alone"
    return together[0]


def outputs(
    logits: LogitsOfPrefix, config: SearchConfig, requests: Sequence[SearchRequest]
) -> dict[int, list[int]]:
    search = BeamSearch(PrefixDecoding(config.beam_size, logits), config)
    search.admit(requests)
    found: dict[int, list[int]] = {}
    while search.sentences:
        found |= {sentence.key: hypotheses[0].ids for sentence, hypotheses in search.step()}
    return found


def log_prob(logits: LogitsOfPrefix, ids: Prefix) -> float:
    total = 0.0
    for place, token in enumerate((*ids, END)):
        row = logits(0, ids[:place])
        total += row[token] - math.log(sum(map(math.exp, row)))
    return total


def has(ids: Prefix, forms: Phrases, continues: Sequence[int]) -> bool:
    """Whether all phrases are there, found from the left and none within another."""
    missing, place = [*forms], 0
    while place < len(ids):
        fits = [f for phrase in missing for f in phrase if ids[place : place + len(f)] == tuple(f)]
        if fits:
            missing.remove(next(phrase for phrase in missing if fits[0] in phrase))
            place += len(fits[0])
            if place < len(ids) and ids[place] in continues:
                return False
        else:
            place += 1
    return not missing


@pytest.mark.parametrize(
    "forms", [[[[5]]], [[[5, 6]]], [[[6, 6, 4]]], [[[5, 6], [4, 4]]], [[[5]], [[5]]], [[[5, 6]], [[4]]]]
)
@pytest.mark.parametrize("continues", [(), (4,)])
def test_a_beam_that_covers_everything_finds_the_best_output_with_the_phrases(
    forms: Phrases, continues: Sequence[int]
) -> None:
    for seed in range(3):
        logits = random_logits(seed, VOCAB_SIZE)
        outputs = [
            ids
            for length in range(MOST)
            for ids in itertools.product(WORDS, repeat=length)
            if has(ids, forms, continues)
        ]
        best = max(outputs, key=lambda ids: log_prob(logits, ids))
        assert searched(logits, required(forms, continues)) == list(best)


@pytest.mark.parametrize("beam_size", [1, 2, 4])
def test_outputs_have_the_phrases_with_any_beam(beam_size: int) -> None:
    config = SearchConfig(beam_size=beam_size)
    forms = [[[5, 6, 5]], [[4], [6, 6]]]
    for seed in range(20):
        ids = searched(random_logits(seed, VOCAB_SIZE), required(forms), config)
        assert has(tuple(ids), forms, ())


def test_a_phrase_with_a_place_stands_there_behind_the_prefix() -> None:
    for seed in range(10):
        logits = random_logits(seed, VOCAB_SIZE)
        for prefix in ((), (6,), (6, 4)):
            phrases = required([[[4], [5, 6]]], place=len(prefix))
            ids = searched(logits, phrases, SearchConfig(beam_size=3), prefix)
            assert tuple(ids[: len(prefix)]) == prefix
            behind = ids[len(prefix) :]
            assert behind[:1] == [4] or behind[:2] == [5, 6]


def test_phrases_change_neither_the_least_length_nor_what_may_be_repeated() -> None:
    for seed in range(20):
        logits = random_logits(seed, VOCAB_SIZE)
        for beam_size in (1, 3):
            config = SearchConfig(beam_size=beam_size, min_length=MOST)
            assert len(searched(logits, required([[[5]]]), config)) >= MOST - 1
            config = SearchConfig(beam_size=beam_size, no_repeat_ngram_size=1)
            ids = searched(logits, required([[[5]]]), config)
            assert len(set(ids)) == len(ids)


def test_no_word_goes_on_behind_a_phrase_even_if_all_likely_tokens_do() -> None:
    def logits(_: int, prefix: Prefix) -> list[float]:
        return [0.0, 0.0, -9.0, 0.0, 9.0, 0.0, 9.0] if prefix else [0.0] * VOCAB_SIZE

    config = SearchConfig(beam_size=1)
    assert searched(logits, required([[[5]]], continues=(4, 6), place=0), config)[:2] in ([5], [5, 5])
