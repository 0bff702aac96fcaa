"""An imported model of Marian searches as the `decoder.yml` beside it says."""

import shutil
from pathlib import Path
from typing import Any

import pytest
from tests.packages import require_packages

from allyouneed.config.run import SearchConfig
from allyouneed.errors import ModelError
from allyouneed.interop.importing import import_model
from allyouneed.runs.loading import load_for
from allyouneed.tasks.translation.task import TRANSLATION

require_packages("sentencepiece", "yaml")

FIXTURES = Path(__file__).parent / "fixtures" / "marian"
UNSAID = {"length_normalization": "average"}


def folder_with(folder: Path, settings: bytes, name: str = "decoder.yml") -> Path:
    folder.mkdir()
    shutil.copy(FIXTURES / "swish.npz", folder / "model.npz")
    shutil.copy(FIXTURES / "vocab.spm", folder)
    (folder / name).write_bytes(settings)
    return folder


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        (b"beam-size: 12\nnormalize: 1\n", {"beam_size": 12, "length_normalization": "average"}),
        (b"beam-size: 6\nnormalize: 0\n", {"beam_size": 6, "length_normalization": "none"}),
        (b"normalize: 0.8\nword-penalty: 0.5\n", {"length_normalization": "gnmt", "length_penalty": 0.8}),
        (b"beam-size: 2000\n", UNSAID),
        (b"mini-batch: 1\n", UNSAID),
    ],
    ids=str,
)
def test_what_our_search_has_is_taken(settings: bytes, expected: dict[str, Any], tmp_path: Path) -> None:
    import_model(folder_with(tmp_path / "in", settings), tmp_path / "out")
    assert load_for(tmp_path / "out", TRANSLATION).config.search == SearchConfig(**expected)


def test_the_file_that_marian_writes_beside_its_model_is_read(tmp_path: Path) -> None:
    folder = folder_with(tmp_path / "in", b"beam-size: 7\n", "model.npz.decoder.yml")
    import_model(folder, tmp_path / "out")
    assert load_for(tmp_path / "out", TRANSLATION).config.search.beam_size == 7


@pytest.mark.parametrize("setting", ["beam-size: many", "normalize: [1]", "normalize: .inf"])
def test_what_is_no_number_is_refused(setting: str, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"decoder\.yml: [a-z-]+ = .* is no number"):
        import_model(folder_with(tmp_path / "in", setting.encode()), tmp_path / "out")
