"""Data of several directions: each source begins with the symbol of its target, however they are prepared."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from tests.packages import require_packages
from tests.preparation.test_preparing import contents

from allyouneed.config.run import DataConfig
from allyouneed.data.corpus_files import CorpusFiles
from allyouneed.data.directed_pairs import ReadingOrder
from allyouneed.errors import DataError, UsageError
from allyouneed.preparation import encoding, preparing
from allyouneed.preparation.prepared_data import PreparedData
from allyouneed.preparation.preparing import prepare

CONFIG = DataConfig(vocab_size=300, bpe_dropout=0.1)
BOTH = [
    ReadingOrder("en", "de"),
    ReadingOrder("de", "en", True),
    ReadingOrder("en", "fr"),
    ReadingOrder("fr", "en", True),
]


def write_pairs(folder: Path, num_german: int = 300, num_french: int = 60) -> CorpusFiles:
    """A corpus in four directions, small ones of which are repeated."""
    german = "".join(f"dog {n}\tHund {n}\n" for n in range(num_german))
    french = "".join(f"dog {n}\tchien {n}\n" for n in range(num_french))
    (folder / "de.tsv").write_bytes(f"{german}>>fr<< cats\t>>fr<< Katzen\nOK\tOK\n".encode())
    (folder / "fr.tsv").write_bytes(f"{french}OK\tOK\n".encode())
    files = [folder / "de.tsv", folder / "de.tsv", folder / "fr.tsv", folder / "fr.tsv"]
    return CorpusFiles(pairs=files, readings=BOTH).tempered(2)


def num_into(data: PreparedData) -> Counter[str]:
    """Symbol -> number of training sources that begin with it."""
    return Counter(line.split(" ", 1)[0] for line in data.lines("train", "source"))


@pytest.mark.parametrize("tokenizer", ["bpe", "wordpiece", "byte", "sentencepiece"])
def test_each_source_begins_with_the_symbol_of_its_target(tmp_path: Path, tokenizer: str) -> None:
    if tokenizer == "sentencepiece":
        require_packages("sentencepiece")
    config = DataConfig.checked(tokenizer=tokenizer, vocab_size=300, joint_vocabulary=tokenizer != "bpe")
    data = prepare(tmp_path / "data", files := write_pairs(tmp_path), files, config)
    source = data.units.source
    symbols = data.units.symbols
    assert [*symbols] == [">>de<<", ">>en<<", ">>fr<<"]
    assert data.valid is not None
    split = [line.split(" ", 1) for line in data.lines("valid", "source")]
    assert Counter(symbol for symbol, _ in split) == {">>de<<": 302, ">>en<<": 363, ">>fr<<": 61}
    assert [">>de<<", ">>fr<< cats"] in split
    for index, (symbol, text) in enumerate(split):
        ids = data.valid.source.sentence(index).tolist()
        assert ids == [symbols[symbol], *source.encode_batch([text])[0]]
    for index, text in enumerate(data.lines("valid", "target")):  # among them ">>fr<< Katzen"
        assert data.valid.target.sentence(index).tolist() == data.units.target.encode_batch([text])[0]
    config = data.config
    assert (config.source_language, config.target_language) == ("", "")
    assert config.directions == (("en", "de"), ("de", "en"), ("en", "fr"), ("fr", "en"))
    separate = data.target_vocab_size == data.source_vocab_size - 3
    assert separate == (tokenizer == "bpe")


def test_pairs_of_small_directions_are_repeated_and_equal_ones_of_two_directions_are_none(
    tmp_path: Path,
) -> None:
    data = prepare(tmp_path / "data", write_pairs(tmp_path), config=CONFIG)
    weight = (302 / 61) ** 0.5
    into = num_into(data)
    assert into[">>de<<"] == 302
    assert into[">>fr<<"] == pytest.approx(61 * weight, abs=10)
    assert into[">>en<<"] == pytest.approx(302 + 61 * weight, abs=10)
    pairs = zip(data.lines("train", "source"), data.lines("train", "target"), strict=True)
    assert {pair for pair in pairs if pair[1] == "OK"} == {
        (f">>{to}<< OK", "OK") for to in ("de", "en", "fr")
    }


@contextmanager
def stopping(phase: str, total: int | None) -> Iterator[object]:
    """Interrupts the training part half-way."""
    count = 0

    def advance(number: int) -> None:
        nonlocal count
        count += number
        if phase == "train" and count > 400:
            raise KeyboardInterrupt

    yield advance


def test_neither_processes_nor_an_interruption_change_what_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(encoding, "CHUNK_PAIRS", 50)
    monkeypatch.setattr(preparing, "EVERY_CHUNKS", 3)
    files, said = write_pairs(tmp_path), list[str]()
    alone = contents(prepare(tmp_path / "alone", files, config=CONFIG, num_workers=0).directory)
    monkeypatch.setattr(encoding, "_ALONE_CHUNKS", 1)
    assert contents(prepare(tmp_path / "many", files, config=CONFIG, num_workers=2).directory) == alone
    with pytest.raises(KeyboardInterrupt):
        prepare(tmp_path / "stopped", files, config=CONFIG, num_workers=0, watch=stopping)  # type: ignore[arg-type]
    stopped = prepare(tmp_path / "stopped", files, config=CONFIG, say=said.append, num_workers=0)
    assert "NOTICE: going on with what was left unfinished" in said
    assert contents(stopped.directory) == alone


def test_a_model_is_continued_with_one_of_its_directions(
    multilingual_model: Path, toy_pairs: dict[str, Path], tmp_path: Path
) -> None:
    french = CorpusFiles(pairs=[toy_pairs["train.fr"]], readings=[ReadingOrder("eng", "fra")])
    data = prepare(tmp_path / "data", french, tokenizer_from=multilingual_model)
    assert {*num_into(data)} == {">>fr<<"}
    first = [int(data.train.source.sentence(index)[0]) for index in range(data.train.num_pairs)]
    assert np.unique(first).tolist() == [data.units.symbols[">>fr<<"]]
    assert data.config.directions == (("en", "de"), ("en", "fr"))


def test_one_direction_needs_no_symbols(toy_pairs: dict[str, Path], tmp_path: Path) -> None:
    german = CorpusFiles(pairs=[toy_pairs["train.de"]], readings=[ReadingOrder("en", "de")])
    config = DataConfig(tokenizer="byte")
    data = prepare(tmp_path / "data", german, german, config)
    plain = prepare(tmp_path / "plain", CorpusFiles(pairs=toy_pairs["train.de"]), config=config)
    assert data.config == plain.config.replace(source_language="en", target_language="de")
    assert data.lines("train", "source") == plain.lines("train", "source")
    many_to_one = CorpusFiles(
        pairs=[toy_pairs["train.de"], toy_pairs["train.fr"]],
        readings=[ReadingOrder("de", "en", True), ReadingOrder("fr", "en", True)],
    )
    into_one = PreparedData(prepare(tmp_path / "one", many_to_one, config=config).directory)
    assert into_one.source_vocab_size == 261
    assert (into_one.config.source_language, into_one.config.target_language) == ("", "en")
    assert into_one.config.directions == (("de", "en"), ("fr", "en"))


def test_directions_that_do_not_fit_together_or_the_model_are_refused(
    multilingual_model: Path, toy_model: Path, toy_pairs: dict[str, Path], tmp_path: Path
) -> None:
    german, french = (
        CorpusFiles(pairs=[toy_pairs[f"train.{to}"]], readings=[ReadingOrder("en", to)])
        for to in ("de", "fr")
    )
    bare = CorpusFiles(pairs=toy_pairs["train.de"])
    both = CorpusFiles(pairs=[*german.pairs, *french.pairs], readings=[*german.readings, *french.readings])  # type: ignore[misc]
    spanish = CorpusFiles(pairs=[toy_pairs["train.de"]], readings=[ReadingOrder("en", "es")])
    for train, valid, model, message in (
        (
            german,
            french,
            None,
            r"^valid_pairs: their directions are en-fr, those of training are en-de; name both",
        ),
        (german, bare, None, "^valid_pairs: their directions are none, those of training are en-de;"),
        (spanish, preparing.NO_FILES, multilingual_model, "^language 'es': the model writes de, fr; choose"),
        (both, preparing.NO_FILES, toy_model, "^tokenizer_from: its model writes one language; leave"),
    ):
        with pytest.raises(UsageError, match=message):
            prepare(tmp_path / "data", train, valid, tokenizer_from=model)
    with pytest.raises(DataError, match=r"train.en-de.tsv:1: does not begin with >>de<< or >>fr<<; name its"):
        prepare(tmp_path / "data", bare, tokenizer_from=multilingual_model)
    assert not (tmp_path / "data").exists()


def test_sources_may_bring_their_symbols_themselves(multilingual_model: Path, tmp_path: Path) -> None:
    (tmp_path / "pairs.tsv").write_bytes(b">>fr<< sun moon\tsuna moona\n>>de<< sun\tnuso\n")
    data = prepare(
        tmp_path / "data", CorpusFiles(pairs=tmp_path / "pairs.tsv"), tokenizer_from=multilingual_model
    )
    assert num_into(data) == {">>de<<": 1, ">>fr<<": 1}
    assert data.train.source.sentence(0)[0] == data.units.symbols[">>fr<<"]
