"""Published directories are complete or absent, and every change to one is seen and named."""

import hashlib
import json
import os
import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from allyouneed.errors import DiskError, ModelError, UsageError
from allyouneed.publish import (
    MANIFEST,
    publish_directory,
    read_manifest,
    remove_directory,
    require_free,
    require_space,
    sha256_of,
    write_text,
)
from allyouneed.version import __version__

WEIGHTS = bytes(range(256)) * 20


@pytest.fixture
def published(tmp_path: Path) -> Path:
    target = tmp_path / "model"
    with publish_directory(target, "model", {"step": 7}) as folder:
        (folder / "weights").write_bytes(WEIGHTS)
        (folder / "tokenizers").mkdir()
        (folder / "tokenizers" / "größe.json").write_bytes(b"{}")
    return target


def names_in(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


def rewrite_manifest(directory: Path, change: Callable[[dict[str, Any]], object]) -> None:
    """Change a manifest and seal it anew, as somebody would who means harm."""
    manifest = json.loads((directory / MANIFEST).read_bytes())
    del manifest["manifest_sha256"]
    change(manifest)
    seal = hashlib.sha256(json.dumps(manifest).encode()).hexdigest()
    (directory / MANIFEST).write_bytes(json.dumps({**manifest, "manifest_sha256": seal}, indent=1).encode())


def test_a_manifest_tells_what_was_published(published: Path) -> None:
    assert read_manifest(published) == {
        "kind": "model",
        "format_version": 1,
        "tool_version": __version__,
        "step": 7,
        "files": {
            "tokenizers/größe.json": {"size": 2, "sha256": hashlib.sha256(b"{}").hexdigest()},
            "weights": {"size": len(WEIGHTS), "sha256": hashlib.sha256(WEIGHTS).hexdigest()},
        },
    }
    assert names_in(published.parent) == ["model"]


def test_facts_that_the_block_learns_are_recorded(tmp_path: Path) -> None:
    facts: dict[str, Any] = {}
    with publish_directory(tmp_path / "data", "data", facts):
        facts["num_pairs"] = 3
    assert read_manifest(tmp_path / "data", "data")["num_pairs"] == 3


def test_every_flipped_bit_is_refused_and_its_file_named(published: Path) -> None:
    generator = random.Random(1)
    for path in (published / "weights", published / "tokenizers" / "größe.json", published / MANIFEST):
        whole = path.read_bytes()
        for bit in generator.sample(range(8 * len(whole)), min(400, 8 * len(whole))):
            flipped = bytearray(whole)
            flipped[bit // 8] ^= 1 << bit % 8
            path.write_bytes(flipped)
            with pytest.raises(ModelError) as caught:
                read_manifest(published)
            assert str(path) in str(caught.value)
        path.write_bytes(whole)
    read_manifest(published)


@pytest.mark.parametrize("name", ["weights", MANIFEST])
def test_every_truncation_is_refused_and_its_file_named(published: Path, name: str) -> None:
    path = published / name
    whole = path.read_bytes()
    for length in {0, 1, len(whole) - 1, *random.Random(2).sample(range(len(whole)), 100)}:
        path.write_bytes(whole[:length])
        with pytest.raises(ModelError, match=name):
            read_manifest(published)


def test_exchanged_pages_are_refused(published: Path) -> None:
    (published / "weights").write_bytes(WEIGHTS[::-1])
    with pytest.raises(ModelError, match="weights: is damaged: sha256"):
        read_manifest(published)


def test_all_faults_are_named_at_once(published: Path) -> None:
    (published / "weights").write_bytes(b"short")
    (published / "tokenizers" / "größe.json").unlink()
    with pytest.raises(ModelError) as caught:
        read_manifest(published)
    missing, short = caught.value.messages
    assert "größe.json: is missing or no plain file" in missing
    assert "weights: has 5 bytes, 5120 expected" in short


def test_a_directory_without_a_manifest_is_refused(published: Path, tmp_path: Path) -> None:
    (published / MANIFEST).unlink()
    with pytest.raises(ModelError, match=f"has no {MANIFEST}"):
        read_manifest(published)
    with pytest.raises(ModelError, match="absent: no such directory"):
        read_manifest(tmp_path / "absent")


def test_another_kind_is_refused(published: Path) -> None:
    with pytest.raises(ModelError, match="is a model directory; a data directory is wanted"):
        read_manifest(published, "data")


def test_a_newer_format_is_refused_with_the_remedy(published: Path) -> None:
    rewrite_manifest(published, lambda manifest: manifest.update(format_version=2))
    with pytest.raises(
        ModelError, match=r"format 2, written by allyouneed .*; this version reads 1: upgrade"
    ):
        read_manifest(published)


@pytest.mark.parametrize(
    "name",
    [
        "../secret",
        "/etc/passwd",
        "a/../../secret",
        "a//b",
        "./weights",
        "",
        ".",
        "a\0b",
        "a\nb",
        "\ud800",
        "x" * 5000,
    ],
)
def test_names_that_lead_out_of_the_directory_are_refused(published: Path, name: str) -> None:
    (published.parent / "secret").write_bytes(b"secret")
    entry = {"size": 6, "sha256": hashlib.sha256(b"secret").hexdigest()}
    rewrite_manifest(published, lambda manifest: manifest["files"].update({name: entry}))
    with pytest.raises(ModelError):
        read_manifest(published)


@pytest.mark.parametrize(
    "change",
    [
        lambda manifest: manifest.pop("kind"),
        lambda manifest: manifest.update(kind=3),
        lambda manifest: manifest.pop("files"),
        lambda manifest: manifest.update(files=["weights"]),
        lambda manifest: manifest["files"].update(weights=None),
        lambda manifest: manifest["files"]["weights"].update(sha256=1),
        lambda manifest: manifest["files"]["weights"].update(size="5120"),
    ],
)
def test_a_malformed_manifest_is_refused_though_its_seal_is_right(published: Path, change: Any) -> None:
    rewrite_manifest(published, change)
    with pytest.raises(ModelError, match=f"{MANIFEST}: is damaged"):
        read_manifest(published)


@pytest.mark.parametrize(
    "content", [b"", b"null", b"[]", b"[" * 100_000, b"\xff\xfe", b'{"format_version": 1}']
)
def test_what_is_no_manifest_is_refused(published: Path, content: bytes) -> None:
    (published / MANIFEST).write_bytes(content)
    with pytest.raises(ModelError, match="is damaged"):
        read_manifest(published)


def test_links_are_refused_even_to_equal_files(published: Path) -> None:
    (published / "weights").rename(published.parent / "elsewhere")
    (published / "weights").symlink_to(published.parent / "elsewhere")
    (published / "tokenizers").rename(published.parent / "folder")
    (published / "tokenizers").symlink_to(published.parent / "folder")
    with pytest.raises(ModelError) as caught:
        read_manifest(published)
    assert len(caught.value.messages) == 2


def test_a_link_to_a_whole_directory_may_be_read(published: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(published)
    assert read_manifest(tmp_path / "link") == read_manifest(published)


def test_a_pipe_in_place_of_a_file_does_not_hang(published: Path) -> None:
    for name in ("weights", MANIFEST):
        (published / name).unlink()
        os.mkfifo(published / name)
        with pytest.raises(ModelError):
            read_manifest(published)


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
import os, sys; from pathlib import Path; from allyouneed.publish import publish_directory
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


def test_an_empty_directory_may_be_the_target(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "model").mkdir()
    monkeypatch.chdir(tmp_path / "model")
    with publish_directory(Path(), "model") as folder:
        (folder / "weights").write_bytes(WEIGHTS)
    assert read_manifest(tmp_path / "model")["kind"] == "model"


def test_missing_parents_are_made(tmp_path: Path) -> None:
    with publish_directory(tmp_path / "a" / "b" / "model", "model"):
        pass
    assert read_manifest(tmp_path / "a" / "b" / "model")["files"] == {}


def test_a_full_disk_is_told_with_the_free_space_and_leaves_nothing(tmp_path: Path) -> None:
    """A limit on the size of files stands for the full disk: the same call fails at the same place."""
    code = """
import resource, sys; from pathlib import Path
from allyouneed.errors import DiskError
from allyouneed.publish import publish_directory, write_text
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


def test_a_directory_that_is_deleted_is_whole_or_absent_even_where_it_cannot_be_deleted(
    published: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(path: Path) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("shutil.rmtree", interrupt)
        with pytest.raises(KeyboardInterrupt):
            remove_directory(published)
    assert names_in(published.parent) == [f"model.tmp-{os.getpid()}"]


def test_a_deleted_directory_leaves_nothing_and_an_absent_one_is_a_disk_error(published: Path) -> None:
    remove_directory(published)
    assert names_in(published.parent) == []
    with pytest.raises(DiskError, match=f"{published}: No such file or directory"):
        remove_directory(published)


def test_too_little_room_is_told_with_what_is_needed_and_what_is_free(tmp_path: Path) -> None:
    require_space(tmp_path / "absent" / "run", 1)
    with pytest.raises(DiskError, match=r"run: needs 1,000,000,000,000,000,000 bytes; [\d,]+ bytes are free"):
        require_space(tmp_path / "absent" / "run", 10**18)


def test_a_missing_permission_is_a_disk_error_without_talk_of_space(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with (
        pytest.raises(DiskError, match=r"file.*: Not a directory$"),
        publish_directory(tmp_path / "file" / "model", "model"),
    ):
        pytest.fail("the block must not run")


def test_the_end_of_a_pipe_is_no_disk_error(tmp_path: Path) -> None:
    with pytest.raises(BrokenPipeError), publish_directory(tmp_path / "model", "model"):
        raise BrokenPipeError


def test_a_text_is_replaced_at_one_stroke(tmp_path: Path) -> None:
    path = tmp_path / "latest"
    write_text(path, "step-1\n")
    write_text(path, "größe\n")
    assert path.read_bytes() == "größe\n".encode()
    assert names_in(tmp_path) == ["latest"]


@pytest.mark.parametrize("can_exchange", [True, False])
def test_a_directory_is_replaced_by_one_that_is_complete(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, can_exchange: bool
) -> None:
    if not can_exchange:
        monkeypatch.setattr("allyouneed.publish.ctypes.CDLL", lambda *_, **__: object())
    target = tmp_path / "target"
    for content in (b"old", b"new"):
        with publish_directory(target, "model", replace=True) as aside:
            (aside / "file").write_bytes(content)
            assert content == b"old" or (target / "file").read_bytes() == b"old"
    read_manifest(target, "model")
    assert (target / "file").read_bytes() == b"new"
    assert list(tmp_path.iterdir()) == [target]


def test_a_file_that_cannot_be_written_is_named_as_it_was_given(tmp_path: Path) -> None:
    path = tmp_path / "nowhere" / "page.html"
    with pytest.raises(DiskError) as raised:
        write_text(path, "x")
    assert str(raised.value) == f"{path}: No such file or directory"
