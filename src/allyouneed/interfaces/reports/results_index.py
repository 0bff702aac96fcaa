"""One page of all tables that `reproduce` has written below a folder."""

import html
import os
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

from allyouneed.errors import DataError, UsageError, printable
from allyouneed.interfaces.reports.html_parts import page
from allyouneed.interfaces.reports.results_page import cost_table, main_table, read_table
from allyouneed.interfaces.reports.results_table import ResultsTable
from allyouneed.storage.publish import disk_errors, write_text

_ORDER = (
    *("table1", "paths", "table2", "table2-en-fr", "table3", "table4", "table4-grammar"),
    *("aop", "scaling", "extrapolation", "variants", "figures"),
)
_TITLE = "Attention Is All You Need: the paper's tables, and ours"
_TITLE_IN_HTML = html.escape(_TITLE)


def write_index(folder: Path) -> Path:
    """Write `index.html`, which shows the tables of the pages in a folder and in the folders in it.

    Raises:
        UsageError: There is an `index.html` of another kind.
        DataError: There is no page of results, or one is damaged.
        DiskError: A file cannot be read or written.
    """
    index = folder / "index.html"
    with disk_errors(folder):
        files = [file for file in folder.glob("*.html") if file != index] + [*folder.glob("*/results.html")]
        texts = {file: file.read_bytes().decode(errors="replace") for file in sorted(files) if file.is_file()}
        if index.is_file() and _TITLE_IN_HTML not in index.read_bytes().decode(errors="replace"):
            raise UsageError(f"{index}: is another page; move it, or name another folder", settings=["out"])
    found = {file: table for file, text in texts.items() if (table := _table(file, text))}
    if not found:
        raise DataError(f"{folder}: has no page that `reproduce` has written; run an experiment first")
    tables = sorted(found.items(), key=lambda entry: _place(entry[1]))
    body = [
        f"<h1>{_TITLE_IN_HTML}</h1>",
        *(part for file, table in tables for part in _section(file, table, folder)),
    ]
    write_text(index, page(_TITLE, body))
    return index


def _table(file: Path, text: str) -> ResultsTable | None:
    """The table of a page; None if it is not a page of results.

    Raises:
        DataError: The table is damaged.
    """
    try:
        table = read_table(text)
        if table:
            list(main_table(table))
            list(cost_table(table))
            _place(table)
    except (ValueError, TypeError, KeyError, AttributeError, IndexError, RecursionError):
        raise DataError(
            f"{file}: is damaged, or was written by another version; run its experiment again, or remove it"
        ) from None
    return table


def _place(table: ResultsTable) -> tuple[int, str]:
    place = _ORDER.index(table.experiment) if table.experiment in _ORDER else len(_ORDER)
    return place, " ".join(table.facts)


def _section(file: Path, table: ResultsTable, folder: Path) -> Iterator[str]:
    """A table, its facts, how many verdicts of each kind it has, and a link to its page."""
    link = quote(os.fsencode(file.relative_to(folder)))
    name = file.resolve().parent.name if file.name == "results.html" else file.stem
    counts = [f"{title.lower()}: {len(items)}" for title, items in table.conclusions.items()]
    yield f"<h2>{html.escape(table.title)}</h2>"
    facts = html.escape(f"{printable(name)}: {', '.join(table.facts)}")
    yield f'<p class="facts">{facts}. <a href="{link}">Plots, cost, method</a></p>'
    yield from main_table(table)
    if costs := [*cost_table(table)]:
        yield "<details open><summary>Cost, processor and date of every row</summary>"
        yield from costs
        yield "</details>"
    if counts:
        yield f"<p>{html.escape('; '.join(counts))}.</p>"
