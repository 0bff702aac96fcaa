"""Published directories are copied whole, to and from places whose connections break.

Promise: Copies.
"""

import contextlib
import hashlib
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.storage.flaky_files import FlakyFiles, flaky_files
from tests.storage.publish.test_manifest import rewrite_manifest

from allyouneed.errors import DiskError, LockedError, ModelError, UsageError
from allyouneed.storage import locations, remote
from allyouneed.storage.publish import MANIFEST, publish_directory, read_manifest
from allyouneed.storage.publish.directory import workplace
from allyouneed.storage.remote import copy_published, local_copy

URL = "flaky://place/data"


@pytest.fixture
def files(monkeypatch: pytest.MonkeyPatch) -> Iterator[type[FlakyFiles]]:
    monkeypatch.setattr(locations, "_wait", lambda seconds: None)
    with flaky_files(0.08) as found:
        yield found


@pytest.fixture
def data(tmp_path: Path) -> Path:
    with publish_directory(tmp_path / "data", "data", {"facts": {"b": 1, "a": [2]}}) as aside:
        for number in range(12):
            path = aside / f"folder{number % 3}" / f"file{number}"
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(bytes([number]) * 5_000)
    return tmp_path / "data"


def contents(directory: Path) -> dict[str, bytes]:
    return {
        path.relative_to(directory).as_posix(): path.read_bytes()
        for path in sorted(directory.rglob("*"))
        if path.is_file()
    }


def test_a_directory_comes_back_with_the_same_bytes(
    files: type[FlakyFiles], data: Path, tmp_path: Path
) -> None:
    advanced: list[int] = []
    copy_published(data, URL, advance=advanced.append)
    assert sum(advanced) == 60_000
    copy_published(URL, tmp_path / "back")
    assert contents(tmp_path / "back") == contents(data)
    assert read_manifest(tmp_path / "back", "data")["facts"] == {"b": 1, "a": [2]}
    assert files.num_broken > 10


def test_a_local_source_must_be_a_directory(data: Path, tmp_path: Path) -> None:
    for source, fault in ((tmp_path / "absent", "no such directory"), (data / MANIFEST, "is a file")):
        with pytest.raises(ModelError, match=f"^{source}: {fault}"):
            copy_published(source, tmp_path / "other")


def test_a_local_directory_is_copied_to_another(data: Path, tmp_path: Path) -> None:
    copy_published(data, tmp_path / "other")
    assert contents(tmp_path / "other") == contents(data)


def test_an_interrupted_copy_sends_only_what_is_missing(files: type[FlakyFiles], data: Path) -> None:
    files.broken_share = 0.0

    def interrupt(count: int) -> None:
        if len(files.store) == 6:  # with the mark that it is unfinished
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        copy_published(data, URL, advance=interrupt)
    assert f"/place/data/{MANIFEST}" not in files.store
    there = {name: file.modified for name, file in files.store.items() if "unfinished" not in name}
    assert len(there) == 5
    sent: list[int] = []
    skipped: list[int] = []
    copy_published(data, URL, advance=sent.append, skip=skipped.append)
    assert {name: files.store[name].modified for name in there} == there
    assert (len(skipped), sum(skipped + sent)) == (5, 60_000)
    assert len(files.store) == 13
    before = {name: file.modified for name, file in files.store.items()}
    copy_published(data, URL)
    assert {name: file.modified for name, file in files.store.items()} == before


def test_an_interrupted_fetch_goes_on(files: type[FlakyFiles], data: Path, tmp_path: Path) -> None:
    copy_published(data, URL)
    files.broken_share = 0.0
    seen: list[int] = []

    def interrupt(count: int) -> None:
        seen.append(count)
        if len(seen) == 5:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        copy_published(URL, tmp_path / "back", advance=interrupt)
    assert not (tmp_path / "back").exists()
    content = tmp_path / "back.tmp-unfinished" / "content"
    inodes = {path.name: path.stat().st_ino for path in content.rglob("file*")}
    assert len(inodes) == 5
    skipped: list[int] = []
    copy_published(URL, tmp_path / "back", skip=skipped.append)
    assert skipped == seen
    assert contents(tmp_path / "back") == contents(data)
    assert (
        inodes.items() <= {path.name: path.stat().st_ino for path in tmp_path.rglob("back/*/file*")}.items()
    )


def test_damage_at_the_other_place_is_found(files: type[FlakyFiles], data: Path, tmp_path: Path) -> None:
    files.broken_share = 0.0
    copy_published(data, URL)
    del files.store["/place/data/folder1/file4"]
    with pytest.raises(ModelError, match=r"flaky://place/data/folder1/file4: is missing"):
        copy_published(URL, tmp_path / "back")
    copy_published(data, URL)
    files().pipe_file("/place/data/folder1/file4", b"\4" * 4_999 + b"\5")
    with pytest.raises(DiskError, match="another content"):
        copy_published(URL, tmp_path / "back")
    assert not (tmp_path / "back").exists()
    copy_published(data, URL)  # mends it
    copy_published(URL, tmp_path / "back")
    files().pipe_file(f"/place/data/{MANIFEST}", b"{}")
    with pytest.raises(ModelError, match=f"flaky://place/data/{MANIFEST}: is damaged"):
        copy_published(URL, tmp_path / "third")


@pytest.mark.parametrize("name", ["../x", "../../x", "folder0/../../x", "{outside}/x"])
def test_a_manifest_from_elsewhere_writes_nothing_outside_the_target(
    files: type[FlakyFiles], data: Path, tmp_path: Path, name: str
) -> None:
    name, files.broken_share = name.format(outside=tmp_path), 0.0
    copy_published(data, URL)
    before = contents(tmp_path)
    entry = {"size": 7, "sha256": hashlib.sha256(b"harmful").hexdigest()}
    rewrite_manifest(data, lambda manifest: manifest["files"].update({name: entry}))
    files().pipe_file(f"/place/data/{MANIFEST}", (data / MANIFEST).read_bytes())
    for place in ("/x", "/place/x", f"/place/data/{name}", name):
        files().pipe_file(place, b"harmful")
    (data / MANIFEST).write_bytes(before[f"data/{MANIFEST}"])
    message = f"flaky://place/data/{MANIFEST}: names a file that cannot be in the directory: {name}"
    with pytest.raises(ModelError, match=f"^{re.escape(message)}$"):
        copy_published(URL, tmp_path / "back")
    assert contents(tmp_path) == before


def test_nothing_is_written_over(files: type[FlakyFiles], data: Path, tmp_path: Path) -> None:
    copy_published(data, URL)
    with publish_directory(tmp_path / "model", "model") as aside:
        (aside / "file").write_bytes(b"weights")
    with pytest.raises(UsageError, match="holds something else already"):
        copy_published(tmp_path / "model", URL)
    files.broken_share = 0.0
    files().pipe_file("/place/mine/report.json", b"precious")
    with pytest.raises(UsageError, match="flaky://place/mine: holds something else already"):
        copy_published(data, "flaky://place/mine")
    assert files().cat_file("/place/mine/report.json") == b"precious"
    with pytest.raises(UsageError, match="exists and is not empty"):
        copy_published(URL, tmp_path / "model")
    with pytest.raises(UsageError, match="one of the two places must be local"):
        copy_published(URL, "flaky://place/other")


@pytest.mark.parametrize("where", [URL, "."])
def test_a_place_without_a_directory_says_so(files: type[FlakyFiles], tmp_path: Path, where: str) -> None:
    files.broken_share = 0.0
    with pytest.raises(ModelError, match=f"{where}: has no {MANIFEST}"):
        copy_published(where, tmp_path / "back")
    with pytest.raises(ModelError):
        copy_published(tmp_path / "nothing", URL)


def test_a_local_copy_is_kept_until_the_other_place_changes(
    files: type[FlakyFiles], data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "cache").mkdir(mode=0o700)
    files.broken_share = 0.0
    copy_published(data, URL)
    first = local_copy(URL)
    assert contents(first) == contents(data)
    for name in [name for name in files.store if not name.endswith(MANIFEST)]:
        del files.store[name]
    assert local_copy(Path(URL)) == first
    assert local_copy(data) == data
    (first / "folder0" / "file0").unlink()  # by a program that cleans up
    with pytest.raises(ModelError, match="flaky://place/data/folder0/file0: is missing"):
        local_copy(URL)
    copy_published(data, URL)
    assert contents(local_copy(URL)) == contents(data)
    files.store.clear()
    with publish_directory(tmp_path / "new", "data") as aside:
        (aside / "file").write_bytes(b"new")
    copy_published(tmp_path / "new", URL)
    assert contents(local_copy(URL))["file"] == b"new"


def test_without_a_cache_directory_a_url_is_refused(
    files: type[FlakyFiles], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remote, "user_cache", lambda: None)
    with pytest.raises(UsageError, match="there is no cache directory; `allyouneed copy` it"):
        local_copy(URL)


def test_of_two_processes_that_need_a_copy_one_makes_it_and_the_other_waits(
    files: type[FlakyFiles], data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files.broken_share = 0.0
    copy_published(data, URL)
    monkeypatch.setattr(remote, "user_cache", lambda: tmp_path)
    [seal] = [file.getvalue() for name, file in files.store.items() if name.endswith(MANIFEST)]
    copy = tmp_path / "copies" / hashlib.sha256(URL.encode() + seal).hexdigest()[:32]
    waited: list[float] = []
    with contextlib.ExitStack() as other:
        other.enter_context(workplace(copy))

        def wait(seconds: float) -> None:
            waited.append(seconds)
            other.close()

        monkeypatch.setattr("allyouneed.storage.remote.time.sleep", wait)
        assert local_copy(URL) == copy
    assert len(waited) == 1
    assert contents(copy) == contents(data)


def test_what_a_process_of_another_host_has_left_in_the_cache_is_not_waited_for(
    files: type[FlakyFiles], data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files.broken_share = 0.0
    copy_published(data, URL)
    monkeypatch.setattr(remote, "user_cache", lambda: tmp_path)
    [seal] = [file.getvalue() for name, file in files.store.items() if name.endswith(MANIFEST)]
    copy = tmp_path / "copies" / hashlib.sha256(URL.encode() + seal).hexdigest()[:32]
    left = copy.with_name(f"{copy.name}.tmp-unfinished")
    (left / "content").mkdir(parents=True)
    (left / "lock").write_bytes(b"77 on otherhost\n")
    with pytest.raises(LockedError, match=f"process 77 on otherhost .* remove {left}"):
        local_copy(URL)
