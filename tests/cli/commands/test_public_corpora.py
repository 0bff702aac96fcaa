"""The paper's corpora are found in a folder, counted, and prepared with the paper's settings."""

import gzip
import lzma
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from allyouneed.data import public_corpora
from allyouneed.data.public_corpora import PUBLIC_CORPORA, PublicCorpus, count_lines
from allyouneed.preparation.prepared_data import PreparedData

RunCommand = Callable[..., tuple[int, bytes, str]]
NUM_LINES = 30


def lines(stem: str, language: str) -> bytes:
    return "".join(f"{stem} has the sentence {n} {language}\n" for n in range(NUM_LINES)).encode()


@pytest.fixture(params=PUBLIC_CORPORA)
def corpus(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> PublicCorpus:
    """A corpus with few lines, in the folder `wmt14` as its archives leave it."""
    whole = PUBLIC_CORPORA[request.param]
    short = replace(
        whole,
        train=tuple(part._replace(num_lines=NUM_LINES) for part in whole.train),
        valid=whole.valid._replace(num_lines=NUM_LINES),
    )
    monkeypatch.setattr(public_corpora, "PUBLIC_CORPORA", {request.param: short})
    for part in (*short.train, short.valid):
        for language in (short.source_language, short.target_language):
            path = tmp_path / "wmt14" / f"{part.stem}.{language}"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(lines(path.name, language))
    return short


def name_of(corpus: PublicCorpus) -> str:
    return f"wmt14-{corpus.source_language}-{corpus.target_language}"


def prepare(
    run_command: RunCommand, tmp_path: Path, corpus: PublicCorpus, *options: str
) -> tuple[int, str, str]:
    files = "--corpus", name_of(corpus), "--from", tmp_path / "wmt14", "--vocab-size", "300"
    code, out, err = run_command("prepare", tmp_path / "data", *files, *options)
    return code, out.decode(), err


def test_all_parts_are_prepared_with_the_papers_settings(
    run_command: RunCommand, tmp_path: Path, corpus: PublicCorpus
) -> None:
    code, out, _ = prepare(run_command, tmp_path, corpus)
    assert code == 0
    data = PreparedData(tmp_path / "data")
    assert data.train.num_pairs == NUM_LINES * len(corpus.train)
    assert data.valid is not None
    assert data.valid.num_pairs == NUM_LINES
    assert out.endswith(f"the paper: {corpus.paper_pairs} pairs\n")
    config = data.config
    assert (config.source_language, config.target_language) == ("en", corpus.target_language)
    assert config.tokenizer == {"de": "bpe", "fr": "wordpiece"}[corpus.target_language]


def test_files_may_be_compressed_and_lie_side_by_side(
    run_command: RunCommand, tmp_path: Path, corpus: PublicCorpus
) -> None:
    folder = tmp_path / "wmt14"
    packed = (".gz", gzip.compress), (".xz", lzma.compress)
    for number, path in enumerate([path for path in folder.rglob("*") if path.is_file()]):
        suffix, compress = packed[number % 2]
        (folder / f"{path.name}{suffix}").write_bytes(compress(path.read_bytes()))
        path.unlink()
    assert prepare(run_command, tmp_path, corpus)[0] == 0
    assert PreparedData(tmp_path / "data").train.num_pairs == NUM_LINES * len(corpus.train)


def test_missing_files_are_named_together_with_their_archives(
    run_command: RunCommand, tmp_path: Path, corpus: PublicCorpus
) -> None:
    lost = corpus.train[0], corpus.valid
    for part in lost:
        (tmp_path / "wmt14" / f"{part.stem}.en").unlink()
    code, out, err = prepare(run_command, tmp_path, corpus)
    assert (code, out) == (3, "")
    for part in lost:
        assert f"has no {part.stem}.en; it is in {part.archive} of https://www.statmt.org/wmt14/" in err
    assert err.count("error[") == 2


def test_a_file_that_is_cut_off_is_told_at_once(
    run_command: RunCommand, tmp_path: Path, corpus: PublicCorpus
) -> None:
    path = tmp_path / "wmt14" / f"{corpus.train[1].stem}.{corpus.target_language}"
    path.write_bytes(path.read_bytes()[:200])
    code, _, err = prepare(run_command, tmp_path, corpus)
    assert code == 3
    assert f"{path}: has {count_lines(path)} lines, {NUM_LINES} are published; fetch" in err
    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--corpus", "wmt15"], "--corpus wmt15: unknown; there are wmt14-en-de and wmt14-en-fr"),
        (["--corpus", "wmt14-en-de"], "--corpus wmt14-en-de: name the folder with its files by --from"),
        (["--from", "wmt14"], "--from: belongs to --corpus"),
        (["--corpus", "wmt14-en-de", "--from", "a", "--pairs", "b"], "leave out --pairs"),
        (["--corpus", "wmt14-en-de", "--from", "nowhere"], "nowhere: has no training/europarl-v7.de-en.en"),
    ],
)
def test_wrong_uses_are_one_line_or_one_for_each_file(
    run_command: RunCommand, tmp_path: Path, options: list[str], message: str
) -> None:
    code, _, err = run_command("prepare", tmp_path / "data", *options)
    assert code in (2, 3)
    assert message in err


def test_the_numbers_of_lines_are_the_papers() -> None:
    assert sum(part.num_lines for part in PUBLIC_CORPORA["wmt14-en-de"].train) == 4_520_620
    assert sum(part.num_lines for part in PUBLIC_CORPORA["wmt14-en-fr"].train) == 40_842_333
