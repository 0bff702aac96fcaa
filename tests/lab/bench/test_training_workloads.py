"""What is trained on has the lengths of real text, and the form of the trainer's own batches."""

from itertools import islice
from pathlib import Path

import numpy as np
import pytest
from tests.stores import write_store

from allyouneed import CorpusFiles, DataConfig, prepare
from allyouneed.data.batch_plans import make_batch
from allyouneed.data.store import PairStore
from allyouneed.lab.bench.training_workloads import (
    SHAPES,
    Lengths,
    equal_lengths,
    make_batches,
    multi30k_lengths,
)
from allyouneed.symbols import END, PADDING, UNKNOWN


def moments(lengths: Lengths) -> list[float]:
    """Means, deviations and correlation."""
    (source_mean, target_mean), (source_deviation, target_deviation) = (
        lengths.mean(axis=0),
        lengths.std(axis=0),
    )
    correlation = np.corrcoef(lengths[:, 0], lengths[:, 1])[0, 1]
    return [source_mean, target_mean, source_deviation, target_deviation, correlation]


def test_lengths_have_the_moments_that_are_stated() -> None:
    assert moments(multi30k_lengths()) == pytest.approx([14.29, 14.81, 4.74, 5.46, 0.866], rel=0.02)


@pytest.mark.slow
def test_the_moments_are_those_of_multi30k(data_folder: Path, tmp_path: Path) -> None:
    files = (data_folder / "multi30k" / f"train.{language}.gz" for language in ("en", "de"))
    store = prepare(tmp_path / "data", CorpusFiles(*files), config=DataConfig(vocab_size=8_000)).train
    found = np.stack([store.source_lengths, store.target_lengths], axis=1).astype(np.int64)
    assert moments(found) == pytest.approx([14.29, 14.81, 4.74, 5.46, 0.866], rel=0.001)


def test_twice_the_lengths_are_about_thirty_tokens() -> None:
    assert multi30k_lengths(2).mean() + 1 == pytest.approx(30, abs=0.5)


def test_batches_are_those_that_training_would_make_of_the_same_sentences(tmp_path: Path) -> None:
    lengths = multi30k_lengths()[:300]
    found = list(islice(make_batches(lengths, 500, 1_000), 8))
    stored = {
        int(pair): (batch.source[row], batch.target_output[row])
        for batch in found
        for row, pair in enumerate(batch.pairs)
    }
    placeholder = np.array([UNKNOWN + 1])
    ids = [
        tuple(side[: lengths[pair, i]] for i, side in enumerate(stored.get(pair, (placeholder, placeholder))))
        for pair in range(len(lengths))
    ]
    write_store(
        tmp_path / "store",
        ((list(source), list(target), line) for line, (source, target) in enumerate(ids)),
        vocabulary_size=1_000,
    )
    store = PairStore(tmp_path / "store")
    for batch in found:
        expected = make_batch(store, batch.pairs)
        for name in ("source", "target_input", "target_output", "num_target_tokens"):
            assert np.array_equal(getattr(batch, name), getattr(expected, name))
        assert max(batch.source.size, batch.target_output.size) <= 500


def test_ids_are_random_above_the_reserved_ones() -> None:
    (batch,) = islice(make_batches(multi30k_lengths(), 4_096, 50), 1)
    words = batch.source[(batch.source != PADDING) & (batch.source != END)]
    assert set(words) == set(range(UNKNOWN + 1, 50))


def test_pairs_of_similar_length_come_together_so_that_there_is_little_padding() -> None:
    batches = list(islice(make_batches(multi30k_lengths(), 4_096, 50), 30))
    padded = sum(batch.target_output.size for batch in batches)
    assert sum(batch.num_target_tokens for batch in batches) > 0.95 * padded


def test_equal_lengths_fill_a_batch_without_padding() -> None:
    (batch,) = islice(make_batches(equal_lengths(32), 4_096, 50), 1)
    assert batch.source.shape == batch.target_output.shape == (128, 32)
    assert batch.num_target_tokens == 4_096


def test_given_lengths_take_the_place_of_drawn_ones_where_lengths_are_not_what_is_studied() -> None:
    given = np.array([[3, 4]])
    ((words, draw),) = SHAPES["small"].on_lengths(given, "lengths of mine").workloads.items()
    assert (words, draw() is given) == ("lengths of mine", True)
    assert SHAPES["length"].on_lengths(given, "lengths of mine") == SHAPES["length"]
