"""Every file that departs from a paper is named where the deviations are listed."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "allyouneed"
_MARK = re.compile(rb"# Deviation: |^ *Deviations( from \w+)?: ", re.MULTILINE)


def test_every_file_with_a_deviation_is_on_the_page_of_the_paper() -> None:
    page = (ROOT / "docs" / "paper.md").read_bytes().decode()
    listed = {*re.findall(r"`([\w/]+\.py)`", page[page.index("## Deviations") :])}
    marked = {
        path.relative_to(PACKAGE).as_posix()
        for path in PACKAGE.rglob("*.py")
        if _MARK.search(path.read_bytes())
    }
    assert len(marked) > 10
    assert sorted(marked - listed) == []
