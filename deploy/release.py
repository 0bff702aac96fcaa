"""Builds the files of a release from the last commit, twice, and compares them byte for byte: `make release`.

Then DIST has a pure wheel, a wheel with ready-made kernels for each architecture whose compiler is installed
(Debian's `gcc`, `gcc-aarch64-linux-gnu`; for Apple's Macs the package `ziglang`), the sources, a bill of
materials (CycloneDX), and SHA256SUMS.
"""

import hashlib
import importlib.util
import io
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import uuid
import zipfile
from email.parser import BytesParser
from functools import partial
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement

ROOT = Path(__file__).parents[1]
MACHINES = ("x86_64", "aarch64", "arm64")
BILL, SUMS = "bom.cdx.json", "SHA256SUMS"
_BUNDLED = re.compile(r"libgomp\.so")


def main(dist: Path) -> None:
    """Build everything into a folder that is new or empty."""
    require_empty(dist)
    require_entry(version(), committed("CHANGELOG.md"))
    with tempfile.TemporaryDirectory() as aside:
        first, second = (
            build(Path(aside, name), Path(aside, f"{name}-sources")) for name in ("first", "second")
        )
        if first != second:
            differing = sorted(name for name in {*first, *second} if first.get(name) != second.get(name))
            raise SystemExit(f"two builds differ: {', '.join(differing)}; find out why before you release")
        shutil.copytree(Path(aside, "first"), dist, dirs_exist_ok=True)
    write_bill(dist, first)
    sums = first | {bill.name: sha256_of(bill) for bill in dist.glob(f"*.{BILL}")}
    (dist / SUMS).write_bytes("".join(f"{sums[name]}  {name}\n" for name in sorted(sums)).encode())
    print((dist / SUMS).read_bytes().decode(), end="")


def version() -> str:
    """The version of the last commit, which is what is released."""
    found = re.search(r'__version__ = "(.+)"', committed("src/allyouneed/version.py"))
    assert found
    return found[1]


def committed(name: str) -> str:
    """A file of the last commit, whatever the working tree has."""
    shown = subprocess.run(["git", "show", f"HEAD:{name}"], cwd=ROOT, check=True, capture_output=True)
    return shown.stdout.decode()


def require_empty(dist: Path) -> None:
    """End the program if a folder has files, which would be released unseen."""
    if dist.exists() and not (dist.is_dir() and not any(dist.iterdir())):
        raise SystemExit(f"{dist}: is no empty folder; give a new one")


def require_entry(number: str, changelog: str) -> None:
    """End the program unless the changelog has an entry of the version with its day."""
    if not re.search(rf"^## {re.escape(number)} \(\d{{4}}-\d\d-\d\d\)$", changelog, re.MULTILINE):
        raise SystemExit(
            f"CHANGELOG.md: has no entry `## {number} (YYYY-MM-DD)`; write it before you release"
        )


def build(folder: Path, sources: Path) -> dict[str, str]:
    """Build all files into a folder, from the last commit, whose files go to `sources`; name -> sha256."""
    archive = subprocess.run(["git", "archive", "HEAD"], cwd=ROOT, check=True, capture_output=True).stdout
    with tarfile.open(fileobj=io.BytesIO(archive)) as files:
        files.extractall(sources, filter="data")
    hatchling = partial(_hatchling, folder, sources)
    hatchling("sdist")
    hatchling("wheel")
    for machine in MACHINES:
        if not _has_compiler(machine):
            print(f"no compiler for {machine}: its wheel is left out", file=sys.stderr)
            continue
        hatchling("wheel", HATCH_BUILD_HOOK_ENABLE_CUSTOM="true", ALLYOUNEED_WHEEL_MACHINE=machine)
    return {path.name: sha256_of(path) for path in sorted(folder.iterdir())}


def _has_compiler(machine: str) -> bool:
    if machine == "arm64":  # of Apple's Macs
        return importlib.util.find_spec("ziglang") is not None
    return shutil.which("gcc" if machine == platform.machine() else f"{machine}-linux-gnu-gcc") is not None


def _hatchling(folder: Path, sources: Path, target: str, **environment: str) -> None:
    command = [sys.executable, "-m", "hatchling", "build", "-d", str(folder), "-t", target]
    variables = os.environ | {"HATCH_BUILD_HOOK_ENABLE_CUSTOM": "false"} | environment
    subprocess.run(command, cwd=sources, env=variables, check=True, stdout=subprocess.DEVNULL)


def sha256_of(path: Path) -> str:
    """The sha256 of a file, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def write_bill(dist: Path, sums: dict[str, str]) -> None:
    """Write the bill of materials beside the files that it is of."""
    [pure] = dist.glob("*-any.whl")
    bundled = [path.name for path in dist.glob("*.whl") if _bundles(path)]
    content = bill_of_materials(_metadata(pure), sums, bundled)
    (dist / f"allyouneed-{version()}.{BILL}").write_bytes(json.dumps(content, indent=1).encode() + b"\n")


def _metadata(wheel: Path) -> bytes:
    with zipfile.ZipFile(wheel) as archive:
        [name] = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
        return archive.read(name)


def _bundles(wheel: Path) -> bool:
    with zipfile.ZipFile(wheel) as archive:
        return any(_BUNDLED.search(name) for name in archive.namelist())


def bill_of_materials(metadata: bytes, sums: dict[str, str], bundled: list[str]) -> dict[str, Any]:
    """The files of a release and what they bring or ask for, as CycloneDX 1.6.

    Args:
        metadata: The METADATA of a wheel.
        sums: File name -> sha256.
        bundled: Names of the wheels that bring GCC's OpenMP.
    """
    facts = BytesParser().parsebytes(metadata)
    purl = f"pkg:pypi/allyouneed@{facts['Version']}"
    files = [
        {"type": "file", "name": name, "hashes": [{"alg": "SHA-256", "content": digest}]}
        for name, digest in sorted(sums.items())
    ]
    needs = [_dependency(Requirement(line)) for line in facts.get_all("Requires-Dist", [])]
    openmp = {
        "type": "library",
        "name": "libgomp",
        "description": f"GCC's OpenMP, in {', '.join(sorted(bundled))}",
        "licenses": [{"expression": "GPL-3.0-or-later WITH GCC-exception-3.1"}],
    }
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, purl + ''.join(sorted(sums.values())))}",
        "version": 1,
        "metadata": {
            "component": {
                "type": "library",
                "bom-ref": purl,
                "name": "allyouneed",
                "version": facts["Version"],
                "purl": purl,
                "licenses": [{"license": {"id": facts["License-Expression"]}}],
            }
        },
        "components": [*files, *([openmp] if bundled else []), *needs],
    }


def _dependency(requirement: Requirement) -> dict[str, Any]:
    """A package that the wheel asks for; pip chooses its version, from those that are allowed."""
    return {
        "type": "library",
        "name": requirement.name,
        "purl": f"pkg:pypi/{requirement.name.lower()}",
        "scope": "optional" if requirement.marker else "required",
        "properties": [{"name": "allyouneed:requires", "value": str(requirement)}],
    }


if __name__ == "__main__":
    main(Path(sys.argv[1]))
