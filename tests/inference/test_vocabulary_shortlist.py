"""A shortlist of everything changes nothing; with any, a sentence has its own tokens whatever the batch."""

import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.kernels import require_kernels
from tests.stores import write_store

from allyouneed.config.run import SearchConfig
from allyouneed.data.store import PairStore
from allyouneed.errors import ModelError
from allyouneed.inference.beams import Hypothesis
from allyouneed.inference.engine import Engine
from allyouneed.inference.ensemble import Ensemble
from allyouneed.inference.generate import generate
from allyouneed.inference.native_engine import NativeEngine
from allyouneed.inference.search_plan import Batching
from allyouneed.inference.torch_engine import TorchEngine
from allyouneed.inference.vocabulary_shortlist import Shortlist
from allyouneed.native.library import FORMS
from allyouneed.symbols import END, PADDING, SENTINEL, START, UNKNOWN

CONTROL_SYMBOLS = {PADDING, START, END, SENTINEL, UNKNOWN}
VOCAB_SIZE = 67
CONFIG = SearchConfig(beam_size=3, max_extra_tokens=4)
ENGINES = ["PyTorch", *FORMS]


def engine_of(name: str, model: Any, shortlist: Shortlist | None = None) -> Engine:
    if name == "PyTorch":
        return TorchEngine(model, shortlist)
    require_kernels()
    return NativeEngine(model, name, shortlist=shortlist)


def sources(num: int) -> list[list[int]]:
    draw = random.Random(num)
    return [[draw.randrange(5, VOCAB_SIZE) for _ in range(draw.choice([1, 2, 5, 9]))] for _ in range(num)]


def random_shortlist(per_token: int = 4) -> Shortlist:
    table = np.random.default_rng(1).integers(5, VOCAB_SIZE, (VOCAB_SIZE, per_token), np.int32)
    return Shortlist(table, np.array([7, 8], np.int32), VOCAB_SIZE, {})


def bits(found: list[list[Hypothesis]]) -> list[list[tuple[list[int], str]]]:
    return [[(h.ids, h.score.hex()) for h in hypotheses] for hypotheses in found]


def test_candidates_of_a_toy_corpus_by_hand(tmp_path: Path) -> None:
    das, haus, buch, the, house, book = range(5, 11)
    pairs = [([das, haus], [the, house], 1), ([das, buch], [the, book], 2), ([buch], [book], 3)]
    write_store(tmp_path / "train", pairs, vocabulary_size=11)
    store, tokenizers = PairStore(tmp_path / "train"), {"source": "1", "target": "2"}
    learned = Shortlist.learn(store, (8, 11), tokenizers, translations=1, frequent=1)
    assert learned.frequent.tolist() == [the]  # as often as `book`, and of a lower id
    assert set(learned.candidates([buch, END])) == {*CONTROL_SYMBOLS, the, book}
    assert set(learned.candidates([haus, END])) == {*CONTROL_SYMBOLS, the, house}
    both = learned.candidates([haus, buch, END])
    assert both.tolist() == sorted({*CONTROL_SYMBOLS, the, house, book})
    same = Shortlist.learn(store, (11, 11), {"source": "1", "target": "1"}, translations=1, frequent=1)
    assert set(same.candidates([haus, END])) == {*CONTROL_SYMBOLS, the, house, haus}


@pytest.mark.parametrize("name", ENGINES)
def test_a_shortlist_of_everything_changes_no_bit(tiny_model: Any, name: str) -> None:
    model = tiny_model(1, vocab_size=VOCAB_SIZE)
    everything = Shortlist(
        np.zeros((VOCAB_SIZE, 1), np.int32), np.arange(VOCAB_SIZE, dtype=np.int32), VOCAB_SIZE, {}
    )
    without, with_it = (
        list(generate(engine_of(name, model, shortlist), sources(30), CONFIG, n_best=3))
        for shortlist in (None, everything)
    )
    assert bits(with_it) == bits(without)


@pytest.mark.parametrize("name", ENGINES)
def test_a_sentence_has_its_own_candidates_whatever_the_batch_and_order(tiny_model: Any, name: str) -> None:
    shortlist, texts = random_shortlist(), sources(40)
    engine = engine_of(name, tiny_model(2, vocab_size=VOCAB_SIZE), shortlist)
    alone = [next(generate(engine, [source], CONFIG, n_best=2)) for source in texts]
    for source, hypotheses in zip(texts, alone, strict=True):
        assert {token for h in hypotheses for token in h.ids} <= set(shortlist.candidates([*source, END]))
    choices: list[dict[str, Any]] = [{}, {"size": 3}, {"size": 7, "workers": 2}]
    for limits in choices:
        order = random.Random(len(limits)).sample(range(len(texts)), len(texts))
        found = list(
            generate(engine, [texts[i] for i in order], CONFIG, n_best=2, batching=Batching(**limits))
        )
        expected = [alone[i] for i in order]
        assert [[h.ids for h in best] for best in found] == [[h.ids for h in best] for best in expected]
        if name != "PyTorch":
            assert bits(found) == bits(expected)


@pytest.mark.parametrize("name", ENGINES)
def test_logits_of_candidates_are_those_of_the_whole_vocabulary(tiny_model: Any, name: str) -> None:
    model, shortlist = tiny_model(3, vocab_size=VOCAB_SIZE).eval(), random_shortlist()
    texts = [[*source, END] for source in sources(25)]
    with torch.no_grad():
        full, short = (engine_of(name, model, chosen).start(2) for chosen in (None, shortlist))
        for first in range(0, 25, 2):  # more often than blocks are kept apart
            for decoding in (full, short):
                decoding.admit(texts[first : first + 2])
            tokens = np.full((min(first + 2, 25), 2), START)
            expected, found = np.asarray(full.logits(tokens)), short.logits(tokens)
            candidates = short.candidates
            assert full.candidates is None
            assert candidates is not None
            spread = candidates.spread(np.asarray(found))
            for place, source in enumerate(texts[: first + 2]):
                ids = shortlist.candidates(source)
                np.testing.assert_allclose(spread[place][:, ids], expected[place][:, ids], 1e-5, 1e-5)
                others = np.setdiff1d(np.arange(VOCAB_SIZE), ids)
                assert (spread[place][:, others] == -np.inf).all()


def test_rules_of_search_hold_with_a_shortlist_too(tiny_model: Any) -> None:
    shortlist = random_shortlist()
    engine = engine_of("PyTorch", tiny_model(4, vocab_size=VOCAB_SIZE), shortlist)
    texts = sources(12)
    config = CONFIG.replace(min_length=6, no_repeat_ngram_size=1, max_extra_tokens=9)
    for source, [best] in zip(texts, generate(engine, texts, config), strict=True):
        assert len(best.ids) >= 5
        assert len(set(best.ids)) == len(best.ids)
        assert set(best.ids) <= set(shortlist.candidates([*source, END]))
    prefix = shortlist.candidates(texts[0])[-2:].tolist()
    [[best]] = generate(engine, texts[:1], CONFIG, prefixes=[prefix])
    assert best.ids[:2] == prefix


def test_samples_and_ensembles_keep_to_it_too(tiny_model: Any) -> None:
    shortlist, texts = random_shortlist(), sources(12)
    members = [TorchEngine(tiny_model(seed, vocab_size=VOCAB_SIZE), shortlist) for seed in (5, 6)]
    twice = Ensemble([members[0], members[0]])
    single = list(generate(members[0], texts, CONFIG))
    doubled = list(generate(twice, texts, CONFIG))
    assert [h.ids for [h] in doubled] == [h.ids for [h] in single]
    assert [h.score for [h] in doubled] == pytest.approx([h.score for [h] in single], abs=1e-5)
    for engine in (members[0], Ensemble(members)):
        for source, drawn in zip(
            texts, generate(engine, texts, CONFIG.replace(sampling=True), n_best=3), strict=True
        ):
            assert {token for h in drawn for token in h.ids} <= set(shortlist.candidates([*source, END]))


def test_what_was_saved_is_loaded_and_damage_is_refused(tmp_path: Path) -> None:
    shortlist = random_shortlist()
    Shortlist.publish(tmp_path / "shortlist", lambda: shortlist, print)
    loaded = Shortlist.load(tmp_path / "shortlist")
    for source in sources(5):
        assert loaded.candidates(source).tolist() == shortlist.candidates(source).tolist()
    assert (loaded.target_vocab_size, loaded.tokenizers) == (VOCAB_SIZE, {})
    path = tmp_path / "shortlist" / "shortlist.safetensors"
    path.write_bytes(path.read_bytes()[:-1] + b"\xff")
    with pytest.raises(ModelError, match="is damaged"):
        Shortlist.load(tmp_path / "shortlist")


@pytest.mark.gpu
def test_a_gpu_finds_what_a_cpu_finds(tiny_model: Any) -> None:
    model, shortlist = tiny_model(2, vocab_size=VOCAB_SIZE), random_shortlist()
    expected = list(generate(TorchEngine(model, shortlist), sources(30), CONFIG, n_best=2))
    found = list(generate(TorchEngine(model.cuda(), shortlist), sources(30), CONFIG, n_best=2))
    assert [[h.ids for h in best] for best in found] == [[h.ids for h in best] for best in expected]


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({"frequent": np.array([VOCAB_SIZE], np.int32)}, "has tokens that are in no vocabulary"),
        ({"frequent": np.array([-1], np.int32)}, "has tokens that are in no vocabulary"),
        ({"frequent": np.array([7.0])}, "has tokens that are in no vocabulary"),
        ({"translations": np.zeros(VOCAB_SIZE, np.int32)}, "has tokens that are in no vocabulary"),
        ({"target_vocab_size": "many"}, "has tokens that are in no vocabulary"),
        ({"tokenizers": ["a"]}, "has tokens that are in no vocabulary"),
        ({"translations": np.zeros((3, 2), np.int32)}, "is of other sub-words than"),
        ({"tokenizers": {}}, "is of other sub-words than"),
        ({"tokenizers": {"../model/config.toml": "0"}}, "is of other sub-words than"),
        ({"tokenizers": {"/dev/zero": "0"}}, "is of other sub-words than"),
        ({"tokenizers": {"config.toml": 3}}, "is of other sub-words than"),
    ],
    ids=str,
)
def test_a_shortlist_from_a_stranger_is_of_the_model_or_refused(
    tmp_path: Path, changes: dict[str, Any], fault: str
) -> None:
    """Promise: Contents."""
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "config.toml").write_bytes(b"")
    Shortlist.publish(tmp_path / "shortlist", lambda: replace(random_shortlist(), **changes), print)
    with pytest.raises(ModelError, match=fault):
        Shortlist.load(tmp_path / "shortlist", tmp_path / "model", (VOCAB_SIZE, VOCAB_SIZE))
