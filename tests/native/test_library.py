"""The library is compiled once, found again, and done without where it cannot be."""

import importlib.util
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from tests.native.with_tensors import PackedLinear

from allyouneed.cli.program import main
from allyouneed.native import compiler as compiler_of_kernels
from allyouneed.native import isa
from allyouneed.native.compiler import compile_library
from allyouneed.native.library import available, found, instructions, library, library_for

PATH = os.environ.get("PATH", "")
REMEMBERING = """#!/bin/sh
for argument; do
    case $previous in -o) out=$argument ;; *) arguments="$arguments $argument" ;; esac
    previous=$argument
done
PATH={path}
kept={folder}/$(echo "$arguments" | cksum | tr " " -)
[ -e "$kept" ] || cc "$@" -o "$kept" || exit
cp "$kept" "$out"
"""
"""The true `cc`, which the tests call with the same sources and options again and again: all but the first
time, it copies what it has made of them.
"""


@pytest.fixture(scope="module")
def remembering(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A path on which `cc` is the one that remembers, where there is one."""
    folder = tmp_path_factory.mktemp("cc")
    if compiler_of_kernels.find("cc") is None:
        return PATH
    script(folder / "cc", REMEMBERING.format(path=PATH, folder=folder))
    return f"{folder}{os.pathsep}{PATH}"


def script(path: Path, text: str) -> None:
    path.write_text(text)
    path.chmod(0o755)


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, remembering: str) -> Iterator[Path]:
    """An empty cache; the library is looked for anew, here and after the test."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for name in ("PATH", "PATH_OF_CC"):
        monkeypatch.setenv(name, remembering)
    monkeypatch.setattr(compiler_of_kernels, "FLAGS", (*compiler_of_kernels.FLAGS, "-O0"))  # in a second
    library_for.cache_clear()
    yield tmp_path / "cache" / "allyouneed"
    library_for.cache_clear()


def compiler(folder: Path, lines: str, monkeypatch: pytest.MonkeyPatch, name: str = "cc") -> None:
    """Let a compiler be this shell script, and the only one; it finds the true `cc` by its path."""
    folder.mkdir()
    script(folder / name, f"#!/bin/sh\nPATH=$PATH_OF_CC\n{lines}\n")
    no_compiler(folder, monkeypatch)


def no_compiler(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let there be no compiler but those in a folder."""
    monkeypatch.setenv("PATH", str(path))
    monkeypatch.setitem(sys.modules, "ziglang", None)


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
    assert found().origin == "compiled by cc, one thread per product"
    library_for.cache_clear()
    assert found().origin == "compiled by cc, one thread per product"


def test_the_library_of_a_preferred_compiler_replaces_that_of_another_and_outlives_it(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiler(tmp_path / "first", 'exec cc "$@"', monkeypatch, "clang")
    origins = [found().origin]
    compiler(tmp_path / "then", 'exec cc "$@"', monkeypatch)
    for folder in ("then", "missing"):
        no_compiler(tmp_path / folder, monkeypatch)
        library_for.cache_clear()
        origins.append(found().origin)
    assert origins == ["compiled by clang", "compiled by cc", "compiled by cc"]


def test_ziglang_compiles_where_no_compiler_is_installed_and_leaves_only_the_library(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if importlib.util.find_spec("ziglang") is None:
        pytest.skip("NOT RUN: needs the package ziglang: pip install 'allyouneed[compiler]'")
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("ALLYOUNEED_ISA", "plain")
    assert found().origin == "compiled by zig, one thread per product"
    y = PackedLinear(torch.ones(5, 8), None, "float32", num_threads=2)(torch.ones(3, 8))
    assert torch.equal(y, torch.full((3, 5), 8.0))
    assert [path.name for path in tmp_path.iterdir()] == ["cache"]
    [file] = cache.iterdir()
    assert file.name.startswith("zig-kernels-plain-")


def test_zig_is_told_of_a_processor_instead_of_an_architecture_and_of_no_openmp(tmp_path: Path) -> None:
    script(tmp_path / "zig", f'#!/bin/sh\necho "$*" >{tmp_path}/arguments\n')
    [neon] = [each for each in isa.ISAS if each.name == "neon_dotprod"]
    compile_library("zig", [str(tmp_path / "zig"), *neon.options], tmp_path / "kernels.so")
    arguments = (tmp_path / "arguments").read_text()
    assert arguments.startswith("-mcpu=generic+dotprod ")
    assert "-march" not in arguments
    assert "-fopenmp" not in arguments


def test_without_a_compiler_nothing_is_available_and_one_line_says_so(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    no_compiler(tmp_path, monkeypatch)
    assert library() is None
    assert available() == ()
    [line] = capsys.readouterr().err.splitlines()
    assert "has no int8, training is slower, too (no C compiler is installed" in line
    assert "run `pip install 'allyouneed[compiler]'` or install gcc" in line
    assert main(["doctor"]) == 0
    assert "kernels none, kernels library no C compiler is installed: run" in capsys.readouterr().out
    with pytest.raises(ValueError, match="no native kernel for float32 on this machine"):
        PackedLinear(torch.zeros(2, 2), None, "float32")


def test_a_compiler_that_fails_gives_way_to_the_next(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A Mac without developer tools has a `cc` that does nothing but fail."""
    compiler(tmp_path / "bin", 'exec cc "$@"', monkeypatch, name="clang")
    script(tmp_path / "bin" / "cc", "#!/bin/sh\nexit 1\n")
    assert library() is not None
    assert found().origin.startswith("compiled by clang")
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("fails", ["exit 1", r"printf 'f\374r\n' >&2; exit 1"], ids=["silent", "Latin-1"])
def test_a_compiler_that_fails_is_told_of_and_leaves_nothing(
    cache: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    fails: str,
) -> None:
    compiler(tmp_path / "bin", fails, monkeypatch)
    assert library() is None
    assert "the C kernels are not available: translation is several times slower" in capsys.readouterr().err
    assert list(cache.iterdir()) == []


@pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
def test_a_file_that_is_cut_off_is_made_anew(cache: Path, share: float) -> None:
    """Loaded, half a file would kill this process (SIGBUS)."""
    assert library() is not None
    [file] = cache.iterdir()
    whole = file.read_bytes()
    file.unlink()  # this process has it mapped
    file.write_bytes(whole[: min(4 + int(share * len(whole)), len(whole) - 1)])
    file.chmod(0o700)
    library_for.cache_clear()
    assert library() is not None
    assert file.stat().st_size == len(whole)


def test_an_instruction_set_that_no_compiler_knows_gives_way_to_the_next_unless_it_is_named(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    fastest, *others = isa.supported()
    if not fastest.options:
        pytest.skip("NOT RUN: needs a processor with an instruction set of an option")
    option = fastest.options[-1]
    used = next(each.name for each in others if option not in each.options)
    compiler(
        tmp_path / "bin",
        f'case " $* " in *" {option} "*) echo unknown >&2; exit 1 ;; esac\nexec cc "$@"',
        monkeypatch,
    )
    assert library() is not None
    assert instructions() == used
    failure = "cc failed: unknown: run `pip install 'allyouneed[compiler]'` or install gcc"
    assert found().origin.endswith(f", for {used} (not for {fastest.name}: {failure})")
    assert main(["doctor"]) == 0
    printed = capsys.readouterr()
    assert f", for {used} (not for {fastest.name}: cc failed: unknown" in printed.out
    assert printed.err == ""
    monkeypatch.setenv(isa.VARIABLE, fastest.name)
    assert library() is None
    assert capsys.readouterr().err.count("cc failed: unknown") == 1


UNLOADABLE = 'while [ "$1" != -o ]; do shift; done\n: >"$2"; exit 0'
"""A compiler whose file cannot be loaded, as if it were in a folder that is mounted noexec."""


@pytest.mark.parametrize("fault", [UNLOADABLE, "exit 1"], ids=["noexec", "full"])
def test_where_the_cache_does_not_serve_it_is_made_in_a_temporary_folder(
    cache: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    fault: str,
) -> None:
    compiler(tmp_path / "bin", f'case "$*" in *"{cache}"*) {fault} ;; esac\nexec cc "$@"', monkeypatch)
    assert library() is not None
    assert list(cache.iterdir()) == []
    [line] = capsys.readouterr().err.splitlines()
    assert "no usable cache directory for the C kernels, so every start compiles them" in line
    assert "set XDG_CACHE_HOME to a directory that you own and only you can write to" in line


def test_the_remedy_for_a_file_that_cannot_be_loaded_is_another_folder(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    compiler(tmp_path / "bin", f"echo >>{tmp_path}/calls\n{UNLOADABLE}", monkeypatch)
    assert library() is None
    assert (tmp_path / "calls").read_bytes() == b"\n\n"  # not once more for every instruction set
    [line] = capsys.readouterr().err.splitlines()
    assert "the C kernels are not available" in line
    assert "set XDG_CACHE_HOME to a directory that you own and only you can write to" in line
    assert "install" not in line


@pytest.mark.parametrize("what", ["folder", "file"])
def test_what_others_can_write_to_is_not_loaded(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    assert library() is not None
    [file] = cache.iterdir()
    (cache if what == "folder" else file).chmod(0o777)
    library_for.cache_clear()
    no_compiler(tmp_path, monkeypatch)  # so that it cannot be made anew
    assert library() is None


@pytest.mark.parametrize("home", ["relative", "/proc/nothing/here"])
def test_without_a_place_to_keep_it_it_is_made_each_time(
    cache: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    home: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", home)
    monkeypatch.setenv("HOME", "/proc/nothing/here")
    assert library() is not None
    assert list(tmp_path.iterdir()) == []
    assert capsys.readouterr().err.count("set XDG_CACHE_HOME to a directory") == 1


def test_it_can_be_declined(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ALLYOUNEED_NATIVE", "0")
    assert found() == (None, "ALLYOUNEED_NATIVE is 0")


@pytest.mark.parametrize("home", ["relative", ".", "", "missing"])
def test_no_folder_is_made_for_a_home_that_is_none(
    cache: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    home: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", "")
    monkeypatch.setenv("HOME", str(tmp_path / "missing") if home == "missing" else home)
    compiler(tmp_path / "bin", "exit 1", monkeypatch)  # that it is looked for is enough
    assert library() is None
    assert [path.name for path in tmp_path.iterdir()] == ["bin"]
