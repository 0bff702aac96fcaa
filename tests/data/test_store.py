import itertools
import json
import struct
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from tests.stores import write_store

from allyouneed.data.store import PairStore, PairWriter, Sentences, require_ids_below
from allyouneed.errors import DiskError, ModelError

Pair = tuple[list[int], list[int], int]

PAIRS: list[Pair] = [([3, 4, 5], [6, 7], 1), ([8], [9, 10, 11, 12], 3), ([13, 14], [15], 4)]


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    write_store(tmp_path / "train", PAIRS, vocabulary_size=20, shard_tokens=4, facts={"corpus_sha256": "ab"})
    return tmp_path / "train"


def sentences(vocabulary_size: int) -> st.SearchStrategy[list[int]]:
    return st.lists(st.integers(3, vocabulary_size - 1), max_size=7)


@st.composite
def pairs_and_vocabulary_size(draw: st.DrawFn) -> tuple[list[Pair], int]:
    vocabulary_size = draw(st.sampled_from([5, 1 << 16, (1 << 16) + 1, 1 << 20]))
    sentence = sentences(vocabulary_size)
    return draw(
        st.lists(st.tuples(sentence, sentence, st.integers(1, 1 << 40)), max_size=30)
    ), vocabulary_size


@pytest.fixture(scope="module")
def fresh(tmp_path_factory: pytest.TempPathFactory) -> Callable[[], Path]:
    root, numbers = tmp_path_factory.mktemp("stores"), itertools.count()
    return lambda: root / str(next(numbers))


@given(pairs_and_vocabulary_size(), st.integers(1, 40))
def test_what_was_written_is_read_for_any_shard_size_and_both_widths(
    fresh: Callable[[], Path], case: tuple[list[Pair], int], shard_tokens: int
) -> None:
    pairs, vocabulary_size = case
    directory = fresh()
    write_store(directory, pairs, vocabulary_size=vocabulary_size, shard_tokens=shard_tokens)
    store = PairStore(directory)
    assert store.num_pairs == len(pairs)
    assert [
        (store.source.sentence(i).tolist(), store.target.sentence(i).tolist(), int(store.line_numbers[i]))
        for i in range(store.num_pairs)
    ] == pairs
    assert store.source_lengths.tolist() == [len(source) for source, _, _ in pairs]
    assert store.target_lengths.tolist() == [len(target) for _, target, _ in pairs]


@given(pairs_and_vocabulary_size(), st.integers(1, 40), st.data())
def test_gathered_sentences_equal_the_single_ones_padded(
    fresh: Callable[[], Path], case: tuple[list[Pair], int], shard_tokens: int, data: st.DataObject
) -> None:
    pairs, vocabulary_size = case
    directory = fresh()
    write_store(directory, pairs, vocabulary_size=vocabulary_size, shard_tokens=shard_tokens)
    chosen = data.draw(st.lists(st.integers(0, len(pairs) - 1))) if pairs else []
    indices = np.array(chosen, np.int64)
    store = PairStore(directory)
    for gathered, rows in (
        (store.source.gather(indices), [pairs[i][0] for i in chosen]),
        (store.target.gather(indices), [pairs[i][1] for i in chosen]),
    ):
        longest = max(map(len, rows), default=0)
        assert gathered.dtype == np.int64
        assert gathered.shape == (len(rows), longest)
        assert gathered.tolist() == [row + [0] * (longest - len(row)) for row in rows]


def test_sentences_are_put_after_others_one_by_one() -> None:
    found = Sentences.of([[3, 4], [], [5]]).after(Sentences.of([[7], [8, 9], []]))
    assert (found.ids.tolist(), found.lengths.tolist()) == ([7, 3, 4, 8, 9, 5], [3, 2, 1])


def test_the_files_are_those_of_the_format(directory: Path) -> None:
    assert sorted(path.name for path in directory.iterdir()) == [
        "header.json",
        "line_numbers.bin",
        "source-00000.bin",
        "source-00001.bin",
        "source_offsets.bin",
        "target-00000.bin",
        "target-00001.bin",
        "target-00002.bin",
        "target_offsets.bin",
    ]
    assert (directory / "source-00000.bin").read_bytes() == struct.pack("<4H", 3, 4, 5, 8)
    assert (directory / "source-00001.bin").read_bytes() == struct.pack("<2H", 13, 14)
    # The second sentence does not fit behind the first in four tokens, nor the third behind the second.
    assert (directory / "target-00000.bin").read_bytes() == struct.pack("<2H", 6, 7)
    assert (directory / "target-00001.bin").read_bytes() == struct.pack("<4H", 9, 10, 11, 12)
    assert (directory / "target_offsets.bin").read_bytes() == struct.pack("<4q", 0, 2, 6, 7)
    assert (directory / "line_numbers.bin").read_bytes() == struct.pack("<3q", 1, 3, 4)
    assert json.loads((directory / "header.json").read_bytes()) == {
        "format": "allyouneed sentence pairs",
        "format_version": 1,
        "dtype": "uint16",
        "num_pairs": 3,
        "source_tokens": 6,
        "target_tokens": 7,
        "source_shards": [4, 2],
        "target_shards": [2, 4, 1],
        "facts": {"corpus_sha256": "ab"},
    }


@pytest.mark.parametrize(("vocabulary_size", "width"), [(1 << 16, 2), ((1 << 16) + 1, 4)])
def test_ids_take_two_bytes_while_the_vocabulary_allows(
    tmp_path: Path, vocabulary_size: int, width: int
) -> None:
    write_store(tmp_path / "a", [([vocabulary_size - 1], [3], 1)], vocabulary_size=vocabulary_size)
    assert (tmp_path / "a" / "source-00000.bin").stat().st_size == width
    assert PairStore(tmp_path / "a").source.sentence(0).tolist() == [vocabulary_size - 1]


def test_facts_may_become_known_while_the_pairs_are_written(tmp_path: Path) -> None:
    facts: dict[str, object] = {}
    with PairWriter(tmp_path / "a", vocabulary_size=20, facts=facts) as writer:
        writer.add(Sentences.of([[3]]), Sentences.of([[4]]), [1])
        facts["dropped"] = 7
    assert PairStore(tmp_path / "a").facts == {"dropped": 7}


def test_a_long_corpus_is_written_in_pieces(tmp_path: Path) -> None:
    pairs = [([3 + i % 7] * (i % 5), [3 + i % 11] * (i % 3), i + 1) for i in range(10_000)]
    write_store(tmp_path / "a", iter(pairs), vocabulary_size=20, shard_tokens=3_333)
    store = PairStore(tmp_path / "a")
    assert [
        (store.source.sentence(i).tolist(), store.target.sentence(i).tolist(), i + 1)
        for i in range(store.num_pairs)
    ] == pairs
    assert store.line_numbers.tolist() == list(range(1, 10_001))


@pytest.mark.parametrize("together", [2, 7, 1_000])
def test_the_files_are_the_same_however_many_pairs_are_written_at_once(tmp_path: Path, together: int) -> None:
    pairs = [([3 + i % 7] * (i % 5), [3 + i % 11] * (i % 29), i + 1) for i in range(1_000)]
    write_store(tmp_path / "a", pairs, vocabulary_size=20, shard_tokens=25)
    with PairWriter(tmp_path / "b", vocabulary_size=20, shard_tokens=25) as writer:
        for start in range(0, len(pairs), together):
            sources, targets, numbers = zip(*pairs[start : start + together], strict=True)
            writer.add(Sentences.of(sources), Sentences.of(targets), numbers)
    one, other = (
        {path.name: path.read_bytes() for path in (tmp_path / name).iterdir()} for name in ("a", "b")
    )
    assert one == other
    assert len(one) > 500


@pytest.mark.parametrize("token", [0, 1, 2, 20, 1 << 16])
def test_control_symbols_and_ids_outside_the_vocabulary_are_never_stored(tmp_path: Path, token: int) -> None:
    with pytest.raises(AssertionError):
        write_store(tmp_path / "a", [([3, token], [3], 1)], vocabulary_size=20)


def test_a_store_whose_writing_failed_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError):
        write_store(tmp_path / "a", (([3], [4], 1 // n) for n in (1, 0)), vocabulary_size=20)
    with pytest.raises(ModelError, match=r"header\.json: no such file"):
        PairStore(tmp_path / "a")


def test_each_missing_file_is_named(directory: Path) -> None:
    for path in directory.iterdir():
        content = path.read_bytes()
        path.unlink()
        with pytest.raises(ModelError, match="no such file; prepare the data again") as raised:
            PairStore(directory)
        assert str(path) in str(raised.value)
        path.write_bytes(content)
    assert PairStore(directory).num_pairs == 3


def test_each_file_that_is_cut_or_has_grown_is_named(directory: Path) -> None:
    for path in directory.iterdir():
        content = path.read_bytes()
        for wrong in (content[:-1], content[: len(content) // 2], b"", content + b"\x07"):
            path.write_bytes(wrong)
            with pytest.raises(ModelError) as raised:
                PairStore(directory)
            assert str(raised.value).startswith(f"{path}: ")
            assert len(raised.value.messages) == 1
        path.write_bytes(content)
    assert PairStore(directory).num_pairs == 3


@pytest.mark.parametrize("offsets", [(1, 2, 6, 7), (0, 2, 6, 6), (0, 7, 6, 7), (0, -(1 << 62), 6, 7)])
def test_offsets_that_do_not_fit_the_ids_are_refused(
    directory: Path, offsets: tuple[int, int, int, int]
) -> None:
    path = directory / "target_offsets.bin"
    path.write_bytes(struct.pack("<4q", *offsets))
    with pytest.raises(ModelError, match=r"target_offsets\.bin: is damaged"):
        PairStore(directory)


@pytest.mark.parametrize(
    "change",
    [
        {"dtype": "float64"},
        {"dtype": None},
        {"num_pairs": "many"},
        {"num_pairs": float("inf")},
        {"source_shards": 4},
        {"target_shards": [None]},
        {"facts": 1},
    ],
)
def test_a_header_with_a_wrong_value_is_damaged(directory: Path, change: dict[str, object]) -> None:
    path = directory / "header.json"
    path.write_bytes(json.dumps(json.loads(path.read_bytes()) | change).encode())
    with pytest.raises(ModelError, match=r"header\.json: is damaged; prepare the data again"):
        PairStore(directory)


@pytest.mark.parametrize("content", [b"", b"[]", b"3", b"{}", b"\xff", b"[" * 100_000])
def test_a_header_that_is_none_is_damaged(directory: Path, content: bytes) -> None:
    (directory / "header.json").write_bytes(content)
    with pytest.raises(ModelError, match=r"header\.json: is damaged; prepare the data again"):
        PairStore(directory)


@pytest.mark.parametrize("num_pairs", [-1, 2, 4, 1 << 62, 1 << 70])
def test_a_header_with_a_wrong_number_of_pairs_is_refused_before_memory_is_taken(
    directory: Path, num_pairs: int
) -> None:
    path = directory / "header.json"
    path.write_bytes(json.dumps(json.loads(path.read_bytes()) | {"num_pairs": num_pairs}).encode())
    with pytest.raises(ModelError, match=r"line_numbers\.bin: has 24 bytes"):
        PairStore(directory)


def test_a_newer_format_asks_for_an_upgrade(directory: Path) -> None:
    path = directory / "header.json"
    path.write_bytes(path.read_bytes().replace(b'"format_version": 1', b'"format_version": 2'))
    with pytest.raises(ModelError, match=r"'allyouneed sentence pairs' 2, but .* 1; upgrade allyouneed"):
        PairStore(directory)


def test_a_file_that_cannot_be_read_is_a_disk_error(directory: Path) -> None:
    header = directory / "header.json"
    header.unlink()
    header.mkdir()
    with pytest.raises(DiskError, match=r"header\.json: Is a directory"):
        PairStore(directory)
    with pytest.raises(DiskError, match="Not a directory"):
        PairStore(directory / "line_numbers.bin")


def test_long_sentences_are_written_before_many_of_them_are_held(tmp_path: Path) -> None:
    """Promise: Preparation."""
    sentence = list(range(5, 10_005))
    tracemalloc.start()
    write_store(tmp_path / "long", [(sentence, sentence, n) for n in range(1, 501)], vocabulary_size=10_005)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 50_000_000
    store = PairStore(tmp_path / "long")
    assert store.num_pairs == 500
    assert (store.source.sentence(499) == sentence).all()
    assert (store.target.sentence(499) == sentence).all()


def test_offsets_whose_differences_overflow_are_refused(directory: Path) -> None:
    for side in ("source", "target"):
        path = directory / f"{side}_offsets.bin"
        sound = path.read_bytes()
        offsets = np.frombuffer(sound, "<i8").copy()
        offsets[1:-1] = (2**63 - 1, -2)[: len(offsets) - 2]
        path.write_bytes(offsets.tobytes())
        with pytest.raises(ModelError, match=rf"{side}_offsets\.bin: is damaged"):
            PairStore(directory)
        path.write_bytes(sound)


def test_a_sentence_across_shards_is_refused(directory: Path) -> None:
    header = json.loads((directory / "header.json").read_bytes())
    first, second, *others = header["source_shards"]
    header["source_shards"] = [first + 1, second - 1, *others]
    (directory / "header.json").write_bytes(json.dumps(header).encode())
    shards = [directory / f"source-{shard:05}.bin" for shard in (0, 1)]
    ids = b"".join(shard.read_bytes() for shard in shards)
    cut = (first + 1) * len(ids) // (first + second)
    shards[0].write_bytes(ids[:cut])
    shards[1].write_bytes(ids[cut:])
    with pytest.raises(ModelError, match=r"source_offsets\.bin: is damaged"):
        PairStore(directory)


def test_ids_that_no_sentence_of_the_vocabulary_has_are_refused_with_their_shard(directory: Path) -> None:
    def read(source_vocab_size: int, target_vocab_size: int) -> None:
        def check(path: Path, ids: NDArray[Any]) -> None:
            sizes = {"source": source_vocab_size, "target": target_vocab_size}
            if size := sizes.get(path.name.partition("-")[0]):
                require_ids_below(path, ids, size)

        store = PairStore(directory, check)
        for index in range(3):
            assert store.source.sentence(index).ndim == store.target.sentence(index).ndim == 1

    store = PairStore(directory)
    largest = [
        max(int(side(i).max(initial=3)) for i in range(3))
        for side in (store.source.sentence, store.target.sentence)
    ]
    read(largest[0] + 1, largest[1] + 1)
    with pytest.raises(
        ModelError, match=rf"source-0000\d\.bin: holds ids .* 3 to {largest[0] - 1} are possible"
    ):
        read(largest[0], largest[1] + 1)
    with pytest.raises(ModelError, match=r"target-0000\d\.bin: holds ids"):
        read(largest[0] + 1, largest[1])
    shard = directory / "target-00000.bin"
    shard.write_bytes(b"\x02\x00" + shard.read_bytes()[2:])  # an end symbol
    with pytest.raises(ModelError, match=r"target-00000\.bin: holds ids from 2 to"):
        read(largest[0] + 1, largest[1] + 1)
