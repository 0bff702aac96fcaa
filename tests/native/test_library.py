"""The library is compiled once, found again, and done without where it cannot be."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from allyouneed.native.library import available, library, library_for
from allyouneed.native.linear import PackedLinear


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty cache; the library is looked for anew, here and after the test."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    library_for.cache_clear()
    yield tmp_path / "cache" / "allyouneed"
    library_for.cache_clear()


def compiler(folder: Path, script: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let `cc` be this shell script, and the only compiler; it finds the true one by its path."""
    folder.mkdir()
    (folder / "cc").write_text(f"#!/bin/sh\nPATH={os.environ['PATH']}\n{script}\n")
    (folder / "cc").chmod(0o755)
    monkeypatch.setenv("PATH", str(folder))


def test_it_is_compiled_once_and_found_again(cache: Path) -> None:
    assert library() is not None
    [file] = cache.iterdir()
    written = file.stat().st_mtime_ns
    library_for.cache_clear()
    assert library() is not None
    assert file.stat().st_mtime_ns == written


def test_a_compiler_without_openmp_will_do(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiler(tmp_path / "bin", 'case "$*" in *-fopenmp*) exit 1 ;; esac\nexec cc "$@"', monkeypatch)
    assert library() is not None


def test_without_a_compiler_nothing_is_available(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert library() is None
    assert available() == ()
    with pytest.raises(ValueError, match="no native kernel for float32 on this machine"):
        PackedLinear(torch.zeros(2, 2), None, "float32")


def test_a_compiler_that_fails_is_told_of_and_leaves_nothing(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    compiler(tmp_path / "bin", "exit 1", monkeypatch)
    assert library() is None
    assert "the C kernels are not available, PyTorch computes more slowly" in capsys.readouterr().err
    assert list(cache.iterdir()) == []


def test_a_file_that_is_cut_off_is_made_anew(cache: Path) -> None:
    assert library() is not None
    [file] = cache.iterdir()
    whole = file.stat().st_size
    file.unlink()  # this process has it mapped
    file.write_bytes(b"\x7fELF")
    file.chmod(0o700)
    library_for.cache_clear()
    assert library() is not None
    assert file.stat().st_size == whole


@pytest.mark.parametrize("what", ["folder", "file"])
def test_what_others_can_write_to_is_not_loaded(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    assert library() is not None
    [file] = cache.iterdir()
    (cache if what == "folder" else file).chmod(0o777)
    library_for.cache_clear()
    monkeypatch.setenv("PATH", str(tmp_path))  # so that it cannot be made anew
    assert library() is None


@pytest.mark.parametrize("home", ["relative", "/proc/nothing/here"])
def test_without_a_place_to_keep_it_it_is_made_each_time(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, home: str
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", home)
    monkeypatch.setenv("HOME", "/proc/nothing/here")
    assert library() is not None
    assert list(tmp_path.iterdir()) == []


def test_it_can_be_declined(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ALLYOUNEED_NATIVE", "0")
    assert library() is None


@pytest.mark.parametrize("home", ["relative", ".", "", "missing"])
def test_no_folder_is_made_for_a_home_that_is_none(
    cache: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    home: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", "")
    monkeypatch.setenv("HOME", str(tmp_path / "missing") if home == "missing" else home)
    compiler(tmp_path / "bin", "exit 1", monkeypatch)  # that it is looked for is enough
    assert library() is None
    assert [path.name for path in tmp_path.iterdir()] == ["bin"]
    assert capsys.readouterr().err.count("set XDG_CACHE_HOME to a directory") == 1
