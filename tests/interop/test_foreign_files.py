"""Models of the Hugging Face hub: folders of its cache are read."""

import os
import shutil
import zipfile
from pathlib import Path

import pytest
from tests.packages import require_packages

from allyouneed.errors import ModelError, UsageError
from allyouneed.interop.foreign_files import located
from allyouneed.interop.importing import import_model

FIXTURES = Path(__file__).parent / "fixtures" / "marian"
HASHES = "1" * 40, "2" * 40


def cache_of(root: Path, *hashes: str, main_ref: str | None = None) -> Path:
    """A folder as the hub's cache has it: files of snapshots are links to blobs."""
    folder = root / "models--Helsinki-NLP--opus-mt-en-de"
    for name in ("blobs", "refs"):
        (folder / name).mkdir(parents=True)
    for number, name in enumerate(("swish.npz", "vocab.spm")):
        shutil.copy(FIXTURES / name, folder / "blobs" / str(number))
    for each in hashes:
        snapshot = folder / "snapshots" / each
        snapshot.mkdir(parents=True)
        for number, name in enumerate(("model.npz", "vocab.spm")):
            (snapshot / name).symlink_to(Path("..", "..", "blobs", str(number)))
    if main_ref is not None:
        (folder / "refs" / "main").write_text(main_ref)
    return folder


def test_a_folder_of_the_cache_is_imported_and_so_is_a_snapshot(tmp_path: Path) -> None:
    require_packages("sentencepiece", "yaml")
    folder = cache_of(tmp_path, *HASHES, main_ref=f"{HASHES[1]}\n")
    assert located(folder) == folder / "snapshots" / HASHES[1]
    assert import_model(folder, tmp_path / "a").format == "marian"
    assert import_model(folder / "snapshots" / HASHES[0], tmp_path / "b").format == "marian"
    assert (tmp_path / "a" / "model.safetensors").read_bytes() == (
        tmp_path / "b" / "model.safetensors"
    ).read_bytes()


def test_the_only_snapshot_needs_no_reference(tmp_path: Path) -> None:
    assert located(folder := cache_of(tmp_path, HASHES[0])) == folder / "snapshots" / HASHES[0]


@pytest.mark.parametrize(
    ("hashes", "main_ref", "message"),
    [
        (HASHES, None, "has 2 snapshots, and no refs/main that says which; name one of them, such as "),
        (HASHES, "3" * 40, f"refs/main: names the snapshot '{'3' * 40}', which is not there; download it"),
        (HASHES, "../../..", "refs/main: names the snapshot '../../..', which is not there"),
        (HASHES, "\udcff", "refs/main: names the snapshot '\ufffd', which is not there"),
        (("",), None, "snapshots: has no snapshot; download the model again"),
    ],
)
def test_a_cache_that_does_not_say_which_snapshot_is_refused(
    hashes: tuple[str, ...], main_ref: str | None, message: str, tmp_path: Path
) -> None:
    folder = cache_of(tmp_path, *hashes)
    if main_ref is not None:
        (folder / "refs" / "main").write_bytes(os.fsencode(main_ref))
    with pytest.raises(ModelError) as refused:
        located(folder)
    assert message in str(refused.value)


def test_a_path_without_anything_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"model\.npz: does not exist; name a folder or file of a model"):
        located(tmp_path / "model.npz")


def test_a_blob_that_is_missing_is_named_by_its_link(tmp_path: Path) -> None:
    folder = cache_of(tmp_path, HASHES[0])
    (folder / "blobs" / "0").unlink()
    with pytest.raises(ModelError, match=r"model\.npz: is a link to a file that is missing"):
        import_model(folder, tmp_path / "out")


def test_a_package_in_the_cache_is_found(tmp_path: Path) -> None:
    """The hub has folders of CTranslate2 and packages of Argos Translate, too; a file is named as it is."""
    folder = cache_of(tmp_path, HASHES[0])
    package = folder / "snapshots" / HASHES[0] / "a.argosmodel"
    with zipfile.ZipFile(folder / "blobs" / "2", "w") as archive:
        archive.writestr("README.md", "")
    package.symlink_to(folder / "blobs" / "2")
    with pytest.raises(ModelError, match=r"a\.argosmodel: has 0 folders with a metadata\.json"):
        import_model(package, tmp_path / "out")
