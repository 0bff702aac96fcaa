"""Files at other places are whole or absent, though connections break.

Promise: Copies.
"""

import hashlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.cli.test_line_output import largest_file
from tests.storage.flaky_files import FlakyFiles, flaky_files

from allyouneed.errors import DiskError, UsageError
from allyouneed.storage import locations
from allyouneed.storage.locations import PAUSES, Location
from allyouneed.storage.publish.disk import url_of


@pytest.fixture
def files() -> Iterator[type[FlakyFiles]]:
    with flaky_files(0.05) as found:
        yield found


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    waited: list[float] = []
    monkeypatch.setattr(locations, "_wait", waited.append)
    return waited


def test_what_is_written_comes_back_though_connections_break(
    files: type[FlakyFiles], pauses: list[float], tmp_path: Path
) -> None:
    location = Location("flaky://place/folder")
    location.make()
    contents = {f"deep/{n}": bytes([n]) * (n * 1_000) for n in range(40)}
    for name, content in contents.items():
        (tmp_path / "from").write_bytes(content)
        location.put(tmp_path / "from", name) if len(content) % 2_000 else location.write(name, content)
        assert all(contents[name] == location.read(name, 1 << 20) for name in location.sizes())
    assert location.sizes() == {name: len(content) for name, content in contents.items()}
    for name, content in contents.items():
        sha256 = hashlib.sha256(content).hexdigest()
        location.fetch(name, tmp_path / "to", len(content), sha256)
        assert (tmp_path / "to").read_bytes() == content
        assert location.sha256_of(name, len(content)) == sha256
        assert location.sha256_of(name, len(content) - 1) is None or not content
    assert files.num_broken > 30
    assert len(pauses) >= 30


def test_another_attempt_waits_longer_and_the_last_one_says_so(
    files: type[FlakyFiles], pauses: list[float]
) -> None:
    location = Location("flaky://place/folder")
    files.broken_share = 1.0
    with pytest.raises(DiskError, match=r"flaky://place/folder: .* in 6 attempts: the connection"):
        location.write("name", b"content")
    files.broken_share = 0.0
    assert location.sizes() == {}
    assert pauses == [0.25, 0.5, 1, 2, 4]


def test_what_is_not_there_is_not_asked_for_again(files: type[FlakyFiles], pauses: list[float]) -> None:
    files.broken_share = 0.0
    location = Location("flaky://place/folder")
    assert location.sizes() == {}
    with pytest.raises(FileNotFoundError):
        location.read("name", 10)
    assert not pauses


def test_other_content_than_was_asked_for_is_an_error(
    files: type[FlakyFiles], pauses: list[float], tmp_path: Path
) -> None:
    files.broken_share = 0.0
    location = Location("flaky://place/folder")
    location.write("name", b"content")
    with pytest.raises(DiskError, match="another content than its manifest says"):
        location.fetch("name", tmp_path / "to", 7, hashlib.sha256(b"other").hexdigest())
    assert pauses == [*PAUSES]


def test_a_local_folder_is_a_location_too(tmp_path: Path) -> None:
    location = Location(tmp_path / "new" / "folder")
    location.make()
    location.write("deep/name", b"content")
    location.write("deep/name", b"new content")
    assert location.sizes() == {"deep/name": 11}
    assert [path.name for path in (tmp_path / "new" / "folder" / "deep").iterdir()] == ["name"]


def test_names_are_no_patterns(files: type[FlakyFiles], pauses: list[float]) -> None:
    location = Location("flaky://place/[a] *?/%20")
    location.write("[1]*", b"content")
    assert location.sizes() == {"[1]*": 7}
    assert location.read("[1]*", 10) == b"content"


def test_a_full_local_disk_is_told_as_that_and_at_once(
    files: type[FlakyFiles], pauses: list[float], tmp_path: Path
) -> None:
    files.broken_share = 0.0
    location = Location("flaky://place/folder")
    location.write("name", bytes(10_000))
    sha256 = hashlib.sha256(bytes(10_000)).hexdigest()
    with (
        largest_file(4_096),
        pytest.raises(DiskError, match=f"{tmp_path}/to: File too large; .* bytes are free"),
    ):
        location.fetch("name", tmp_path / "to", 10_000, sha256)
    assert not pauses


@pytest.mark.parametrize(
    "error", [PermissionError("no"), FileExistsError("there"), FileNotFoundError("no bucket")]
)
def test_what_no_attempt_mends_is_told_at_once(
    files: type[FlakyFiles], pauses: list[float], error: OSError, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*arguments: object, **options: object) -> None:
        raise error

    monkeypatch.setattr(FlakyFiles, "pipe_file", fail)
    files.broken_share = 0.0
    with pytest.raises(DiskError, match=rf"flaky://place/folder: could not be written \(name\): {error}$"):
        Location("flaky://place/folder").write("name", b"content")
    assert not pauses


def test_errors_of_packages_that_are_none_of_the_system_are_tried_again(
    files: type[FlakyFiles], pauses: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    class NoCredentialsError(Exception):
        pass

    def fail(*arguments: object, **options: object) -> None:
        raise NoCredentialsError("unable to locate credentials")

    monkeypatch.setattr(FlakyFiles, "find", fail)
    with pytest.raises(DiskError, match="could not be listed in 6 attempts: unable to locate credentials"):
        Location("flaky://place/folder").sizes()
    assert pauses == [*PAUSES]


def test_a_password_in_a_url_is_refused_and_not_repeated() -> None:
    with pytest.raises(UsageError, match="ftp://host/x: a URL may not have a password") as caught:
        Location("ftp://alice:secret@host/x")
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("url", "message"),
    [("nosuch://place/folder", "nosuch"), ("s3://bucket/folder", "s3fs"), ("gs://bucket/folder", "gcsfs")],
)
def test_a_url_that_nothing_can_read_names_what_is_missing(url: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        Location(url)


@pytest.mark.parametrize(
    ("path", "url"),
    [
        ("s3://bucket/folder", "s3://bucket/folder"),
        (Path("s3://bucket/folder"), "s3://bucket/folder"),
        (Path("file:///tmp/folder"), "file:///tmp/folder"),
        ("hdfs:///folder", "hdfs:///folder"),
        ("s3:/bucket/folder", "s3://bucket/folder"),
        ("folder/a:b", None),
        (Path("/folder"), None),
        ("C:/folder", None),
        ("runs/first", None),
    ],
)
def test_urls_are_told_from_paths(path: Path | str, url: str | None) -> None:
    assert url_of(path) == url


@pytest.mark.parametrize("path", ["s3://", Path("s3://"), "file:///", Path("file:///")])
def test_a_url_without_a_place_is_refused(path: Path | str) -> None:
    with pytest.raises(UsageError, match=r"^(s3|file)://: names no place; write \1://PLACE/FOLDER$"):
        url_of(path)


def test_a_local_name_with_colons_is_no_chain_of_urls(tmp_path: Path) -> None:
    Location(tmp_path / "out::1").write("name", b"content")
    assert (tmp_path / "out::1" / "name").read_bytes() == b"content"


def test_a_folder_named_like_a_url_is_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("s3:/bucket").mkdir(parents=True)
    assert url_of(Path("s3:/bucket")) is None
