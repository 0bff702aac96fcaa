"""A manifest tells what was published, and every change to it is seen and named."""

import hashlib
import json
import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from allyouneed.errors import ModelError
from allyouneed.storage.publish import (
    MANIFEST,
    read_manifest,
)
from allyouneed.version import __version__

WEIGHTS = bytes(range(256)) * 20


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
    assert "größe.json: is missing or not a regular file" in missing
    assert "weights: has 5 bytes, 5120 expected" in short


def test_a_directory_without_a_manifest_is_refused(published: Path, tmp_path: Path) -> None:
    (published / MANIFEST).unlink()
    with pytest.raises(ModelError, match=f"has no {MANIFEST}"):
        read_manifest(published)
    with pytest.raises(ModelError, match="absent: no such directory"):
        read_manifest(tmp_path / "absent")
    (tmp_path / "file").touch()
    with pytest.raises(ModelError, match="file: is a file; name a directory"):
        read_manifest(tmp_path / "file")


def test_another_kind_is_refused(published: Path) -> None:
    with pytest.raises(ModelError, match="is a model directory; a data directory is needed"):
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
    with pytest.raises(ModelError) as caught:
        read_manifest(published)
    assert caught.value.messages == (
        f"{published / MANIFEST}: names a file that cannot be in the directory: {name}",
    )


def test_the_directory_is_none_of_its_files(published: Path) -> None:
    rewrite_manifest(published, lambda manifest: manifest["files"].update({".": {"size": 6, "sha256": ""}}))
    with pytest.raises(ModelError, match=f"^{published}: is missing or not a regular file"):
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


def test_every_file_that_is_read_has_to_be_listed(published: Path) -> None:
    (published / "notes.txt").write_bytes(b"")
    read_manifest(published, "model", ["weights", "tokenizers/größe.json"])
    with pytest.raises(ModelError) as caught:
        read_manifest(published, "model", ["weights", "notes.txt", "absent"])
    assert caught.value.messages == tuple(
        f"{published / name}: is not listed in {MANIFEST}; take another copy of {published}"
        for name in ("absent", "notes.txt")
    )
