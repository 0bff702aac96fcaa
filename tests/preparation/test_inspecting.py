"""What is found in prepared data is what is in it."""

import itertools
import json
import random
import shutil
import tracemalloc
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from allyouneed.config.run import DataConfig
from allyouneed.data.batch_plans import padding_share
from allyouneed.data.corpus_files import CorpusFiles
from allyouneed.data.lines import write_lines
from allyouneed.errors import ModelError
from allyouneed.preparation.inspecting import Inspection, _repeats, inspect
from allyouneed.preparation.prepared_data import PreparedData
from allyouneed.preparation.preparing import prepare
from allyouneed.storage.publish.manifest import write_manifest
from allyouneed.symbols import CONTROL_SYMBOLS, UNKNOWN
from allyouneed.tasks.translation.task import TRANSLATION

ODD = "sun moon star", "moon star bear wolf " * 5
WORDS = ["sun", "moon", "star", "bear", "wolf", "tree", "ü"]


def write_pairs(folder: Path, name: str, pairs: list[tuple[str, str]]) -> CorpusFiles:
    for side, texts in zip("st", zip(*pairs, strict=True), strict=True):
        write_lines(folder / f"{name}.{side}", list(texts))
    return CorpusFiles(folder / f"{name}.s", folder / f"{name}.t", drop_repeats=False)


@pytest.fixture(scope="module", params=["joint", "separate"])
def prepared(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> PreparedData:
    """Data of 300 random pairs with repeats, copies, and a pair that does not fit."""
    folder, draw = tmp_path_factory.mktemp("inspected"), random.Random(1)

    def text() -> str:
        return " ".join(draw.choices(WORDS, k=draw.randint(1, 12)))

    pairs = [(source := text(), source[::-1]) for _ in range(280)]
    pairs += [("sun moon", "sun moon")] * 7 + [("sun moon", "moon"), ("a", "sun moon")]
    pairs += [ODD] + [(f"{draw.choice(WORDS)} é", "é") for _ in range(10)]
    draw.shuffle(pairs)
    valid = [pairs[3], pairs[4], (pairs[5][0], "something else"), ("something", "else")]
    config = DataConfig(vocab_size=280, joint_vocabulary=request.param == "joint", max_length_ratio=100)
    prepare(folder / "data", write_pairs(folder, "train", pairs), write_pairs(folder, "valid", valid), config)
    return PreparedData(folder / "data")


@pytest.fixture(scope="module")
def found(prepared: PreparedData) -> Inspection:
    return inspect(prepared, num_examples=3)


def test_sizes_are_those_of_the_text(prepared: PreparedData, found: Inspection) -> None:
    for name, side in (("source", found.source), ("target", found.target)):
        lines = prepared.lines("train", name)
        assert side.num_words == sum(len(line.split()) for line in lines)
        assert side.num_characters == sum(map(len, lines))
        units = getattr(prepared.units, name)
        assert side.lengths.tolist() == [len(units.encode(line)) for line in lines]
        assert side.tokens_per_word == sum(side.lengths.tolist()) / side.num_words
    assert (found.num_pairs, found.num_valid_pairs) == (300, 4)
    assert found.num_bytes == sum(p.stat().st_size for p in prepared.directory.rglob("*") if p.is_file())


def test_entries_are_counted_in_each_vocabulary(prepared: PreparedData, found: Inspection) -> None:
    counts = {
        name: Counter(
            token
            for line in prepared.lines("train", name)
            for token in getattr(prepared.units, name).encode(line)
        )
        for name in ("source", "target")
    }
    if prepared.config.joint_vocabulary:
        counts = {"both sides": counts["source"] + counts["target"]}
    assert found.vocabularies.keys() == counts.keys()
    for name, vocabulary in found.vocabularies.items():
        assert dict(enumerate(vocabulary.counts.tolist())) == {
            token: counts[name][token] for token in range(len(vocabulary.counts))
        }
        assert vocabulary.num_entries == len(vocabulary.counts) - len(CONTROL_SYMBOLS)
        assert vocabulary.num_used == len(counts[name])
        assert vocabulary.num_rare == sum(times < 10 for times in counts[name].values()) > 0
        assert vocabulary.num_unknown_tokens == counts[name][UNKNOWN]


def test_repeats_are_counted(prepared: PreparedData, found: Inspection) -> None:
    sources, targets = (prepared.lines("train", side) for side in ("source", "target"))
    pairs = list(zip(sources, targets, strict=True))
    valid = list(zip(*(prepared.lines("valid", side) for side in ("source", "target")), strict=True))
    repeats = found.repeats
    assert repeats.num_pairs == len(pairs) - len(set(pairs)) >= 6
    assert repeats.num_sources == len(sources) - len(set(sources)) > repeats.num_pairs
    assert repeats.num_targets == len(targets) - len(set(targets))
    assert repeats.num_copies == sum(source == target for source, target in pairs) >= 7
    assert repeats.num_valid_pairs == 2 == sum(pair in pairs for pair in valid)
    assert repeats.num_valid_sources == 3
    most = Counter(pairs).most_common(1)[0]
    assert (found.most_repeated[0].source, found.most_repeated[0].target) == most[0]
    assert found.most_repeated[0].times == most[1]
    assert all(each.times > 1 for each in found.most_repeated)


ALONE: Any = SimpleNamespace(valid=None, task=TRANSLATION)
"""Data without a validation part, of which `_repeats` asks no more than this."""


def texts_of(hashes: Callable[[], list[NDArray[np.int64]]]) -> Any:
    """Texts with given hashes of sources, targets and pairs."""
    return SimpleNamespace(hashes=hashes, num_copies=0)


def test_repeats_are_those_of_a_count() -> None:
    for num_pairs, num_different in ((1, 1), (2, 1), (40, 1), (300, 9), (300, 200), (300, 10**9)):
        for seed in range(20):
            columns = np.random.default_rng(seed).integers(-num_different, num_different, (3, num_pairs))
            repeats, most = _repeats(ALONE, texts_of(lambda c=columns: [*c.copy()]), 5)  # type: ignore[misc]
            counts = [Counter(column.tolist()) for column in columns]
            found = repeats.num_sources, repeats.num_targets, repeats.num_pairs
            assert found == tuple(num_pairs - len(each) for each in counts)
            assert list(most.items()) == [
                (columns[2].tolist().index(each), times)
                for each, times in counts[2].most_common(5)
                if times > 1
            ]


def test_the_repeats_of_a_million_pairs_take_little_memory() -> None:
    num_pairs, draw = 1_000_000, np.random.default_rng(1)
    texts = texts_of(lambda: [draw.integers(0, 10**12, num_pairs) for _ in range(3)])
    tracemalloc.start()
    _repeats(ALONE, texts, 5)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 4 * 8 * num_pairs  # the three columns, and one more


def test_pairs_that_stand_out_are_shown_with_their_lines(prepared: PreparedData, found: Inspection) -> None:
    lines = {side: prepared.lines("train", side) for side in ("source", "target")}
    lengths = np.maximum(found.source.lengths, found.target.lengths)
    shown = [max(each.num_source_tokens, each.num_target_tokens) for each in found.longest]
    assert shown == sorted(lengths.tolist(), reverse=True)[:3]
    assert (found.oddest[0].source, found.oddest[0].target) == ODD
    for each in found.longest + found.oddest + found.most_repeated:
        assert lines["source"][each.number - 1] == each.source
        assert lines["target"][each.number - 1] == each.target
        assert found.source.lengths[each.number - 1] == each.num_source_tokens
        assert found.target.lengths[each.number - 1] == each.num_target_tokens


def test_padding_is_the_share_of_what_is_computed() -> None:
    source, target = np.array([1, 4, 2, 9]), np.array([2, 2, 7, 1])
    batches = [np.array([1, 0]), np.array([3]), np.array([2])]
    real = (source + 1).sum() + (target + 1).sum()
    computed = sum(
        len(batch) * (lengths[batch].max() + 1)
        for batch, lengths in itertools.product(batches, (source, target))
    )
    assert padding_share(source, target, batches) == pytest.approx(1 - real / computed)


def test_smaller_micro_batches_have_less_padding(found: Inspection) -> None:
    assert found.padding.keys() == {1_024, 4_096, 16_384}
    assert 0 < found.padding[1_024] <= found.padding[4_096] <= found.padding[16_384] < 1


def test_no_examples_and_progress(prepared: PreparedData) -> None:
    numbers: list[int] = []
    found = inspect(prepared, 0, numbers.append)
    assert found.longest == found.oddest == found.most_repeated == []
    assert sum(numbers) == 2 * found.num_pairs


def test_trees_have_no_copies_and_no_odd_lengths(toy_parser: Path, toy_treebank: Path) -> None:
    found = inspect(PreparedData(toy_parser.parent / "data"))
    assert found.examples == "trees"
    assert found.oddest == []
    assert found.repeats.num_copies is None
    assert found.longest


@pytest.mark.parametrize("damage", [b"x", b"\xff"])
def test_text_that_is_damaged_is_not_inspected(
    prepared: PreparedData, tmp_path: Path, damage: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("allyouneed.preparation.prepared_data._LARGE_BYTES", 1)
    copy = Path(shutil.copytree(prepared.directory, tmp_path / "data"))
    path = copy / "text" / "train.source"
    content = path.read_bytes()
    path.write_bytes(content[:50].replace(b"\n", b"y") + damage + content[51:])
    data = PreparedData(copy)
    with pytest.raises(ModelError, match=r"text/train\.source: is damaged"):
        inspect(data)


def seal(data: Path) -> None:
    """Write a manifest of the files as they are, with the facts of the one that is there."""
    found = json.loads((data / "MANIFEST.json").read_bytes())
    facts = {name: found[name] for name in ("config", "facts", "source_vocab_size", "target_vocab_size")}
    write_manifest(data, "data", facts)


@pytest.mark.parametrize("sides", [["source"], ["source", "target"]])
@pytest.mark.parametrize(
    "change", [lambda text: text + b"one more\n", lambda text: text[:-5].rpartition(b"\n")[0]]
)
def test_sealed_data_whose_text_has_no_line_for_each_pair_are_not_inspected(
    prepared: PreparedData, tmp_path: Path, sides: list[str], change: Callable[[bytes], bytes]
) -> None:
    copy = Path(shutil.copytree(prepared.directory, tmp_path / "data"))
    for side in sides:
        path = copy / "text" / f"train.{side}"
        path.write_bytes(change(path.read_bytes()))
    seal(copy)
    with pytest.raises(ModelError, match="do not have a line for each pair; prepare the data again"):
        inspect(PreparedData(copy))


def test_a_sealed_report_without_counts_is_damaged(prepared: PreparedData, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(prepared.directory, tmp_path / "data"))
    (copy / "report.json").write_bytes(b'{"train": {}}')
    seal(copy)
    with pytest.raises(ModelError, match=r"report\.json: is damaged"):
        PreparedData(copy).report("train")
