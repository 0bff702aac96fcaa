"""Published directories are complete or absent, and take the place of nothing else."""

import contextlib
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

from allyouneed.errors import DiskError, UsageError
from allyouneed.storage.publish import (
    MANIFEST,
    discard,
    publish_directory,
    read_manifest,
    require_free,
    sha256_of,
    write_text,
)
from allyouneed.storage.publish.directory import remove_directory
from allyouneed.storage.publish.manifest import foreign_files

WEIGHTS = bytes(range(256)) * 20


def names_in(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


def test_facts_that_the_block_learns_are_recorded(tmp_path: Path) -> None:
    facts: dict[str, Any] = {}
    with publish_directory(tmp_path / "data", "data", facts):
        facts["num_pairs"] = 3
    assert read_manifest(tmp_path / "data", "data")["num_pairs"] == 3


@pytest.mark.parametrize("interruption", [ValueError, KeyboardInterrupt, SystemExit])
def test_an_interrupted_block_leaves_nothing(tmp_path: Path, interruption: type[BaseException]) -> None:
    def interrupted() -> None:
        with publish_directory(tmp_path / "model", "model") as folder:
            (folder / "weights").write_bytes(WEIGHTS)
            raise interruption

    with pytest.raises(interruption):
        interrupted()
    assert names_in(tmp_path) == []


def test_a_killed_process_leaves_no_target(tmp_path: Path) -> None:
    code = """
import os, sys; from pathlib import Path; from allyouneed.storage.publish import publish_directory
with publish_directory(Path(sys.argv[1]), "model") as folder:
    (folder / "weights").write_bytes(b"x")
    os.kill(os.getpid(), 9)
"""
    subprocess.run([sys.executable, "-c", code, tmp_path / "model"], check=False)
    assert not (tmp_path / "model").exists()
    with publish_directory(tmp_path / "model", "model") as folder:
        (folder / "weights").write_bytes(WEIGHTS)
    read_manifest(tmp_path / "model")


def test_a_target_that_holds_something_is_refused_before_the_block_runs(published: Path) -> None:
    before = sha256_of(published / MANIFEST)
    with pytest.raises(UsageError, match="exists and is not empty"), publish_directory(published, "model"):
        pytest.fail("the block must not run")
    assert sha256_of(published / MANIFEST) == before
    with pytest.raises(UsageError):
        require_free(published / "weights")
    with pytest.raises(UsageError, match=r"^-: is not a directory; name a new one$"):
        require_free(Path("-"))


def test_an_empty_directory_may_be_the_target(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "model").mkdir()
    monkeypatch.chdir(tmp_path / "model")
    with publish_directory(Path(), "model") as folder:
        (folder / "weights").write_bytes(WEIGHTS)
    assert read_manifest(tmp_path / "model")["kind"] == "model"


def test_the_longest_names_of_directories_can_be_made_at_once(tmp_path: Path) -> None:
    names = ["ö" * 127, "x" * 255, "x" * 254 + "y", "x" * 241]
    with contextlib.ExitStack() as stack:
        for name in names:
            stack.enter_context(publish_directory(tmp_path / name, "model"))
    assert names_in(tmp_path) == sorted(names)


def test_a_name_that_is_too_long_is_refused_before_the_block_runs(tmp_path: Path) -> None:
    with (
        pytest.raises(DiskError, match="File name too long"),
        publish_directory(tmp_path / ("x" * 256), "model", replace=True),
    ):
        pytest.fail("the block must not run")
    assert names_in(tmp_path) == []


def test_missing_parents_are_made(tmp_path: Path) -> None:
    with publish_directory(tmp_path / "a" / "b" / "model", "model"):
        pass
    assert read_manifest(tmp_path / "a" / "b" / "model")["files"] == {}


@pytest.mark.parametrize("existing", [".", "a", "a/b"])
def test_of_missing_parents_none_is_left_where_the_directory_is_not_made(
    tmp_path: Path, existing: str
) -> None:
    (tmp_path / existing).mkdir(parents=True, exist_ok=True)
    before = sorted(tmp_path.rglob("*"))
    with (
        contextlib.suppress(KeyboardInterrupt),
        publish_directory(tmp_path / "a" / "b" / "model", "model"),
    ):
        raise KeyboardInterrupt
    assert sorted(tmp_path.rglob("*")) == before


def test_a_directory_that_is_deleted_is_whole_or_absent_even_where_it_cannot_be_deleted(
    published: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(path: Path) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("shutil.rmtree", interrupt)
        with pytest.raises(KeyboardInterrupt):
            remove_directory(published, "model")
    assert names_in(published.parent) == ["model.tmp-unfinished"]
    with publish_directory(published, "model"):
        pass
    assert names_in(published.parent) == ["model"]


def test_a_deleted_directory_leaves_nothing_and_an_absent_one_is_a_disk_error(published: Path) -> None:
    remove_directory(published, "model")
    assert names_in(published.parent) == []
    with pytest.raises(DiskError, match=f"{published}: No such file or directory"):
        remove_directory(published, "model")


def test_of_a_link_to_a_directory_only_the_link_is_deleted(published: Path, tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    moved = published.rename(tmp_path / "disk" / "model")
    published.symlink_to(moved)
    before = contents(moved)
    remove_directory(published, "model")
    assert contents(moved) == before
    assert names_in(tmp_path) == ["disk"]
    assert names_in(tmp_path / "disk") == ["model"]
    published.symlink_to("nowhere")
    discard(published)
    assert names_in(tmp_path) == ["disk"]


def test_a_missing_permission_is_a_disk_error_without_talk_of_space(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with (
        pytest.raises(DiskError, match=r"file.*: Not a directory; check"),
        publish_directory(tmp_path / "file" / "model", "model"),
    ):
        pytest.fail("the block must not run")


def test_the_end_of_a_pipe_is_no_disk_error(tmp_path: Path) -> None:
    with pytest.raises(BrokenPipeError), publish_directory(tmp_path / "model", "model"):
        raise BrokenPipeError


def test_what_is_made_while_the_lock_is_awaited_is_refused_before_the_block_runs(tmp_path: Path) -> None:
    target = tmp_path / "data"
    (tmp_path / "data.tmp-unfinished").mkdir()
    (tmp_path / "data.tmp-unfinished" / "lock").write_bytes(f"1 on {os.uname().nodename}\n".encode())
    (tmp_path / "data.tmp-unfinished" / "content").mkdir()  # of which is told when the lock is taken
    with (
        pytest.raises(UsageError, match=f"^{target}: exists and is not empty"),
        publish_directory(target, "data", say=lambda line: make_directory(target)),
    ):
        pytest.fail("the block must not run")
    assert names_in(tmp_path) == ["data"]


@pytest.mark.parametrize("can_exchange", [True, False])
def test_a_directory_is_replaced_by_one_that_is_complete(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, can_exchange: bool
) -> None:
    without_exchange(monkeypatch, can_exchange)
    target = tmp_path / "target"
    for content in (b"old", b"new"):
        with publish_directory(target, "model", replace=True) as aside:
            (aside / "file").write_bytes(content)
            assert content == b"old" or (target / "file").read_bytes() == b"old"
    read_manifest(target, "model")
    assert (target / "file").read_bytes() == b"new"
    assert list(tmp_path.iterdir()) == [target]


def test_a_directory_that_cannot_change_places_is_put_back_where_the_new_one_fails(
    published: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_exchange(monkeypatch)
    rename = Path.rename

    def fail_for_the_new_one(path: Path, target: Path) -> Path:
        if path.name == "content":
            raise OSError(5, "Input/output error", str(path))
        return rename(path, target)

    monkeypatch.setattr(Path, "rename", fail_for_the_new_one)
    before = read_manifest(published)
    with (
        pytest.raises(DiskError, match=f"^{published}: Input/output error; check the disk$"),
        publish_directory(published, "model", replace=True) as aside,
    ):
        (aside / "weights").write_bytes(WEIGHTS)
    assert read_manifest(published) == before
    assert names_in(published.parent) == ["model"]


def make_directory(target: Path) -> None:
    target.mkdir()
    (target / "precious").write_bytes(b"x")


APPEARING: dict[str, Callable[[Path], object]] = {
    "a directory": make_directory,
    "a file": lambda target: target.write_bytes(b"x"),
    "a link to a directory": lambda target: target.symlink_to(target.parent),
    "a link to nothing": lambda target: target.symlink_to("nowhere"),
    "a pipe": os.mkfifo,
}


@pytest.mark.parametrize("appear", APPEARING.values(), ids=APPEARING)
def test_what_appears_in_the_place_meanwhile_is_left_alone(
    tmp_path: Path, appear: Callable[[Path], object]
) -> None:
    """Promise: Nothing replaced."""
    target = tmp_path / "data"
    publishing = publish_directory(target, "data")
    (publishing.__enter__() / "file").write_bytes(WEIGHTS)
    appear(target)
    before = target.lstat()
    with pytest.raises(UsageError, match=f"^{target}: has appeared while it was being made"):
        publishing.__exit__(None, None, None)
    assert target.lstat() == before
    assert not target.is_dir() or target.is_symlink() or (target / "precious").read_bytes() == b"x"
    assert names_in(tmp_path) == ["data"]


def test_an_empty_directory_that_appears_meanwhile_is_filled(tmp_path: Path) -> None:
    with publish_directory(tmp_path / "data", "data"):
        (tmp_path / "data").mkdir()
    read_manifest(tmp_path / "data", "data")


def test_a_link_to_an_empty_directory_stays_a_link_to_what_is_published(tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    (tmp_path / "data").symlink_to("disk")
    with publish_directory(tmp_path / "data", "data"):
        pass
    assert (tmp_path / "data").is_symlink()
    read_manifest(tmp_path / "disk", "data")
    assert names_in(tmp_path) == ["data", "disk"]


def add_a_file(directory: Path) -> None:
    (directory / "notes.txt").write_bytes(b"precious")


def add_a_link_in_a_folder(directory: Path) -> None:
    (directory / "tokenizers" / "notes.txt").symlink_to("/nowhere")


def take_the_manifest_away(directory: Path) -> None:
    (directory / MANIFEST).unlink()


def make_it_a_corpus(directory: Path) -> None:
    shutil.rmtree(directory)
    with publish_directory(directory, "corpus") as aside:
        (aside / "weights").write_bytes(b"precious")


@pytest.mark.parametrize(
    "change", [add_a_file, add_a_link_in_a_folder, take_the_manifest_away, make_it_a_corpus]
)
def test_a_directory_that_holds_what_was_not_published_as_its_kind_is_neither_replaced_nor_removed(
    published: Path, change: Callable[[Path], None]
) -> None:
    """Promise: Nothing replaced."""
    change(published)
    before = contents(published)
    with (
        pytest.raises(UsageError, match=f"^{published}: holds .*, which allyouneed did not write; move"),
        publish_directory(published, "model", replace=True) as aside,
    ):
        (aside / "weights").write_bytes(b"new")
    with pytest.raises(UsageError, match="which allyouneed did not write"):
        remove_directory(published, "model")
    assert contents(published) == before
    assert names_in(published.parent) == ["model"]


@pytest.mark.parametrize("can_exchange", [True, False])
def test_a_file_that_appears_in_the_old_directory_while_it_is_replaced_is_kept_with_it(
    published: Path, monkeypatch: pytest.MonkeyPatch, can_exchange: bool
) -> None:
    def seen_too_early(directory: Path, *arguments: Any) -> list[str]:
        found = foreign_files(directory, *arguments)
        (published / "notes.txt").write_bytes(b"precious")
        monkeypatch.undo()
        without_exchange(monkeypatch, can_exchange)
        return found

    monkeypatch.setattr("allyouneed.storage.publish.directory.foreign_files", seen_too_early)
    before = contents(published)
    with (
        pytest.raises(UsageError, match=f"^{published}: holds notes.txt, which allyouneed did not write; "),
        publish_directory(published, "model", replace=True) as aside,
    ):
        (aside / "weights").write_bytes(b"new")
    assert contents(published) == before | {published / "notes.txt": b"precious"}
    assert names_in(published.parent) == ["model"]


def without_exchange(monkeypatch: pytest.MonkeyPatch, can_exchange: bool = False) -> None:
    """Let the file system be one that cannot let two directories change places."""
    if not can_exchange:
        monkeypatch.setattr("allyouneed.storage.publish.directory.ctypes.CDLL", lambda *_, **__: object())


def contents(directory: Path) -> dict[Path, bytes | None]:
    return {p: p.read_bytes() if p.is_file() else None for p in sorted(directory.rglob("*"))}


def test_a_damaged_directory_is_replaced_by_one_with_the_same_files(published: Path) -> None:
    (published / MANIFEST).write_bytes(b"damaged")
    with publish_directory(published, "model", replace=True) as aside:
        (aside / "weights").write_bytes(b"new")
        (aside / "tokenizers").mkdir()
        (aside / "tokenizers" / "größe.json").write_bytes(b"{}")
    assert read_manifest(published)["files"]["weights"]["size"] == 3


@pytest.mark.parametrize("place", ["/", "/proc"])
def test_the_place_where_a_file_system_begins_is_refused(place: str) -> None:
    with (
        pytest.raises(UsageError, match=f"^{place}: is the root of a file system; name a folder in it$"),
        publish_directory(Path(place), "model"),
    ):
        pytest.fail("the block must not run")


@pytest.mark.parametrize(("umask", "mode"), [(0o022, 0o644), (0o002, 0o664), (0o077, 0o600)])
def test_published_files_have_the_permissions_of_any_new_file(tmp_path: Path, umask: int, mode: int) -> None:
    before = os.umask(umask)
    try:
        with publish_directory(tmp_path / "model", "model") as aside:
            save_file({"weight": torch.zeros(2)}, aside / "model.safetensors")
            (aside / "folder").mkdir()
            (aside / "folder" / "config.toml").write_bytes(b"")
    finally:
        os.umask(before)
    files = [path for path in (tmp_path / "model").rglob("*") if path.is_file()]
    assert {path.name: path.stat().st_mode & 0o777 for path in files} == dict.fromkeys(
        ("model.safetensors", "config.toml", MANIFEST), mode
    )
    folders = (tmp_path / "model", tmp_path / "model" / "folder")
    assert {path.stat().st_mode & 0o777 for path in folders} == {0o777 & ~umask}


@pytest.mark.skipif(os.getuid() != 0, reason="NOT RUN: only root may become another user")
def test_another_user_can_read_what_is_published(tmp_path: Path) -> None:
    """Promise: Permissions."""
    before = os.umask(0o022)
    try:
        with publish_directory(tmp_path / "model", "model") as aside:
            save_file({"weight": torch.zeros(2)}, aside / "model.safetensors")
    finally:
        os.umask(before)
    model = os.open(tmp_path / "model", os.O_RDONLY)  # what lies above it is for the owner alone
    child = os.fork()
    if child == 0:
        try:
            os.setgroups([])
            os.setgid(65534)
            os.setuid(65534)
            os.read(os.open("model.safetensors", os.O_RDONLY, dir_fd=model), 1)
        except BaseException:
            os._exit(1)
        os._exit(0)
    os.close(model)
    assert os.waitpid(child, 0)[1] == 0


def test_a_file_in_the_place_of_what_is_to_be_replaced_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "state").write_bytes(b"mine")
    with (
        pytest.raises(UsageError, match="is not a directory"),
        publish_directory(tmp_path / "state", "state", replace=True) as aside,
    ):
        (aside / "file").write_bytes(b"new")
    assert (tmp_path / "state").read_bytes() == b"mine"


@pytest.mark.parametrize("url", ["s3://bucket/data", "memory://x/data"])
def test_a_url_is_not_taken_for_a_path_to_write_to(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with (
        pytest.raises(UsageError, match=f"{url}: is not local; write to a local folder, then"),
        publish_directory(Path(url), "data"),
    ):
        pass
    with pytest.raises(UsageError, match="is not local"):
        write_text(Path(url), "text")
    assert not list(tmp_path.iterdir())


def test_a_place_where_nothing_can_be_made_is_a_disk_error_and_not_tried_for_ever() -> None:
    with (
        pytest.raises(DiskError, match="/proc/data: No such file or directory"),
        publish_directory(Path("/proc/data"), "data"),
    ):
        pass
