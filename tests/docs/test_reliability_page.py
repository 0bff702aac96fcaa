"""Every test that the page on reliability names is there, and the page names every test of reliability."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "tests" / "reliability"
_NAME = re.compile(r"`(?:([\w/]+\.py)::)?(test_\w+)`")
_FUNCTION = re.compile(r"^def (test_\w+)", re.MULTILINE)


def functions_of(file: Path) -> set[str]:
    return set(_FUNCTION.findall(file.read_bytes().decode()))


def named_tests() -> set[tuple[Path, str]]:
    """File and function, the file being that named last where a function stands alone."""
    named, file = set(), Path()
    for path, function in _NAME.findall((ROOT / "docs" / "reliability.md").read_bytes().decode()):
        if path:
            file = ROOT / path if "/" in path else FOLDER / path
        named.add((file, function))
    return named


def test_every_test_on_the_page_exists() -> None:
    assert len(named_tests()) > 20
    assert [(file, name) for file, name in sorted(named_tests()) if name not in functions_of(file)] == []


def test_every_test_of_reliability_is_on_the_page() -> None:
    there = {(file, name) for file in FOLDER.glob("test_*.py") for name in functions_of(file)}
    assert sorted(there - named_tests()) == []
