"""Any number of workers, also of those that die, gives the same data as this process alone.

Promise: Preparation.
"""

import os
import random
import signal
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import count, islice
from pathlib import Path

import pytest
from tests.preparation.test_preparing import contents, write_corpus

from allyouneed.config.presets import preset
from allyouneed.config.run import DataConfig
from allyouneed.data.corpus import CleaningReport, Pair
from allyouneed.data.corpus_files import CorpusFiles
from allyouneed.data.tokenizer import Tokenizer
from allyouneed.preparation import encoding
from allyouneed.preparation.encoding import EncodedChunk, Encoder
from allyouneed.preparation.prepared_data import REPORT
from allyouneed.preparation.preparing import prepare
from allyouneed.tasks.parsing.treebank import TreeFiles
from allyouneed.tasks.task import Units

NUM_PAIRS = 4_000
CONFIG = DataConfig(vocab_size=300, max_tokens=40)
BYTES = Tokenizer.train([], "byte", 0)
needs_proc = pytest.mark.skipif(not Path("/proc/self").exists(), reason="NOT RUN: needs /proc")


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> CorpusFiles:
    """A corpus of many chunks, in which some pairs are dropped for each reason."""
    monkeypatch.setattr(encoding, "CHUNK_PAIRS", 50)
    sources = [f"Hund {n}, " * (n % 12) + "\u2028\u3000 Katze  {n}\rx" for n in range(NUM_PAIRS)]
    targets = [f"dog {n}, " * (n * 7 % 13) + ("x " * 30) * (n % 5 == 0) for n in range(NUM_PAIRS)]
    return replace(write_corpus(tmp_path, "text", sources, targets), drop_repeats=False)


def workers() -> list[int]:
    """Processes of this one that encode."""
    found = []
    for path in Path("/proc/self/task").glob("*/children"):
        for child in path.read_bytes().split():
            if b"encoding_worker" in Path("/proc", child.decode(), "cmdline").read_bytes():
                found.append(int(child))
    return found


def chunks_of(
    folder: Path, pairs: Iterator[Pair], num_workers: int, say: Callable[[str], None] = print
) -> Generator[EncodedChunk, None, None]:
    units, config = Units(BYTES, BYTES), DataConfig(tokenizer="byte")
    units.save(folder)
    numbered = zip(pairs, count(1), strict=False)
    return Encoder(units, folder, config, None, num_workers, say).encoded(encoding.chunks_of(numbered))


@pytest.mark.parametrize("num_workers", [1, 3])
def test_the_files_are_the_same_with_any_number_of_workers(
    tmp_path: Path, files: CorpusFiles, num_workers: int
) -> None:
    said: list[str] = []
    alone = prepare(tmp_path / "alone", files, config=CONFIG, num_workers=0)
    together = prepare(tmp_path / "data", files, files, CONFIG, said.append, num_workers=num_workers)
    expected, found = contents(alone.directory), contents(together.directory)
    assert not any("NOTICE" in line for line in said)
    assert {name for name in expected if expected[name] != found[name]} == {"MANIFEST.json", "report.json"}
    assert together.report("train") == together.report("valid") == alone.report("train")
    assert len(alone.report("train")["dropped"]) == 4
    assert not workers()


def test_repeats_languages_and_weights_are_alike_with_any_number_of_workers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(encoding, "CHUNK_PAIRS", 30)
    draw = random.Random(1)
    sources = [draw.choice(["Zwei Hunde rennen", "Deux chiens courent"]) + f" {n % 500}" for n in range(700)]
    corpus = write_corpus(tmp_path, "text", sources, [f"Two dogs run {n % 500}" for n in range(700)])
    files = replace(corpus, languages=("de", "en"), weights=[1.5])
    data = [prepare(tmp_path / f"{n}", files, config=CONFIG, num_workers=n) for n in (0, 2)]
    assert contents(data[0].directory) == contents(data[1].directory)
    found = data[0].report("train")
    assert found["dropped"].keys() == {"repeat of an earlier pair", "in another language"}
    assert all("Zwei" in line for line in data[0].lines("train", "source"))
    assert found["num_kept"] < data[0].train.num_pairs < 2 * found["num_kept"]


@needs_proc
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP, None])
def test_the_files_are_the_same_if_workers_die_or_cannot_start(
    tmp_path: Path, files: CorpusFiles, number: signal.Signals | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    if number is None:
        monkeypatch.setattr("sys.executable", str(tmp_path / "nothing"))
    killed: list[int] = []

    @contextmanager
    def watch(phase: str, total: int | None) -> Iterator[Callable[[int], None]]:
        def kill(count: int) -> None:
            for worker in workers() if number and len(killed) < 2 else ():
                os.kill(worker, number or 0)
                os.kill(worker, signal.SIGKILL)  # of one that stands still, too
                killed.append(worker)

        yield kill

    said: list[str] = []
    alone = prepare(tmp_path / "alone", files, config=CONFIG, num_workers=0)
    data = prepare(tmp_path / "data", files, config=CONFIG, say=said.append, num_workers=2, watch=watch)
    assert contents(alone.directory) == contents(data.directory)
    assert len(killed) == (2 if number else 0)
    assert sum("process that encodes" in line for line in said) == 1
    assert not workers()


@needs_proc
def test_workers_that_stand_still_do_not_hold_up_the_end(
    tmp_path: Path, files: CorpusFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(encoding, "_ALONE_CHUNKS", 1)
    encoded = chunks_of(tmp_path, files.read(CleaningReport()), num_workers=2)
    _ = next(encoded), next(encoded)
    for worker in workers():
        os.kill(worker, signal.SIGSTOP)
    encoded.close()
    assert not workers()


@needs_proc
def test_a_text_that_cannot_be_sent_is_encoded_here_and_no_worker_is_lost(
    tmp_path: Path, files: CorpusFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(encoding, "_ALONE_CHUNKS", 1)
    said: list[str] = []
    pairs = [*islice(files.read(CleaningReport()), 500)]
    pairs[200] = pairs[200]._replace(source="a\nb")
    encoded = chunks_of(tmp_path, iter(pairs), num_workers=1, say=said.append)
    found = [*islice(encoded, 9)]
    ids, lengths = found[4].source.sentences
    assert ids[: lengths[0]].tolist() == BYTES.encode("a\nb")
    assert len(workers()) == 1
    assert len([*encoded]) == 1
    assert not said


def test_a_report_on_trees_is_the_same_however_far_one_reads_ahead(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(encoding, "CHUNK_PAIRS", 2)
    tree, unseen = "(S (NP (NN a)) (VP (VB b)))\n", "(S (QP (NN a)) (VP (VB b)))\n"
    train, valid = tmp_path / "train.mrg", tmp_path / "valid.mrg"
    train.write_bytes((tree * 40).encode())
    valid.write_bytes((tree * 20 + unseen + tree * 5 + tree[:-1] + tree * 5).encode())
    config = preset("parsing_tiny").data.replace(tokenizer="byte")
    totals: list[int | None] = []

    @contextmanager
    def watch(phase: str, total: int | None) -> Iterator[Callable[[int], None]]:
        totals.append(total)
        yield lambda count: None

    reports = []
    for number, num_workers in enumerate((0, 4)):
        files = TreeFiles(train, repetitions=2), TreeFiles(valid)
        data = prepare(tmp_path / str(number), *files, config, num_workers=num_workers, watch=watch)
        reports.append((data.directory / REPORT).read_bytes())
    assert reports[0] == reports[1]
    assert sum(map(bool, data.report("valid")["notes"].values())) == 2
    assert totals == [None, None, None] * 2  # as the vocabulary is learned from each tree once


def test_a_ratio_beyond_all_numbers_is_no_limit(tmp_path: Path, files: CorpusFiles) -> None:
    data = prepare(tmp_path / "data", files, config=CONFIG.replace(max_length_ratio=1e308))
    assert "lengths in tokens too different" not in data.report("train")["dropped"]


def test_an_error_in_the_text_ends_the_workers(tmp_path: Path, files: CorpusFiles) -> None:
    for side, line in ((files.sources, b"\xff\n"), (files.targets, b"y\n")):
        with Path(str(side)).open("ab") as stream:
            stream.write(line)
    with pytest.raises(Exception, match=f":{NUM_PAIRS + 1}:1: invalid byte 0xFF"):
        prepare(tmp_path / "data", files, config=DataConfig(tokenizer="byte"), num_workers=2)
    assert not workers()
    assert not (tmp_path / "data").exists()
