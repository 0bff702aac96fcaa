"""A preparation that was stopped goes on where its last milestone is, and ends with the same bytes.

Promise: Preparation.
"""

import json
import os
import shutil
import subprocess
import sys
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from tests.patience import wait_until
from tests.preparation.test_preparing import contents, files_of_at_most, write_corpus

from allyouneed.config.run import DataConfig
from allyouneed.data.corpus_files import CorpusFiles
from allyouneed.errors import DataError, DiskError
from allyouneed.preparation import encoding, preparing
from allyouneed.preparation.journal import UNFINISHED
from allyouneed.preparation.preparing import prepare

CONFIG = DataConfig(vocab_size=300, max_tokens=60)
NUM_PAIRS = 1_000
Stops = Callable[[int], Callable[[str, int | None], AbstractContextManager[Callable[[int], None]]]]


@contextmanager
def small_chunks() -> Iterator[None]:
    """Within the block, the corpus has many chunks and milestones."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(encoding, "CHUNK_PAIRS", 50)
        patch.setattr(preparing, "EVERY_CHUNKS", 3)
        yield


def write_files(folder: Path) -> CorpusFiles:
    """Write a corpus with repeats, copies and pairs that are dropped."""
    sources = [f"Hund {n % 700}, " * (n % 9) + f"Katze {n % 700}" for n in range(NUM_PAIRS)]
    targets = [f"dog {n % 700}, " * (n % 7) + "cat" + "x y " * 20 * (n % 11 == 0) for n in range(NUM_PAIRS)]
    return replace(write_corpus(folder, "text", sources, targets), weights=[1.3])


@pytest.fixture
def files(tmp_path: Path) -> Iterator[CorpusFiles]:
    """A corpus of many chunks and milestones."""
    with small_chunks():
        yield write_files(tmp_path)


@dataclass(frozen=True)
class Prepared:
    """What the preparations of one corpus make that are made once for many tests."""

    files: CorpusFiles
    whole: dict[str, bytes]
    """The data of one that nothing disturbs."""
    left: Path
    """What one that was interrupted leaves behind; not to be changed."""


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Prepared:
    folder = tmp_path_factory.mktemp("prepared")
    files = write_files(folder)
    with small_chunks():
        whole = prepare(folder / "whole", files, config=CONFIG)
        with pytest.raises(KeyboardInterrupt):
            prepare(folder / "data", files, config=CONFIG, watch=stopping_after(700))
    return Prepared(files, contents(whole.directory), workplace(folder).parent)


@pytest.fixture
def interrupted(prepared: Prepared, tmp_path: Path) -> Iterator[Prepared]:
    """A corpus of many chunks and milestones, whose preparation of `data` was interrupted."""
    shutil.copytree(prepared.left, workplace(tmp_path).parent)
    with small_chunks():
        yield prepared


def stopping_after(
    num_pairs: int, error: type[BaseException] = KeyboardInterrupt
) -> Callable[[str, int | None], AbstractContextManager[Callable[[int], None]]]:
    """Stops the encoding of training text after so many pairs."""

    @contextmanager
    def watch(phase: str, total: int | None) -> Iterator[Callable[[int], None]]:
        left = num_pairs

        def advance(count: int) -> None:
            nonlocal left
            left -= count
            if phase == "train" and left < 0:
                raise error

        yield advance

    return watch


def workplace(folder: Path) -> Path:
    return folder / "data.tmp-unfinished" / "content"


@pytest.mark.parametrize("num_workers", [0, 2])
def test_one_that_is_interrupted_again_and_again_ends_with_the_same_bytes(
    tmp_path: Path, files: CorpusFiles, num_workers: int
) -> None:
    valid = write_corpus(tmp_path, "valid", ["Hund"] * 3, ["dog"] * 3)
    whole = prepare(tmp_path / "whole", files, valid, CONFIG)
    said: list[str] = []
    for num_pairs in (350, 420, 800):
        with pytest.raises(KeyboardInterrupt):
            prepare(
                *(tmp_path / "data", files, valid, CONFIG, said.append),
                num_workers=num_workers,
                watch=stopping_after(num_pairs),
            )
        assert (workplace(tmp_path) / UNFINISHED).is_file()
        assert not (tmp_path / "data").exists()
        with (workplace(tmp_path) / "train" / "source-00000.bin").open("ab") as torn:
            torn.write(b"\1\2\3")  # what was written after the milestone
    data = prepare(tmp_path / "data", files, valid, CONFIG, said.append, num_workers=num_workers)
    assert contents(data.directory) == contents(whole.directory)
    assert said.count("NOTICE: going on with what was left unfinished") == 3
    assert sum("the same command goes on where this one ends" in line for line in said) == 3
    assert not workplace(tmp_path).parent.exists()


def test_what_is_written_is_not_encoded_again_and_the_vocabulary_not_learned_again(
    tmp_path: Path, files: CorpusFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    encoded: list[int] = []
    encode = encoding.Encoder.encoded

    def counted(self: encoding.Encoder, chunks: Iterator[encoding.Chunk]) -> Iterator[encoding.EncodedChunk]:
        for chunk in encode(self, chunks):
            encoded.append(len(chunk.chunk.pairs))
            yield chunk

    monkeypatch.setattr(encoding.Encoder, "encoded", counted)
    prepare(tmp_path / "whole", files, config=CONFIG)
    num_chunks = len(encoded)
    with pytest.raises(KeyboardInterrupt):
        prepare(tmp_path / "data", files, config=CONFIG, watch=stopping_after(700))
    milestone = json.loads((workplace(tmp_path) / UNFINISHED).read_bytes())
    encoded.clear()
    monkeypatch.setattr(preparing, "TrainingText", None)
    prepare(tmp_path / "data", files, config=CONFIG)
    assert milestone["num_chunks"] == 12
    assert len(encoded) == num_chunks - 12


def change_settings(files: CorpusFiles) -> tuple[CorpusFiles, DataConfig]:
    return files, CONFIG.replace(max_tokens=50)


def change_options(files: CorpusFiles) -> tuple[CorpusFiles, DataConfig]:
    return replace(files, drop_repeats=False), CONFIG


def change_a_file(files: CorpusFiles) -> tuple[CorpusFiles, DataConfig]:
    source = Path(str(files.sources))
    source.write_bytes(source.read_bytes().replace(b"Hund", b"Hand"))
    return files, CONFIG


@pytest.mark.parametrize("change", [change_settings, change_options, change_a_file])
def test_after_a_change_it_begins_anew_and_says_so(
    tmp_path: Path, files: CorpusFiles, change: Callable[[CorpusFiles], tuple[CorpusFiles, DataConfig]]
) -> None:
    with pytest.raises(KeyboardInterrupt):
        prepare(tmp_path / "data", files, config=CONFIG, watch=stopping_after(700))
    said: list[str] = []
    files, config = change(files)
    data = prepare(tmp_path / "data", files, config=config, say=said.append)
    assert any(line.startswith("NOTICE: beginning anew") for line in said)
    assert contents(data.directory) == contents(prepare(tmp_path / "whole", files, config=config).directory)


def cut(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 3] ^= 1
    path.write_bytes(content)


def link(path: Path) -> None:
    """Put a link in the place of a file, to one that must not be written to."""
    path.unlink(missing_ok=True)
    (path.parents[3] / "mine").write_bytes(b"mine")
    path.symlink_to(path.parents[3] / "mine")


@pytest.mark.parametrize(
    ("name", "damage"),
    [
        ("train/target-00000.bin", cut),
        ("text/train.source", cut),
        ("source_tokenizer.json", Path.unlink),
        ("source_tokenizer.json", flip),
        ("train/source-00000.bin", flip),
        ("text/train.source", flip),
        ("text/valid.source", link),
        ("train/line_numbers.bin", link),
        (UNFINISHED, flip),
        (UNFINISHED, lambda path: path.write_bytes(b"[" * 100_000)),
        (UNFINISHED, cut),
        (UNFINISHED, lambda path: path.write_bytes(b"[]")),
        (UNFINISHED, lambda path: path.write_bytes(path.read_bytes().replace(b'"files"', b'"file"'))),
        (UNFINISHED, lambda path: path.write_bytes(path.read_bytes().replace(b'"text/', b'"../text/'))),
    ],
)
def test_what_is_damaged_is_done_again(
    tmp_path: Path, interrupted: Prepared, name: str, damage: Callable[[Path], object]
) -> None:
    damage(workplace(tmp_path) / name)
    said: list[str] = []
    data = prepare(tmp_path / "data", interrupted.files, config=CONFIG, say=said.append)
    assert any(line.startswith("NOTICE: beginning anew") for line in said)
    assert not (tmp_path / "mine").exists() or (tmp_path / "mine").read_bytes() == b"mine"
    assert not any(path.is_symlink() for path in data.directory.rglob("*"))
    assert contents(data.directory) == interrupted.whole


def test_what_is_sound_is_gone_on_with(tmp_path: Path, interrupted: Prepared) -> None:
    said: list[str] = []
    data = prepare(tmp_path / "data", interrupted.files, config=CONFIG, say=said.append)
    assert "NOTICE: going on with what was left unfinished" in said
    assert contents(data.directory) == interrupted.whole


def test_a_full_disk_keeps_what_is_written_and_the_same_command_goes_on(
    tmp_path: Path, prepared: Prepared
) -> None:
    said: list[str] = []
    with small_chunks():
        with files_of_at_most(30_000), pytest.raises(DiskError, match="bytes are free"):
            prepare(tmp_path / "data", prepared.files, config=CONFIG)
        assert (workplace(tmp_path) / UNFINISHED).is_file()
        data = prepare(tmp_path / "data", prepared.files, config=CONFIG, say=said.append)
    assert "NOTICE: going on with what was left unfinished" in said
    assert contents(data.directory) == prepared.whole


def test_an_error_in_the_text_leaves_nothing_behind(tmp_path: Path, files: CorpusFiles) -> None:
    for side, line in ((files.sources, b"\xff\n"), (files.targets, b"y\n")):
        with Path(str(side)).open("ab") as stream:
            stream.write(line)
    with pytest.raises(DataError):
        prepare(tmp_path / "data", files, config=DataConfig(tokenizer="byte"))
    assert not workplace(tmp_path).parent.exists()


def test_another_command_removes_what_is_unfinished(tmp_path: Path, interrupted: Prepared) -> None:
    from allyouneed.storage.publish import publish_directory

    assert (workplace(tmp_path) / UNFINISHED).is_file()
    said: list[str] = []
    with publish_directory(tmp_path / "data", "model", say=said.append) as aside:
        assert next(aside.iterdir(), None) is None
    assert "removed what process" in said[0]


def test_an_interrupt_while_checksums_are_made_keeps_the_work(
    tmp_path: Path, prepared: Prepared, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*arguments: object, **options: object) -> None:
        raise KeyboardInterrupt

    said: list[str] = []
    with small_chunks():
        with monkeypatch.context() as patched:
            patched.setattr("allyouneed.storage.publish.directory.write_manifest", interrupt)
            with pytest.raises(KeyboardInterrupt):
                prepare(tmp_path / "data", prepared.files, config=CONFIG)
        data = prepare(tmp_path / "data", prepared.files, config=CONFIG, say=said.append)
    assert "NOTICE: going on with what was left unfinished" in said
    assert contents(data.directory) == prepared.whole
    assert not list(data.directory.rglob(UNFINISHED))


def test_an_error_of_the_program_does_not_keep_what_would_fail_again(
    tmp_path: Path, files: CorpusFiles
) -> None:
    with pytest.raises(ZeroDivisionError):
        prepare(tmp_path / "data", files, config=CONFIG, watch=stopping_after(700, ZeroDivisionError))
    assert not workplace(tmp_path).parent.exists()


def test_one_that_is_killed_ends_with_the_same_bytes(tmp_path: Path) -> None:
    """With real milestones, in a process of its own, which has workers."""
    pairs = "".join(f"Hund {n % 50_000}\tdog {n % 50_000}\n" for n in range(70_000))
    (tmp_path / "pairs.tsv").write_bytes(pairs.encode())
    command = [sys.executable, "-m", "allyouneed", "prepare", "data", "--pairs", "pairs.tsv"]
    command += ["--tokenizer", "byte", "--weights", "1.5", "--workers", "2"]
    quiet = {"cwd": tmp_path, "stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE}
    program = subprocess.Popen(command, **quiet)  # type: ignore[call-overload]
    wait_until((workplace(tmp_path) / UNFINISHED).exists)
    program.kill()
    program.communicate()
    killed = subprocess.run(command, **quiet, check=True)  # type: ignore[call-overload]
    assert b"going on with what was left unfinished" in killed.stderr
    (tmp_path / "data").rename(tmp_path / "killed")
    subprocess.run(command, **quiet, check=True)  # type: ignore[call-overload]
    assert contents(tmp_path / "killed") == contents(tmp_path / "data")


def test_many_copies_of_a_pair_take_no_more_memory(tmp_path: Path) -> None:
    files = write_corpus(tmp_path, "text", [f"Hund {n} " * 9 for n in range(2_000)], ["dog " * 15] * 2_000)
    peaks = []
    for weight in (1, 60):
        tracemalloc.start()
        data = prepare(
            tmp_path / str(weight),
            replace(files, weights=[weight]),
            config=DataConfig(tokenizer="byte", max_length_ratio=99),
            num_workers=0,
        )
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        assert data.train.num_pairs == 2_000 * weight
    assert peaks[1] < 1.5 * peaks[0]
