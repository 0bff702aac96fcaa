"""What a disk refuses is told in one line, and single files are replaced at one stroke."""

import subprocess
import sys
from pathlib import Path

import pytest

from allyouneed.errors import DiskError
from allyouneed.storage.publish import (
    publish_directory,
    require_space,
    write_text,
)


def names_in(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


def test_a_full_disk_is_told_with_the_free_space_and_leaves_nothing(tmp_path: Path) -> None:
    """A limit on the size of files stands for the full disk: the same call fails at the same place."""
    code = """
import resource, sys; from pathlib import Path
from allyouneed.errors import DiskError
from allyouneed.storage.publish import publish_directory, write_text
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
def write_folder(target):
    with publish_directory(target, "model") as folder:
        (folder / "weights").write_bytes(bytes(5000))
for write in (write_folder, lambda target: write_text(target, "x" * 5000)):
    try:
        write(Path(sys.argv[1]))
    except DiskError as error:
        print(error)
"""
    done = subprocess.run(
        [sys.executable, "-c", code, tmp_path / "model"], capture_output=True, text=True, check=True
    )
    lines = done.stdout.strip().split("\n")
    assert len(lines) == 2
    assert all("File too large" in line and "bytes are free there" in line for line in lines)
    assert names_in(tmp_path) == []


def test_too_little_room_is_told_with_what_is_needed_and_what_is_free(tmp_path: Path) -> None:
    require_space(tmp_path / "absent" / "run", 1)
    with pytest.raises(DiskError, match=r"run: needs 1,000,000,000,000,000,000 bytes; [\d,]+ bytes are free"):
        require_space(tmp_path / "absent" / "run", 10**18)


def test_a_text_is_replaced_at_one_stroke(tmp_path: Path) -> None:
    path = tmp_path / "latest"
    write_text(path, "step-1\n")
    write_text(path, "größe\n")
    assert path.read_bytes() == "größe\n".encode()
    assert names_in(tmp_path) == ["latest"]


def test_a_file_that_cannot_be_written_is_named_as_it_was_given(tmp_path: Path) -> None:
    path = tmp_path / "nowhere" / "page.html"
    with pytest.raises(DiskError) as raised:
        write_text(path, "x")
    assert str(raised.value) == f"{path}: there is no folder {path.parent}; make it first"


def test_a_file_system_without_permissions_is_written_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On vfat all files have the same mode, and every chmod is refused."""

    def refuse(path: Path, mode: int, **options: object) -> None:
        raise PermissionError(1, "Operation not permitted", str(path))

    monkeypatch.setattr(Path, "chmod", refuse)
    for text in ("old", "new"):
        write_text(tmp_path / "file", text)
        with publish_directory(tmp_path / "model", "model", replace=True) as aside:
            (aside / "weights").write_bytes(text.encode())
    assert (tmp_path / "file").read_bytes() == b"new"
    assert (tmp_path / "model" / "weights").read_bytes() == b"new"
