"""Data derived from other data have its sub-words: the pairs the other way round, and tagged ones."""

from pathlib import Path

import pytest

from allyouneed import CorpusFiles, DataConfig, prepare
from allyouneed.data.store import PairStore
from allyouneed.errors import DataError
from allyouneed.preparation.derived_data import TAG, add_synthetic, reverse
from allyouneed.preparation.prepared_data import PreparedData


def ids(store: PairStore, side: str) -> list[list[int]]:
    return [getattr(store, side).sentence(index).tolist() for index in range(store.num_pairs)]


@pytest.fixture(params=[True, False], ids=["one vocabulary", "two vocabularies"])
def prepared(request: pytest.FixtureRequest, tmp_path: Path, toy_text: Path) -> PreparedData:
    train, valid = (
        CorpusFiles(toy_text / f"{part}.en", toy_text / f"{part}.toy", drop_repeats=False)
        for part in ("train", "valid")
    )
    config = DataConfig(
        vocab_size=280, joint_vocabulary=request.param, source_language="en", target_language="de"
    )
    return prepare(tmp_path / "data", train, valid, config)


def test_reversed_data_have_the_same_ids_on_the_other_sides(prepared: PreparedData, tmp_path: Path) -> None:
    reverse(prepared, tmp_path / "reverse")
    found = PreparedData(tmp_path / "reverse")
    assert found.units == prepared.units[::-1]
    assert (found.config.source_language, found.config.target_language) == ("de", "en")
    assert found.config.joint_vocabulary == prepared.config.joint_vocabulary
    assert found.valid is not None
    assert prepared.valid is not None
    for own, other in ((found.train, prepared.train), (found.valid, prepared.valid)):
        assert ids(own, "source") == ids(other, "target")
        assert ids(own, "target") == ids(other, "source")
    assert found.lines("train", "source") == prepared.lines("train", "target")


def test_only_sources_of_tagged_files_begin_with_the_tag_which_no_text_encodes_to(
    prepared: PreparedData, tmp_path: Path
) -> None:
    files = [tmp_path / "back.tsv", tmp_path / "forward.tsv"]
    files[0].write_bytes(b"sun moon\tnuso noomo\n<sentinel> bear\traebo\n")
    files[1].write_bytes(b"fish wolf\thsifo flowo\n")
    add_synthetic(prepared, tmp_path / "more", files, files[:1], lambda line: None)
    more = PreparedData(tmp_path / "more")
    assert more.units == prepared.units
    sources = ids(more.train, "source")
    texts = ["sun moon", "<sentinel> bear", "fish wolf"]
    encoded = prepared.units.source.encode_batch(texts)
    assert sources == [[TAG, *encoded[0]], [TAG, *encoded[1]], encoded[2]]
    assert not any(TAG in text for text in encoded)
    assert ids(more.train, "target") == prepared.units.target.encode_batch(
        ["nuso noomo", "raebo", "hsifo flowo"]
    )
    assert more.lines("train", "source") == texts


def test_subword_dropout_keeps_the_tag(prepared: PreparedData, tmp_path: Path) -> None:
    prepared.config = prepared.config.replace(bpe_dropout=0.5)
    file = tmp_path / "back.tsv"
    file.write_bytes(b"sun moon star\tnuso noomo ratso\n" * 20)
    add_synthetic(prepared, tmp_path / "more", [file], [file], lambda line: None)
    sources = ids(PreparedData(tmp_path / "more").train, "source")
    assert {source[0] for source in sources} == {TAG}
    assert len({tuple(source) for source in sources}) > 1
    assert all(source.count(TAG) == 1 for source in sources)


def test_what_is_dropped_is_told_and_nothing_left_is_an_error(prepared: PreparedData, tmp_path: Path) -> None:
    file, told = tmp_path / "back.tsv", list[str]()
    file.write_bytes(b"\tnuso\nsun\tnuso\n" + b"sun " * 30 + b"\tnuso\n")
    add_synthetic(prepared, tmp_path / "more", [file], [file], told.append)
    assert "train: 3 pairs read, 1 kept, 2 dropped" in told
    file.write_bytes(b"\tnuso\n")
    with pytest.raises(DataError, match="train: 0 of 1 pairs are left"):
        add_synthetic(prepared, tmp_path / "none", [file], [file], told.append)
    assert not (tmp_path / "none").exists()
