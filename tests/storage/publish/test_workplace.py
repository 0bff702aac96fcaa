"""One process at a time makes a directory, and what a killed one had begun is removed, but nothing else."""

import contextlib
import ctypes
import os
import resource
import shutil
import signal
from pathlib import Path

import pytest

from allyouneed.errors import DiskError, LockedError, UsageError
from allyouneed.storage.publish import publish_directory, read_manifest

HERE = os.uname().nodename


def publish(target: Path) -> list[str]:
    """Publish a directory; what is said of it."""
    said: list[str] = []
    with publish_directory(target, "data", say=said.append) as aside:
        (aside / "file").write_bytes(b"new")
    return said


def killed_while_publishing(target: Path) -> int:
    """The id of a process that was killed while it was publishing `target`."""
    child = os.fork()
    if child == 0:
        try:
            with publish_directory(target, "data") as aside:
                (aside / "file").write_bytes(b"half")
                os.kill(os.getpid(), signal.SIGKILL)
        finally:
            os._exit(1)
    assert os.WTERMSIG(os.waitpid(child, 0)[1]) == signal.SIGKILL
    return child


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_second_process_is_refused_before_it_begins_and_the_first_ends_unharmed(tmp_path: Path) -> None:
    target = tmp_path / "data"
    with publish_directory(target, "data") as aside:
        (aside / "file").write_bytes(b"first")
        for _ in range(2):
            with (
                pytest.raises(LockedError, match=f"^{target}: process {os.getpid()} on {HERE} is making"),
                publish_directory(target, "data"),
            ):
                pytest.fail("the block must not run")
    assert read_manifest(target)["files"]["file"]["size"] == 5
    assert names_in(tmp_path) == ["data"]


def test_nothing_is_left_where_the_work_has_opened_as_many_files_as_it_may(tmp_path: Path) -> None:
    child = os.fork()
    if child == 0:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (256, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
            opened = []
            with contextlib.suppress(DiskError), publish_directory(tmp_path / "data", "data") as aside:
                (aside / "folder" / "folder").mkdir(parents=True)
                (aside / "folder" / "folder" / "file").write_bytes(b"half")
                while True:
                    opened.append(os.open(os.devnull, os.O_RDONLY))
            os._exit(0 if opened else 1)
        finally:
            os._exit(1)
    assert os.waitpid(child, 0)[1] == 0
    assert names_in(tmp_path) == []


def test_nothing_is_left_wherever_the_limit_of_open_files_is_met(tmp_path: Path) -> None:
    child = os.fork()
    if child == 0:
        try:
            os.closerange(3, 4096)
            ended, most = set(), resource.getrlimit(resource.RLIMIT_NOFILE)[1]
            for limit in range(4, 24):
                resource.setrlimit(resource.RLIMIT_NOFILE, (limit, most))
                with contextlib.suppress(DiskError), publish_directory(tmp_path / "data", "data"):
                    ended.add("begun")
                ended.add(" ".join(names_in(tmp_path)))
                shutil.rmtree(tmp_path / "data", ignore_errors=True)
            os._exit(0 if ended == {"begun", "", "data"} else 1)
        finally:
            os._exit(1)
    assert os.waitpid(child, 0)[1] == 0
    assert names_in(tmp_path) == []


def test_two_names_of_one_directory_are_one_place(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("data")
    with (
        publish_directory(tmp_path / "link", "data"),
        pytest.raises(LockedError),
        publish_directory(tmp_path / "data", "data"),
    ):
        pytest.fail("the block must not run")
    read_manifest(tmp_path / "data")


def test_what_a_killed_process_left_is_removed_by_the_next_which_says_so(tmp_path: Path) -> None:
    """Promise: Leftovers."""
    target = tmp_path / "data"
    killed = killed_while_publishing(target)
    assert names_in(tmp_path) == ["data.tmp-unfinished"]
    notice = f"NOTICE: {target}: removed what process {killed} on {HERE} had left unfinished"
    assert publish(target) == [notice]
    assert names_in(tmp_path) == ["data"]


def killed_while_replacing(target: Path) -> int:
    """The id of a process that was killed with the old directory moved aside and the new one not in place."""
    publish(target)
    child = os.fork()
    if child == 0:
        rename = Path.rename

        def rename_and_die(path: Path, to: Path) -> Path:
            rename(path, to)
            os.kill(os.getpid(), signal.SIGKILL)
            return to

        try:
            with publish_directory(target, "data", replace=True) as aside:
                (aside / "file").write_bytes(b"half")
                Path.rename = rename_and_die  # type: ignore[method-assign,assignment]
                ctypes.CDLL = lambda *_, **__: object()  # type: ignore[assignment,misc]
        finally:
            os._exit(1)
    assert os.WTERMSIG(os.waitpid(child, 0)[1]) == signal.SIGKILL
    assert names_in(target.parent) == [f"{target.name}.tmp-unfinished"]
    return child


def test_an_old_directory_that_a_killed_process_had_moved_aside_is_put_back(tmp_path: Path) -> None:
    target = tmp_path / "data"
    killed = killed_while_replacing(target)
    said: list[str] = []
    with (
        contextlib.suppress(KeyboardInterrupt),
        publish_directory(target, "data", replace=True, say=said.append),
    ):
        assert (target / "file").read_bytes() == b"new"
        raise KeyboardInterrupt
    assert said[0] == (
        f"NOTICE: {target}: put back, as process {killed} on {HERE} had not finished replacing it"
    )
    assert read_manifest(target)["files"]["file"]["size"] == 3
    assert names_in(tmp_path) == ["data"]


def test_an_old_directory_in_whose_place_something_has_appeared_is_not_put_back(tmp_path: Path) -> None:
    target = tmp_path / "data"
    killed_while_replacing(target)
    target.mkdir()
    (target / "precious").write_bytes(b"x")
    with (
        pytest.raises(UsageError, match="which allyouneed did not write"),
        publish_directory(target, "data", replace=True),
    ):
        pass
    assert names_in(target) == ["precious"]


def test_a_link_that_was_left_is_removed_and_what_it_points_to_stays(tmp_path: Path) -> None:
    target = tmp_path / "data"
    killed_while_publishing(target)
    content = tmp_path / "data.tmp-unfinished" / "content"
    content.rename(tmp_path / "elsewhere")
    content.symlink_to(tmp_path / "elsewhere")
    assert len(publish(target)) == 1
    assert (tmp_path / "elsewhere" / "file").read_bytes() == b"half"
    assert names_in(tmp_path) == ["data", "elsewhere"]


def test_what_a_process_of_another_host_left_stays_and_is_named(tmp_path: Path) -> None:
    target, left = tmp_path / "data", tmp_path / "data.tmp-unfinished"
    killed_while_publishing(target)
    (left / "lock").write_bytes(b"12 on elsewhere\n")
    with pytest.raises(LockedError, match=f"^{target}: process 12 on elsewhere was .* remove {left}$"):
        publish(target)
    assert (left / "content" / "file").read_bytes() == b"half"
    assert (left / "lock").read_bytes() == b"12 on elsewhere\n"
    shutil.rmtree(left)
    assert publish(target) == []


@pytest.mark.parametrize("names", [["precious"], ["lock", "precious"], ["content"], ["lock", "content"]])
def test_a_folder_of_somebody_else_in_place_of_the_workplace_is_left_alone(
    tmp_path: Path, names: list[str]
) -> None:
    folder = tmp_path / "data.tmp-unfinished"
    folder.mkdir()
    for name in names:
        (folder / name).write_bytes(b"precious")
    with pytest.raises(UsageError, match=f"^{folder}(/lock)?: is in the way and was not made by allyouneed"):
        publish(tmp_path / "data")
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == dict.fromkeys(names, b"precious")


def test_a_link_or_a_file_in_place_of_the_workplace_is_left_alone(tmp_path: Path) -> None:
    killed_while_publishing(tmp_path / "other")
    workplace = tmp_path / "data.tmp-unfinished"
    for is_link in (True, False):
        workplace.symlink_to("other.tmp-unfinished") if is_link else workplace.touch()
        with pytest.raises(UsageError, match="is in the way"):
            publish(tmp_path / "data")
        workplace.unlink()
    assert (tmp_path / "other.tmp-unfinished" / "content" / "file").read_bytes() == b"half"


def test_leftovers_of_earlier_versions_which_prove_nothing_stay(tmp_path: Path) -> None:
    earlier = tmp_path / f"data.tmp-{os.getpid()}"
    earlier.mkdir()
    (earlier / "precious").write_bytes(b"x")
    assert publish(tmp_path / "data") == []
    assert names_in(tmp_path) == ["data", earlier.name]


def test_an_empty_workplace_of_a_process_killed_at_once_is_used(tmp_path: Path) -> None:
    (tmp_path / "data.tmp-unfinished").mkdir()
    assert publish(tmp_path / "data") == []
    assert names_in(tmp_path) == ["data"]


def test_a_leftover_that_cannot_be_removed_is_a_disk_error_and_stays_a_leftover(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    killed_while_publishing(tmp_path / "data")

    def fail(path: Path, *arguments: object, **options: object) -> None:
        raise PermissionError(13, "Permission denied", str(path))

    with monkeypatch.context() as patched:
        patched.setattr("shutil.rmtree", fail)
        with pytest.raises(DiskError, match=f"^{tmp_path / 'data'}: Permission denied; "):
            publish(tmp_path / "data")
    assert len(publish(tmp_path / "data")) == 1


def test_a_lock_of_somebody_else_is_neither_written_nor_removed(tmp_path: Path) -> None:
    (tmp_path / "data.tmp-unfinished").mkdir()
    lock = tmp_path / "data.tmp-unfinished" / "lock"
    lock.write_bytes(b"my own\n")
    with pytest.raises(UsageError, match=f"{lock}: is in the way and was not made by allyouneed"):
        publish(tmp_path / "data")
    assert lock.read_bytes() == b"my own\n"
