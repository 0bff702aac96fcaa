"""The files of a release: their bill of materials, what must be written before, and, slowly, all of them."""

import hashlib
import importlib.util
import json
import re
import subprocess
import sys
import zipfile
from pathlib import Path
from types import ModuleType

import pytest
import yaml

from allyouneed import __version__

ROOT = Path(__file__).parents[1]
METADATA = b"""\
Metadata-Version: 2.4
Name: allyouneed
Version: 0.1.0
License-Expression: Apache-2.0
Requires-Dist: numpy>=1.26
Provides-Extra: train
Requires-Dist: torch<2.14,>=2.11; extra == 'train'
"""


@pytest.fixture(scope="module")
def release() -> ModuleType:
    """The script that builds a release."""
    specification = importlib.util.spec_from_file_location("release", ROOT / "deploy" / "release.py")
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


def test_version_and_day_are_the_same_everywhere(release: ModuleType) -> None:
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_bytes())
    changelog = (ROOT / "CHANGELOG.md").read_bytes().decode()
    newest = re.search(r"^## (\S+) \((.+)\)$", changelog, re.MULTILINE)
    assert newest is not None
    assert __version__ == str(cited["version"]) == newest[1]
    assert str(cited["date-released"]) == newest[2]


def test_the_version_is_that_of_the_commit_not_of_the_working_tree(
    release: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    version = tmp_path / "src" / "allyouneed" / "version.py"
    version.parent.mkdir(parents=True)
    version.write_bytes((ROOT / "src" / "allyouneed" / "version.py").read_bytes())
    author = ["-c", "user.name=a", "-c", "user.email=a@b.example"]
    for arguments in (["init", "-q"], ["add", "."], [*author, "commit", "-q", "-m", "first"]):
        subprocess.run(["git", *arguments], cwd=tmp_path, check=True)
    version.write_bytes(b'__version__ = "0.8.0"\n')
    monkeypatch.setattr(release, "ROOT", tmp_path)
    assert release.version() == __version__


def test_files_of_another_release_are_not_mixed_in(release: ModuleType, tmp_path: Path) -> None:
    release.require_empty(tmp_path)
    release.require_empty(tmp_path / "new")
    (tmp_path / "old.whl").touch()
    for taken in (tmp_path, tmp_path / "old.whl"):
        with pytest.raises(SystemExit, match=r"is no empty folder; give a new one"):
            release.require_empty(taken)


def test_a_version_without_a_day_in_the_changelog_is_not_released(release: ModuleType) -> None:
    release.require_entry("0.1.0", "# Changelog\n\n## 0.1.0 (2026-11-30)\n")
    for changelog in ("## 0.1.0 (unreleased)\n", "## 0.1.01 (2026-11-30)\n", "### 0.1.0 (2026-11-30)\n"):
        with pytest.raises(SystemExit, match=r"has no entry `## 0\.1\.0 \(YYYY-MM-DD\)`"):
            release.require_entry("0.1.0", changelog)


def test_the_bill_names_files_dependencies_and_what_is_bundled(release: ModuleType) -> None:
    bill = release.bill_of_materials(METADATA, {"b.whl": "2", "a.whl": "1"}, ["b.whl"])
    assert bill["metadata"]["component"]["purl"] == "pkg:pypi/allyouneed@0.1.0"
    found = [(each["type"], each["name"], each.get("scope")) for each in bill["components"]]
    assert found == [
        ("file", "a.whl", None),
        ("file", "b.whl", None),
        ("library", "libgomp", None),
        ("library", "numpy", "required"),
        ("library", "torch", "optional"),
    ]
    assert bill == release.bill_of_materials(METADATA, {"a.whl": "1", "b.whl": "2"}, ["b.whl"])
    alone = release.bill_of_materials(METADATA, {"a.whl": "1"}, [])
    assert alone["serialNumber"] != bill["serialNumber"]
    assert "libgomp" not in json.dumps(alone)


@pytest.mark.release
def test_a_release_has_wheels_for_each_compiler_and_true_sums(tmp_path: Path) -> None:
    dist = tmp_path / "dist"
    subprocess.run([sys.executable, ROOT / "deploy" / "release.py", dist], check=True)
    sums = dict(line.split("  ")[::-1] for line in (dist / "SHA256SUMS").read_bytes().decode().splitlines())
    files = {path.name: path.read_bytes() for path in dist.iterdir() if path.name != "SHA256SUMS"}
    assert sums == {name: hashlib.sha256(content).hexdigest() for name, content in files.items()}
    assert {name for name in files if name.endswith(("-any.whl", ".tar.gz", ".cdx.json"))} == {
        f"allyouneed-{__version__}-py3-none-any.whl",
        f"allyouneed-{__version__}.tar.gz",
        f"allyouneed-{__version__}.bom.cdx.json",
    }
    machines = {62: "x86_64", 183: "aarch64", 12: "arm64"}  # e_machine of ELF, cputype of Mach-O
    has_zig = importlib.util.find_spec("ziglang") is not None
    assert any(name.endswith("_arm64.whl") for name in files) == has_zig
    for wheel in dist.glob("*_*.whl"):
        with zipfile.ZipFile(wheel) as archive:
            libraries = [archive.read(name) for name in archive.namelist() if ".so" in name]
        assert libraries
        for library in libraries:
            place = 18 if library.startswith(b"\x7fELF") else 4
            machine = int.from_bytes(library[place : place + 2], "little")
            assert wheel.name.endswith(f"_{machines[machine]}.whl")
