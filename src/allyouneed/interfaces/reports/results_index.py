"""One page of all tables that `reproduce` has written below a folder."""

import html
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

from allyouneed.errors import DataError
from allyouneed.interfaces.reports.html_parts import page
from allyouneed.interfaces.reports.results_page import main_table, read_table
from allyouneed.interfaces.reports.results_table import ResultsTable
from allyouneed.storage.publish import disk_errors, write_text

_ORDER = ("table1", "table2", "table3", "table4", "aop", "scaling", "extrapolation", "variants", "figures")
_TITLE = "Attention Is All You Need: the paper's tables, and ours"


def write_index(folder: Path) -> Path:
    """Write `index.html`, which shows the tables of the pages in a folder and in the folders in it.

    Raises:
        DataError: There is no page of results.
        DiskError: A file cannot be read or written.
    """
    with disk_errors(folder):
        files = [*folder.glob("*.html"), *folder.glob("*/results.html")]
        texts = {file: file.read_bytes().decode(errors="replace") for file in sorted(files)}
    found = {file: table for file, text in texts.items() if (table := read_table(text))}
    if not found:
        raise DataError(f"{folder}: has no page that `reproduce` has written; run an experiment first")
    tables = sorted(found.items(), key=lambda entry: _place(entry[1]))
    body = [f"<h1>{_TITLE}</h1>", *(part for file, table in tables for part in _section(file, table, folder))]
    index = folder / "index.html"
    write_text(index, page(_TITLE, body))
    return index


def _place(table: ResultsTable) -> tuple[int, str]:
    place = _ORDER.index(table.experiment) if table.experiment in _ORDER else len(_ORDER)
    return place, " ".join(table.facts)


def _section(file: Path, table: ResultsTable, folder: Path) -> Iterator[str]:
    """A table, its facts, how many verdicts of each kind it has, and a link to its page."""
    link = quote(file.relative_to(folder).as_posix())
    name = file.parent.name if file.name == "results.html" else file.stem
    counts = [f"{title.lower()}: {len(items)}" for title, items in table.conclusions.items()]
    yield f"<h2>{html.escape(table.title)}</h2>"
    facts = html.escape(f"{name}: {', '.join(table.facts)}")
    yield f'<p class="facts">{facts}. <a href="{link}">Plots, cost, method</a></p>'
    yield from main_table(table)
    if counts:
        yield f"<p>{html.escape('; '.join(counts))}.</p>"
