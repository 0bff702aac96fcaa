"""Sources that are vectors in stores and batches."""

from pathlib import Path

import numpy as np
import pytest

from allyouneed.data.batch_plans import make_batch
from allyouneed.data.store import PairStore, PairWriter, Sentences, require_finite
from allyouneed.data.vectors import Vectors, with_end
from allyouneed.errors import ModelError
from allyouneed.symbols import END

DRAW = np.random.default_rng(1)
SOURCES = [Vectors(DRAW.normal(size=(length, 3)).astype(np.float32)) for length in (4, 1, 7, 2)]
TARGETS = [[5, 6], [7], [8, 9, 10], [5]]


def write(directory: Path, shard_tokens: int = 1 << 28) -> PairStore:
    with PairWriter(directory, vocabulary_size=20, source_features=3, shard_tokens=shard_tokens) as writer:
        writer.add(Sentences.of(SOURCES[:3]), Sentences.of(TARGETS[:3]), [1, 2, 3])
    with PairWriter(directory, vocabulary_size=20, source_features=3, shard_tokens=shard_tokens) as writer:
        writer.add(Sentences.of(SOURCES[3:]), Sentences.of(TARGETS[3:]), [4])  # goes on where that ended
    return PairStore(directory, require_sound)


def require_sound(path: Path, numbers: "np.ndarray[tuple[int, ...], np.dtype[np.float32]]") -> None:
    if path.name.startswith("source"):
        require_finite(path, numbers)


@pytest.mark.parametrize("shard_tokens", [1 << 28, 15])
def test_vectors_are_stored_in_shards_and_come_back(tmp_path: Path, shard_tokens: int) -> None:
    store = write(tmp_path / "a", shard_tokens)
    assert len([*(tmp_path / "a").glob("source-*")]) == (1 if shard_tokens > 15 else 3)
    assert store.source_lengths.tolist() == [4, 1, 7, 2]
    for index, source in enumerate(SOURCES):
        np.testing.assert_array_equal(store.source.sentence(index), source.values)
    assert store.source.counts(3).tolist() == [14, 14, 14]
    joined = store.with_replayed(write(tmp_path / "b", shard_tokens))
    np.testing.assert_array_equal(joined.source.gather([6])[0], SOURCES[2].values)


def test_batches_of_vectors_are_padded_with_nan_and_have_no_end(tmp_path: Path) -> None:
    batch = make_batch(write(tmp_path / "a"), np.array([1, 2]))
    assert batch.source.dtype == np.float32
    np.testing.assert_array_equal(batch.source[1], SOURCES[2].values)
    np.testing.assert_array_equal(batch.source[0, :1], SOURCES[1].values)
    assert np.isnan(batch.source[0, 1:]).all()
    assert batch.target_output.tolist() == [[7, END, 0, 0], [8, 9, 10, END]]
    assert with_end(SOURCES[0]) is SOURCES[0]
    assert with_end([5]) == [5, END]


def test_damaged_vectors_are_told(tmp_path: Path) -> None:
    write(tmp_path / "a")
    shard = tmp_path / "a" / "source-00000.bin"
    content = bytearray(shard.read_bytes())
    content[4:8] = np.float32(np.nan).tobytes()
    shard.write_bytes(content)
    with pytest.raises(ModelError, match=r"source-00000\.bin: holds features that are not finite"):
        PairStore(tmp_path / "a", require_sound).source.gather([0])
    shard.write_bytes(content[:-4])
    with pytest.raises(ModelError, match="has 164 bytes, 168 expected"):
        PairStore(tmp_path / "a")


def test_places_are_a_sequence() -> None:
    assert (SOURCES[0][-1], [*SOURCES[0][1:3]]) == (3, [1, 2])
    assert len(np.unique([hash(source) for source in SOURCES])) == 4
