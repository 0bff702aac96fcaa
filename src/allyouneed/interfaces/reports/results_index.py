"""One page of all tables that `reproduce` has written below a folder."""

import html
import os
from collections.abc import Iterator
from operator import itemgetter
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
    found = [section for file, text in texts.items() if (section := _placed_section(file, text, folder))]
    if not found:
        raise DataError(f"{folder}: has no page that `reproduce` has written; run an experiment first")
    found.sort(key=itemgetter(0))
    write_text(
        index, page(_TITLE, [f"<h1>{_TITLE_IN_HTML}</h1>", *(part for _, parts in found for part in parts)])
    )
    return index


def _placed_section(file: Path, text: str, folder: Path) -> tuple[tuple[int, str], list[str]] | None:
    """The place of a page among all, and its section; None if it is not a page of results.

    Raises:
        DataError: The table is damaged.
    """
    try:
        table = read_table(text)
        return (_place(table), list(_section(file, table, folder))) if table else None
    except (ValueError, TypeError, KeyError, AttributeError, IndexError, RecursionError):
        raise DataError(
            f"{file}: is damaged, or was written by another version; run its experiment again, or remove it"
        ) from None


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
