"""What the processes of a cluster do, without one."""

import os
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from allyouneed.errors import DataError, DiskError, UsageError
from allyouneed.hardware import cluster
from allyouneed.hardware.cluster import Bundle, Cluster
from allyouneed.version import __version__

CONTENTS = {"model.safetensors": b"weights", "config.toml": b"settings"}


@pytest.fixture
def bundle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bundle:
    """One that the first machine has not unpacked; in the place of Ray stands what keeps the contents."""
    monkeypatch.setitem(sys.modules, "ray", SimpleNamespace(get=lambda reference: reference))
    monkeypatch.setattr("allyouneed.hardware.cluster.tempfile.tempdir", str(tmp_path))
    return Bundle("digest", tuple((name, len(content)) for name, content in CONTENTS.items()), (CONTENTS,))


def test_another_version_is_told_with_its_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("allyouneed.hardware.cluster.platform.node", lambda: "worker7")
    with pytest.raises(
        UsageError, match=rf"^worker7 has allyouneed {__version__}, this machine 0.0.1; install"
    ):
        cluster._called("0.0.1", len, "text")


def test_an_error_names_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("allyouneed.hardware.cluster.platform.node", lambda: "worker7")

    def fail(item: Any) -> None:
        raise DataError(["line 1: is bad", "line 2: is bad"], label="E-UTF8")

    with pytest.raises(DataError) as caught:
        cluster._called(__version__, fail, "text")
    assert caught.value.messages == ("worker7: line 1: is bad", "worker7: line 2: is bad")
    assert caught.value.label == "E-UTF8"


def test_a_bundle_is_unpacked_once_and_again_if_something_has_cleaned_up(
    bundle: Bundle, tmp_path: Path
) -> None:
    place = bundle.unpacked()
    assert {path.name: path.read_bytes() for path in place.iterdir()} == CONTENTS
    inode = (place / "config.toml").stat().st_ino
    assert bundle.unpacked() == place
    assert (place / "config.toml").stat().st_ino == inode
    (place / "model.safetensors").unlink()
    assert {path.name: path.read_bytes() for path in bundle.unpacked().iterdir()} == CONTENTS
    assert [path.name for path in place.parent.iterdir()] == ["digest"]


def test_an_interrupted_bundle_leaves_no_folder(
    bundle: Bundle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(reference: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setitem(sys.modules, "ray", SimpleNamespace(get=interrupted))
    with pytest.raises(KeyboardInterrupt):
        bundle.unpacked()
    assert [*(tmp_path / f"allyouneed-{os.getuid()}").iterdir()] == []


def test_a_folder_that_others_may_write_to_is_not_used(bundle: Bundle, tmp_path: Path) -> None:
    folder = tmp_path / f"allyouneed-{os.getuid()}"
    folder.mkdir()
    folder.chmod(0o777)
    with pytest.raises(DiskError, match=f"{folder}: others may write to it; remove it"):
        bundle.unpacked()


def test_without_ray_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(UsageError, match=r"needs Ray: pip install 'allyouneed\[ray\]'"):
        Cluster()
