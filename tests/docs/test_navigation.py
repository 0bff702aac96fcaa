"""Every page stands in the menu once, and the front page leads to it under the same group."""

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"

Menu = list["str | dict[str, Menu]"]


def pages_of(menu: Menu) -> Iterator[str]:
    for entry in menu:
        if isinstance(entry, str):
            yield entry
        else:
            for below in entry.values():
                yield from pages_of(below)


def groups() -> dict[str, Menu]:
    menu = tomllib.loads((ROOT / "zensical.toml").read_bytes().decode())["project"]["nav"]
    return {name: below for group in menu for name, below in group.items()}


def test_the_menu_has_every_page_once_in_four_groups() -> None:
    assert [*groups()] == ["Start", "Use", "Understand", "Contribute"]
    listed = [page for menu in groups().values() for page in pages_of(menu)]
    assert sorted(listed) == sorted(path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md"))


def test_the_front_page_has_the_groups_of_the_menu() -> None:
    front = (DOCS / "index.md").read_bytes().decode()
    links = {name: re.findall(r"^- \[.*?\]\((.+?)\)", text, re.MULTILINE) for name, text in sections(front)}
    for name, menu in groups().items():
        shown = [page for page in pages_of(menu) if "/" not in page or page.endswith("/index.md")]
        assert sorted(links[name]) == sorted({*shown} - {"index.md"})


def sections(page: str) -> Iterator[tuple[str, str]]:
    for section in page.split("\n## ")[1:]:
        name, _, text = section.partition("\n")
        yield name, text
