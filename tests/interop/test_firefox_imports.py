"""Folders of Firefox: rounded weights, a lexical shortlist, compressed files; all by their names."""

import gzip
import shutil
from pathlib import Path

import numpy as np
import pytest
from safetensors.torch import load_file
from tests.interop.foreign_models import firefox_items, marian_binary
from tests.packages import require_packages

from allyouneed import load_translator
from allyouneed.cli.program import main
from allyouneed.data.tokenizer import Tokenizer
from allyouneed.errors import ModelError, UsageError
from allyouneed.inference.vocabulary_shortlist import Shortlist
from allyouneed.interop.importing import import_model
from allyouneed.storage.checkpoint import load_checkpoint
from allyouneed.symbols import END, UNKNOWN

require_packages("sentencepiece", "yaml")

FIXTURES = Path(__file__).parent / "fixtures" / "marian"
LISTS = "lex.50.50.ende.s2t.bin"


@pytest.fixture
def firefox(tmp_path: Path) -> Path:
    """A folder with the files of a model and their names as Firefox has them."""
    folder = tmp_path / "ende"
    folder.mkdir()
    with np.load(FIXTURES / "ssru.npz") as arrays:
        content = marian_binary(firefox_items(arrays))
    (folder / "model.ende.intgemm.alphas.bin").write_bytes(content)
    shutil.copy(FIXTURES / "vocab.spm", folder / "vocab.ende.spm")
    shutil.copy(FIXTURES / "lex.3.2.s2t.bin", folder / LISTS)
    return folder


def compress(folder: Path) -> None:
    for file in [*folder.iterdir()]:
        (folder / f"{file.name}.gz").write_bytes(gzip.compress(file.read_bytes()))
        file.unlink()


def test_a_folder_of_firefox_needs_no_settings(firefox: Path, tmp_path: Path) -> None:
    """Bergamot searches with a beam of 1, and the languages are those in the name."""
    proof = import_model(firefox, tmp_path / "model")
    assert proof.format == "marian"
    assert proof.has_shortlist
    config = load_checkpoint(tmp_path / "model").config
    assert (config.data.source_language, config.data.target_language) == ("en", "de")
    assert (config.search.beam_size, config.search.length_normalization) == (1, "average")
    assert config.model.autoregression == "ssru"


def test_settings_beside_the_weights_come_first(firefox: Path, tmp_path: Path) -> None:
    settings = b"vocabs: [vocab.ende.spm, vocab.ende.spm]\nshortlist: [lex.bin, false]\nbeam-size: 3\n"
    (firefox / "config.intgemm8bitalpha.yml").write_bytes(settings + b"gemm-precision: int8shiftAlphaAll\n")
    (firefox / "metadata.json").write_bytes(b'{"sourceLanguage": "fr", "targetLanguage": "zh-Hant"}')
    import_model(firefox, tmp_path / "model")
    config = load_checkpoint(tmp_path / "model").config
    assert (config.data.source_language, config.data.target_language) == ("fr", "zh-Hant")
    assert (config.search.beam_size, config.search.length_normalization) == (3, "average")


def test_compressed_files_are_those_that_they_hold(firefox: Path, tmp_path: Path) -> None:
    import_model(firefox, tmp_path / "plain", shortlist=tmp_path / "plain list")
    compress(firefox)
    import_model(firefox, tmp_path / "model", shortlist=tmp_path / "list")
    for name in ("config.toml", "model.safetensors", "source_tokenizer.json"):
        assert (tmp_path / "plain" / name).read_bytes() == (tmp_path / "model" / name).read_bytes()
    lists = (tmp_path / name / "shortlist.safetensors" for name in ("plain list", "list"))
    assert next(lists).read_bytes() == next(lists).read_bytes()


def test_a_file_that_is_there_twice_is_not_expanded(firefox: Path, tmp_path: Path) -> None:
    (firefox / "vocab.ende.spm.gz").write_bytes(b"no gzip")
    import_model(firefox, tmp_path / "model")


def test_other_compressed_files_are_left_alone(firefox: Path, tmp_path: Path) -> None:
    """A corpus beside a model, say, would be long to expand."""
    compress(firefox)
    (firefox / "corpus.en.gz").write_bytes(b"no gzip")
    (firefox / "corpus.txt.gz").write_bytes(b"no gzip")
    import_model(firefox, tmp_path / "model")


def test_the_weights_are_those_of_the_factors(firefox: Path, tmp_path: Path) -> None:
    import_model(firefox, tmp_path / "model")
    import_model(FIXTURES / "ssru.npz", tmp_path / "float")
    rounded, exact = (load_file(tmp_path / name / "model.safetensors") for name in ("model", "float"))
    for name in ("decoder.0.self_attention.candidate.weight", "encoder.1.feed_forward.inner.weight"):
        step = exact[name].abs().max() / 127
        assert 0 < (rounded[name] - exact[name]).abs().max() <= 0.51 * step


def test_a_shortlist_that_marian_has_written(firefox: Path, tmp_path: Path) -> None:
    """`pymarian convert --shortlist words.txt 3 2 0` keeps 3 frequent tokens and 2 for each source token.

    `words.txt` gives "sun" the targets moon 0.9, star 0.05 and tree 0.5, "moon" the target river, and
    `</s>` itself. One vocabulary is for both sides, so that each token may be copied.
    """
    import_model(firefox, tmp_path / "model", shortlist=tmp_path / "list")
    names = Tokenizer.load(tmp_path / "model" / "target_tokenizer.json").names
    ids = {name: token for token, name in enumerate(names)}
    lists = Shortlist.load(tmp_path / "list", tmp_path / "model", (len(names), len(names)))

    def candidates(*source: str) -> set[str]:
        found = lists.candidates([*(ids[name] for name in source), END])
        return {names[token] for token in found if token > UNKNOWN}

    assert candidates() == {"▁house"}  # of ids 0 to 2, the two others are the end symbol and `<unk>`
    assert candidates("▁sun") == {"▁house", "▁sun", "▁moon", "▁tree"}
    assert candidates("▁sun", "▁moon") == {"▁house", "▁sun", "▁moon", "▁tree", "▁river"}
    assert candidates("▁fish") == {"▁house", "▁fish"}
    with_lists = load_translator(tmp_path / "model", shortlist=tmp_path / "list")
    allowed = {"house", "sun", "moon", "tree"}
    assert {*with_lists.translate(["sun"], max_length=4)[0].text.split()} <= allowed


def test_a_shortlist_that_is_wanted_must_be_there(firefox: Path, tmp_path: Path) -> None:
    (firefox / LISTS).unlink()
    with pytest.raises(UsageError, match=r"ende: has no shortlist \(lex\*\.bin\), so .*list cannot be made"):
        import_model(firefox, tmp_path / "model", shortlist=tmp_path / "list")
    assert not (tmp_path / "model").exists()


def test_a_shortlist_that_is_not_wanted_is_mentioned(
    firefox: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["import", str(firefox), str(tmp_path / "a")]) == 0
    assert "its shortlist is left out; --shortlist FOLDER converts it" in capsys.readouterr().err
    assert main(["import", str(firefox), str(tmp_path / "b"), "--shortlist", str(tmp_path / "list")]) == 0
    assert "left out" not in capsys.readouterr().err
    again = ["import", str(firefox), str(tmp_path / "c"), "--shortlist", str(tmp_path / "list")]
    assert main(again) == 2
    assert not (tmp_path / "c").exists()


@pytest.mark.parametrize("other", ["", "lists", ".."])
def test_a_model_and_its_shortlist_need_folders_apart(
    other: str, firefox: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "new" / "model"
    assert main(["import", str(firefox), str(out), "--shortlist", str(out / other)]) == 2
    [line] = capsys.readouterr().err.splitlines()
    assert f"--shortlist {out / other}: is the folder of the model {out}, or one is in the other" in line
    assert not (tmp_path / "new").exists()


def test_a_shortlist_that_is_not_wanted_is_not_read(firefox: Path, tmp_path: Path) -> None:
    (firefox / LISTS).write_bytes(b"damaged")
    (firefox / "lex.s2t.bin").write_bytes(b"another")
    assert import_model(firefox, tmp_path / "model").has_shortlist
    with pytest.raises(ModelError, match="has several shortlists"):
        import_model(firefox, tmp_path / "again", shortlist=tmp_path / "list")
    assert not (tmp_path / "again").exists()


def test_a_compressed_file_alone_has_no_vocabulary(firefox: Path, tmp_path: Path) -> None:
    compress(firefox)
    file = firefox / "model.ende.intgemm.alphas.bin.gz"
    with pytest.raises(UsageError, match="is compressed; name its folder, or expand it first: gunzip"):
        import_model(file, tmp_path / "model")


def test_compressed_files_without_a_model_are_refused(firefox: Path, tmp_path: Path) -> None:
    compress(firefox)
    (firefox / "model.ende.intgemm.alphas.bin.gz").unlink()
    with pytest.raises(ModelError, match="none of its files of weights is a model of Marian"):
        import_model(firefox, tmp_path / "model")
