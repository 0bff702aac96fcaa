"""A file that is written takes the place of a regular file and of nothing else, through links too."""

import os
import socket
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from allyouneed.cli.bench_results import results_so_far
from allyouneed.errors import DiskError, UsageError
from allyouneed.storage.publish import replaced_file, require_file, write_text


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def make_socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as end:
        end.bind(str(path))


def make_pipe_behind_a_link(path: Path) -> None:
    os.mkfifo(path.with_name("pipe"))
    path.symlink_to("pipe")


NODES: dict[str, Callable[[Path], object]] = {
    "pipe": os.mkfifo,
    "socket": make_socket,
    "pipe behind a link": make_pipe_behind_a_link,
}


@pytest.mark.parametrize("kind", NODES)
def test_what_is_no_regular_file_is_refused_and_left_alone(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Promise: Nothing replaced."""
    monkeypatch.chdir(tmp_path)  # the name of a socket is short
    node = Path("node")
    NODES[kind](node)
    before = node.lstat().st_ino, stat.S_IFMT(node.lstat().st_mode), names_in(Path())
    for write in (lambda: write_text(node, "x"), lambda: require_file(node), lambda: results_so_far(node)):
        with pytest.raises(
            UsageError, match="node: is a pipe or a device, not a regular file; name one to write"
        ):
            write()
    assert before == (node.lstat().st_ino, stat.S_IFMT(node.lstat().st_mode), names_in(Path()))


@pytest.mark.parametrize("name", ["", ".", "..", "-", "/"])
def test_what_is_no_name_of_a_file_is_refused(name: str) -> None:
    with pytest.raises(UsageError, match="not a file name; name one"):
        write_text(Path(name), "x")


def test_of_a_link_the_file_that_it_points_to_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    link, file = tmp_path / "link", tmp_path / "folder" / "file"
    link.symlink_to("folder/file")
    for text in ("first", "second"):  # it points to nothing before the first
        write_text(link, text)
        assert link.is_symlink()
        assert file.read_bytes() == text.encode()
        assert names_in(tmp_path / "folder") == ["file"]
    assert names_in(tmp_path) == ["folder", "link"]


def test_a_link_into_a_missing_folder_and_a_circle_of_links_are_refused(tmp_path: Path) -> None:
    (tmp_path / "nowhere").symlink_to("no/such/file")
    (tmp_path / "circle").symlink_to("circle")
    with pytest.raises(DiskError, match=r"nowhere: there is no folder .*no/such; make it first"):
        write_text(tmp_path / "nowhere", "x")
    with pytest.raises(DiskError, match="circle: Too many levels of symbolic links"):
        write_text(tmp_path / "circle", "x")


def test_a_file_keeps_its_permissions(tmp_path: Path) -> None:
    private, new = tmp_path / "private", tmp_path / "new"
    private.write_bytes(b"")
    private.chmod(0o600)
    write_text(private, "x")
    assert stat.S_IMODE(private.stat().st_mode) == 0o600
    before = os.umask(0o027)
    try:
        write_text(new, "x")
    finally:
        os.umask(before)
    assert stat.S_IMODE(new.stat().st_mode) == 0o640


def test_the_longest_name_of_a_file_can_be_written(tmp_path: Path) -> None:
    path = tmp_path / ("ö" * 127)
    write_text(path, "x")
    assert names_in(tmp_path) == [path.name]


def test_a_file_that_fails_to_be_written_leaves_the_old_one(tmp_path: Path) -> None:
    path = tmp_path / "file"
    write_text(path, "old")

    def write_half() -> None:
        with replaced_file(path) as aside:
            aside.write_bytes(b"half")
            raise OSError(28, "No space left on device")

    with pytest.raises(DiskError, match="file: No space left"):
        write_half()
    assert path.read_bytes() == b"old"
    assert names_in(tmp_path) == ["file"]


def test_a_directory_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(DiskError, match="is a directory; name a file in it"):
        write_text(tmp_path, "x")


@pytest.mark.skipif(os.getuid() != 0, reason="NOT RUN: needs root, to become somebody else")
def test_a_folder_that_may_not_be_written_to_is_refused_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # others may not name it
    tmp_path.chmod(0o755)
    child = os.fork()
    if child == 0:
        try:
            os.setuid(65534)
            require_file(Path("file"))
        except DiskError as error:
            os._exit(0 if "file: may not be written to ." in str(error) else 2)
        finally:
            os._exit(1)
    assert os.waitpid(child, 0)[1] == 0


@pytest.mark.parametrize(
    "command",
    [
        ("attend", "no-model", "A dog.", "--out"),
        ("attend", "no-model", "A dog.", "--json"),
        ("attend", "no-model", "A dog.", "--png"),
        ("parse", "no-model", "--svg"),
        ("evaluate", "no-model", "--trees", "no.mrg", "--length-plot"),
        ("bench", "translate", "--shape", "small", "--out"),
        ("bench", "train", "--out"),
    ],
)
def test_every_command_refuses_a_pipe_before_it_does_any_work(
    command: tuple[str, ...], tmp_path: Path, capsys: Any
) -> None:
    """Promise: Nothing replaced."""
    from allyouneed.cli.program import main

    os.mkfifo(tmp_path / "pipe")
    assert main([*command, str(tmp_path / "pipe")]) == 2
    assert "pipe: is a pipe or a device" in capsys.readouterr().err
    assert stat.S_ISFIFO((tmp_path / "pipe").stat().st_mode)


@pytest.mark.parametrize("name", ["/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"])
def test_a_file_that_standard_output_is_appended_to_is_not_replaced(name: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"precious")
    code = f"""
from pathlib import Path
from allyouneed.storage.publish import write_text
write_text(Path({name!r}), "new")
"""
    with (tmp_path / "file").open("ab") as stdout:
        ended = subprocess.run(
            [sys.executable, "-c", code], stdout=stdout, stderr=subprocess.PIPE, check=False
        )
    assert b"is already open for writing" in ended.stderr
    assert (tmp_path / "file").read_bytes() == b"precious"


def test_what_a_killed_process_has_left_goes_with_the_next_write_and_nothing_else(
    tmp_path: Path,
) -> None:
    """Promise: Leftovers."""
    left, mine = tmp_path / f"page.html.tmp-{'a' * 32}", tmp_path / "page.html.tmp-notes"
    pipe, other = tmp_path / f"page.html.tmp-{'b' * 32}", tmp_path / f"page.htm.tmp-{'c' * 32}"
    for path in left, mine, other:
        path.write_bytes(b"half")
    os.mkfifo(pipe)
    with replaced_file(tmp_path / "page.html") as aside:
        write_text(tmp_path / "page.html", "another writer")
        assert aside.is_file()
    assert names_in(tmp_path) == sorted(["page.html", mine.name, pipe.name, other.name])
