"""An index of all tables that `reproduce` has written below a folder: the verdict of each, and its page."""

import html
import os
from itertools import groupby
from pathlib import Path
from urllib.parse import quote

from allyouneed.errors import DataError, UsageError, printable
from allyouneed.explorer.html_parts import page, prose
from allyouneed.lab.paper.pages.results_page import read_table
from allyouneed.lab.paper.pages.results_table import ResultsTable
from allyouneed.storage.publish import disk_errors, write_text

_ORDER = (
    *("table1", "paths", "table2", "table2-en-fr", "table3", "table4", "table4-grammar"),
    *("aop", "scaling", "extrapolation", "variants", "figures"),
)
_TITLE = "Attention Is All You Need: the paper's tables, and ours"
_TITLE_IN_HTML = html.escape(_TITLE)


def write_index(folder: Path) -> Path:
    """Write `index.html`, which lists the pages in a folder and in the folders in it by experiment.

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
    found = [entry for file, text in texts.items() if (entry := _entry(file, text, folder))]
    if not found:
        raise DataError(f"{folder}: has no page that `reproduce` has written; run an experiment first")
    body = [f"<h1>{_TITLE_IN_HTML}</h1>"]
    for (_, title), entries in groupby(sorted(found), key=lambda entry: entry[0]):
        body += [f"<h2>{title}</h2>", *(text for _, _, text in entries)]
    write_text(index, page(_TITLE, body))
    return index


def _entry(file: Path, text: str, folder: Path) -> tuple[tuple[int, str], str, str] | None:
    """The place and title of a page's experiment, the page's facts, and its entry; None for other pages.

    Raises:
        DataError: The table is damaged.
    """
    try:
        table = read_table(text)
        return (_place(table), " ".join(table.facts), _shown(file, table, folder)) if table else None
    except (ValueError, TypeError, KeyError, AttributeError, IndexError, RecursionError):
        raise DataError(
            f"{file}: is damaged, or was written by another version; run its experiment again, or remove it"
        ) from None


def _place(table: ResultsTable) -> tuple[int, str]:
    place = _ORDER.index(table.experiment) if table.experiment in _ORDER else len(_ORDER)
    return place, html.escape(table.title)


def _shown(file: Path, table: ResultsTable, folder: Path) -> str:
    """The verdict of a page, a link to it, and its facts."""
    link = quote(os.fsencode(file.relative_to(folder)))
    name = file.resolve().parent.name if file.name == "results.html" else file.stem
    facts = html.escape(", ".join(table.facts))
    return (
        f'<p>{prose(table.verdict)}</p><p class="facts"><a href="{link}">{html.escape(printable(name))}</a>: '
        f"{facts}</p>"
    )
