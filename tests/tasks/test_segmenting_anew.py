"""`prepare` with BPE-dropout: every copy of a pair in sub-words of its own, the same ones every time."""

from dataclasses import replace
from pathlib import Path

import pytest
from tests.preparation.test_preparing import contents, write_corpus
from tests.tasks.test_unfinished_data import stopping_after

from allyouneed.config.run import DataConfig
from allyouneed.data.corpus_files import CorpusFiles
from allyouneed.data.tokenizer import Tokenizer
from allyouneed.errors import UsageError
from allyouneed.preparation import encoding, preparing
from allyouneed.preparation.prepared_data import PreparedData
from allyouneed.preparation.preparing import prepare
from allyouneed.tasks.task import SOURCE_TOKENIZER

PLAIN = DataConfig(vocab_size=290, max_tokens=60)
CONFIG = PLAIN.replace(bpe_dropout=0.2)


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> CorpusFiles:
    monkeypatch.setattr(encoding, "CHUNK_PAIRS", 20)
    monkeypatch.setattr(preparing, "EVERY_CHUNKS", 3)
    sources = [f"Hund und Katze {n}" for n in range(300)]
    targets = [f"dog and cat {n}" + " and cat" * (n % 5) for n in range(300)]
    return replace(write_corpus(tmp_path, "text", sources, targets), weights=[3.0])


def test_copies_differ_and_are_the_same_text(files: CorpusFiles, tmp_path: Path) -> None:
    data = prepare(tmp_path / "data", files, files, CONFIG)
    words = Tokenizer.load(tmp_path / "data" / SOURCE_TOKENIZER)
    assert data.train.num_pairs == 900
    sources = [tuple(data.train.source.sentence(n).tolist()) for n in range(900)]
    targets = [tuple(data.train.target.sentence(n).tolist()) for n in range(900)]
    for number in range(300):
        copies = slice(3 * number, 3 * number + 3)
        assert [*map(words.decode, sources[copies])] == [f"Hund und Katze {number}"] * 3
        assert len({*map(words.decode, targets[copies])}) == 1
    num_different = sum(len({*sources[3 * n : 3 * n + 3]}) == 3 for n in range(300))
    assert num_different > 200
    assert data.valid is not None
    plain = words.encode_batch([f"Hund und Katze {n}" for n in range(300)])
    assert [data.valid.source.sentence(n).tolist() for n in range(300)] == plain


def test_a_copy_that_would_be_too_long_stays_as_it_was(files: CorpusFiles, tmp_path: Path) -> None:
    plain = prepare(tmp_path / "plain", files, config=PLAIN).train
    longest = max(len(plain.target.sentence(n)) for n in range(900))
    config = CONFIG.replace(bpe_dropout=0.3, max_tokens=longest)
    found = prepare(tmp_path / "data", files, config=config).train
    assert max(len(found.target.sentence(n)) for n in range(900)) == longest
    assert sum(len(found.target.sentence(n)) > len(plain.target.sentence(n)) for n in range(900)) > 100


def test_the_bytes_do_not_depend_on_workers_or_on_an_interruption(files: CorpusFiles, tmp_path: Path) -> None:
    prepare(tmp_path / "one", files, config=CONFIG, num_workers=0)
    with pytest.raises(KeyboardInterrupt):
        prepare(tmp_path / "two", files, config=CONFIG, num_workers=2, watch=stopping_after(200))
    assert (tmp_path / "two.tmp-unfinished").exists()
    prepare(tmp_path / "two", files, config=CONFIG, num_workers=2)
    assert contents(tmp_path / "two") == contents(tmp_path / "one")


def test_a_run_does_not_take_the_other_segmentation_for_its_own(files: CorpusFiles, tmp_path: Path) -> None:
    plain, other = (prepare(tmp_path / str(n), files, config=c) for n, c in enumerate((PLAIN, CONFIG)))
    assert plain.facts["corpus"] != other.facts["corpus"]
    assert plain.facts["source_tokenizer"] == other.facts["source_tokenizer"]


@pytest.mark.parametrize("setting", [{"tokenizer": "wordpiece"}, {"task": "parsing"}])
def test_other_units_cannot_be_segmented_anew(
    files: CorpusFiles, tmp_path: Path, setting: dict[str, str]
) -> None:
    with pytest.raises(UsageError, match="bpe_dropout: is for sentence pairs and the tokenizer bpe"):
        prepare(tmp_path / "data", files, config=CONFIG.replace(**setting))
    assert not (tmp_path / "data").exists()


def test_data_of_before_have_no_dropout(toy_data: Path) -> None:
    assert PreparedData(toy_data).config.bpe_dropout == 0
