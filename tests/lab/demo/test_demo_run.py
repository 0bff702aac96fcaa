"""The yardsticks beside which the demo is scored: a dictionary and a memory.

The demo in small: what it leaves behind, that it goes on where it was, and that it can be stopped.
"""

import json
import math
import os
import signal
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch

from allyouneed.config.presets import demo
from allyouneed.config.run import RunConfig
from allyouneed.data.lines import read_lines
from allyouneed.lab.demo.demo_run import (
    DICTIONARY,
    MODEL,
    NEAREST,
    DemoResult,
    nearest_sentence,
    run_demo,
    translate_word_by_word,
)
from allyouneed.lab.demo.grammar import DemoCorpus, generate_demo_corpus
from allyouneed.storage.publish import read_manifest


def test_word_by_word_keeps_the_order_and_attaches_marks() -> None:
    dictionary = {"the": "der", "dog": "Hund", "sleeps": "schläft"}
    assert translate_word_by_word(["The dog sleeps."], dictionary) == ["Der Hund schläft."]


def test_word_by_word_copies_unknown_words_and_drops_empty_entries() -> None:
    assert translate_word_by_word(["does Anna Weber sleep, Peter?"], {"does": "", "sleep": "schlafen"}) == [
        "Anna Weber schlafen, Peter?"
    ]


def test_word_by_word_prefers_the_entry_with_the_same_capital() -> None:
    assert translate_word_by_word(["Rose a rose"], {"Rose": "Rosa", "rose": "erhob", "a": "ein"}) == [
        "Rosa ein erhob"
    ]


def test_empty_sentence_stays_empty() -> None:
    assert translate_word_by_word([""], {}) == [""]


def test_nearest_sentence_is_itself_when_it_was_seen() -> None:
    sources = ["the dog sleeps .", "the cat sleeps .", "a bird sings ."]
    assert nearest_sentence(sources, sources, ["A", "B", "C"]) == ["A", "B", "C"]


def test_rare_words_weigh_more_than_frequent_ones() -> None:
    sources = [
        "the dog is in the garden",
        "a zebra laughs",
        "the cat is in the house",
        "the cow is in the barn",
    ]
    assert nearest_sentence(["the zebra is here"], sources, ["garden", "zebra", "house", "barn"]) == ["zebra"]


def test_ties_and_strangers_get_the_first_target() -> None:
    assert nearest_sentence(["b", "unheard of"], ["a", "b", "b"], ["A", "B1", "B2"]) == ["B1", "A"]


def test_nearest_sentence_equals_a_brute_force_cosine() -> None:
    sources = [
        "the old dog saw the cat",
        "the cat saw the dog",
        "old cats sleep",
        "a dog and a cat",
        "see the old cat",
    ]
    queries = ["the old cat saw a dog", "cats see", "the dog and the cat sleep"]

    def bag(sentence: str) -> Counter[str]:
        tokens = sentence.split()
        return Counter([*tokens, *(f"{a} {b}" for a, b in pairwise(tokens))])

    def idf(feature: str) -> float:
        count = sum(feature in bag(source) for source in sources)
        return math.log(1 + len(sources) / count) if count else 0.0

    def cosine(query: str, source: str) -> float:
        left, right = bag(query), bag(source)
        product = sum(left[f] * right[f] * idf(f) ** 2 for f in left)
        return product / math.sqrt(sum((right[f] * idf(f)) ** 2 for f in right))

    expected = [max(sources, key=lambda source: cosine(query, source)) for query in queries]
    assert nearest_sentence(queries, sources, sources) == expected


@pytest.mark.parametrize(("sources", "targets"), [([], []), (["a"], []), (["a"], ["A", "B"])])
def test_memory_needs_as_many_targets_as_sources(sources: list[str], targets: list[str]) -> None:
    with pytest.raises(ValueError, match="training sources for"):
        nearest_sentence(["a"], sources, targets)


Demo = Callable[..., DemoResult]


@pytest.fixture(scope="module")
def corpus() -> DemoCorpus:
    return generate_demo_corpus(num_train=200, num_valid=5, num_test=8)


@pytest.fixture
def small_demo(tmp_path: Path, corpus: DemoCorpus) -> Demo:
    config: RunConfig = demo().replace(
        model={"num_layers": 1, "d_model": 16, "d_ff": 16, "num_heads": 2},
        data={"vocab_size": 300},
        training={"num_steps": 3, "batch_tokens": 1_024, "checkpoint_every_steps": 1, "average_last": 2},
        search={"beam_size": 1, "max_extra_tokens": 2},
    )
    return lambda **told: run_demo(tmp_path, torch.device("cpu"), corpus=corpus, config=config, **told)


def test_everything_is_left_behind_and_done_once(
    small_demo: Demo, tmp_path: Path, corpus: DemoCorpus
) -> None:
    result = small_demo()
    assert set(result.scores) == {MODEL, DICTIONARY, NEAREST}
    assert [example.source for example in result.examples] == [pair.source for pair in corpus.test]
    assert len(list(read_lines(tmp_path / "test.de"))) == 8
    written = json.loads((tmp_path / "evaluate.json").read_bytes())
    assert written[MODEL]["bleu_13a"]["score"] == result.scores[MODEL][0].value
    assert list(read_lines(tmp_path / "corpus" / "train.de")) == [pair.target for pair in corpus.train]
    assert len(read_manifest(tmp_path / "model", "model")["parents"]) == 2
    times = {path: path.stat().st_mtime_ns for path in (tmp_path / "model").iterdir()}
    assert small_demo() == result
    assert times == {path: path.stat().st_mtime_ns for path in (tmp_path / "model").iterdir()}


@pytest.fixture
def sigint_handler() -> Iterator[Callable[[Any], Any]]:
    """Sets what SIGINT does: a shell's background jobs are started with it ignored."""
    before = signal.getsignal(signal.SIGINT)
    yield lambda handler: signal.signal(signal.SIGINT, handler)
    signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize(
    ("handler", "end"), [(signal.default_int_handler, KeyboardInterrupt), (signal.SIG_IGN, SystemExit)]
)
def test_a_signal_during_training_ends_the_demo_before_it_uses_the_model(
    small_demo: Demo,
    tmp_path: Path,
    sigint_handler: Callable[[Any], Any],
    handler: Any,
    end: type[BaseException],
) -> None:
    sigint_handler(handler)

    def interrupt(event: dict[str, object]) -> None:
        if event["event"] == "checkpoint" and event["step"] == 1:
            os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(end):
        small_demo(report=interrupt)
    assert not (tmp_path / "model").exists()
    assert json.loads((tmp_path / "run" / "exit.json").read_bytes())["code"] == 130
    small_demo()
    assert json.loads((tmp_path / "run" / "exit.json").read_bytes()) == {
        "code": 0,
        "step": 3,
        "reason": "finished",
    }
