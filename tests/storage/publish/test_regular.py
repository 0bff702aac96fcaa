"""Only regular files are opened and read, also through links, and no more bytes than they may have.

Promise: Bounded reading.
"""

import os
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from allyouneed.errors import ModelError
from allyouneed.storage.publish import read_published


def pipe_behind_link(path: Path) -> None:
    os.mkfifo(path.with_name("pipe"))
    path.symlink_to("pipe")


def bind(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind(path.name)


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (os.mkfifo, "is a folder, a pipe or a device, not a regular file"),
        (pipe_behind_link, "is a folder, a pipe or a device"),
        (bind, "is a folder, a pipe or a device"),
        (Path.mkdir, "is a folder, a pipe or a device"),
        (lambda path: path.symlink_to("/dev/zero"), "is a folder, a pipe or a device"),
        (lambda path: path.symlink_to("gone"), "is a link to a file that is missing"),
        (lambda path: path.symlink_to(path.name), "is a link to a file that is missing"),
        (lambda path: path.write_bytes(bytes(101)), "has 101 bytes, more than the 100 that it may have"),
        (lambda path: None, "no such file"),
    ],
)
def test_what_is_no_regular_file_or_too_large_is_refused(
    make: Callable[[Path], object], reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # as addresses of sockets are short
    make(tmp_path / "file")
    with pytest.raises(ModelError) as refused:
        read_published(tmp_path / "file", 100)
    assert str(refused.value).startswith(f"{tmp_path / 'file'}: {reason}")


def test_links_to_regular_files_are_followed(tmp_path: Path) -> None:
    (tmp_path / "blob").write_bytes(bytes(100))
    (tmp_path / "link").symlink_to("blob")
    (tmp_path / "file").symlink_to("link")
    assert read_published(tmp_path / "file", 100) == bytes(100)
