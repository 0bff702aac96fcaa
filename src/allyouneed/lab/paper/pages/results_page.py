"""The results of `reproduce` as a page with plots, Markdown, CSV and a terminal table; an index of pages."""

import base64
import csv
import html
import io
import json
import os
import statistics
import textwrap
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from itertools import groupby
from pathlib import Path, PurePosixPath
from urllib.parse import quote

from matplotlib.figure import Figure as Picture

from allyouneed.errors import DataError, UsageError, printable
from allyouneed.explorer.html_parts import cards, page, panel, plot, prose, with_contents
from allyouneed.explorer.page import json_in_html
from allyouneed.explorer.text_tables import aligned
from allyouneed.lab.paper.experiment import FAILED, PICTURES, Results, Row
from allyouneed.lab.paper.pages import curves_page
from allyouneed.lab.paper.pages.claims_table import claims_table
from allyouneed.lab.paper.pages.results_table import VERDICTS, Cell, ResultsTable, results_table
from allyouneed.lab.paper.reproduction import EXPERIMENTS
from allyouneed.storage.publish import disk_errors, write_text

_CLASSES = {"as the paper": "good", "not as the paper": "bad", "differs": "new"}
_LABEL_CHARACTERS = 22
"""Length of a line of the label of a row in a plot."""
_DATA = '<script type="application/json" id="table">'


def as_page(results: Results, table: ResultsTable) -> str:
    """The page; it holds the table as JSON, too, which `read_table` reads."""
    experiment = results.experiment
    extra = [*experiment.sections(results)] if experiment.sections else []
    comes_first = experiment.sections_first and extra != []
    costs = [*_cost_table(table)]
    head = [
        f"<h1>{html.escape(table.title)}</h1>",
        f'<p class="verdict">{prose(table.verdict)}</p>',
        f'<p class="facts">{html.escape(", ".join(table.facts))}</p>',
    ]
    body = [
        *((*extra, "<h2>All figures</h2>") if comes_first else ()),
        *main_table(table),
        *(["<h2>Cost</h2>", *costs] if costs else []),
        *(_figure(results, path, picture) for path, picture in pictures(results)),
        *(() if comes_first else _plots(results)),
        *curves_page.sections(results),
        *_conclusions(table),
        *(() if comes_first else extra),
        *_explanations(table),
        "<h2>How this was computed</h2>",
        *(f"<p>{prose(remark)}</p>" for remark in table.remarks),
        f"{_DATA}{json_in_html(asdict(table))}</script>",
    ]
    return page(table.title, [*head, *with_contents(body)])


def read_table(text: str) -> ResultsTable | None:
    """The table of a page that `as_page` has written; None for any other page."""
    _, found, rest = text.partition(_DATA)
    return ResultsTable.of(json.loads(rest.partition("</script>")[0])) if found else None


def main_table(table: ResultsTable) -> Iterator[str]:
    """The figures of all rows, the paper's below ours, and a legend of the marks."""
    lines = [
        (_name(line.name, line.what), [html.escape(str(line.num_seeds)), *map(_cell, line.cells)])
        for line in table.lines
    ]
    yield cards(["row", "seeds", *(column.title for column in table.columns)], lines)
    legend = [
        f'<b class="{_CLASSES.get(verdict, "")}">{mark}</b> {html.escape(title.lower())}'
        for verdict, (mark, title) in VERDICTS.items()
        if mark in table.marks
    ]
    cells = [cell for line in table.lines for cell in line.cells]
    if any(cell.paper for cell in cells):
        legend.insert(0, "below our figures, those of the paper")
    if any("±" in cell.ours for cell in cells):
        legend.insert(0, "± standard deviation over seeds")
    if legend:
        yield f'<p class="legend">{"; ".join(legend)}.</p>'


def _name(name: str, what: str) -> str:
    return f'<span class="name">{html.escape(name)}</span><span class="what">{html.escape(what)}</span>'


def _cell(cell: Cell) -> str:
    marks = "".join(
        f'<abbr class="mark {_CLASSES.get(verdict, "")}" title="{verdict}">{VERDICTS[verdict][0]}</abbr>'
        for verdict in cell.verdicts
    )
    ours = f'<span class="ours">{html.escape(cell.ours)}{marks}</span>' if cell.ours else ""
    paper = f'<span class="paper">paper {html.escape(cell.paper)}</span>' if cell.paper else ""
    return f"<span>{ours}{paper}</span>" if ours or paper else ""


def _cost_table(table: ResultsTable) -> Iterator[str]:
    """The cost of each row, and its dates if they differ between rows."""
    origins = ["dates"] if len({line.dates for line in table.lines}) > 1 else []
    lines = [
        (
            _name(line.name, ""),
            [
                *(html.escape(cost) for _, cost in table.costs_of(line)),
                *(html.escape(line.dates) for _ in origins),
            ],
        )
        for line in table.lines
        if any(line.costs) or (origins and line.dates)
    ]
    if lines:
        yield cards(["row", *table.costs, *origins], lines)
    if table.costs:
        formula = '; "by formula" is time × devices × sustained FLOPS, as the paper estimates them (6.1)'
        told = formula if "by formula" in table.costs else ""
        has_rates = any(column.title == "rate" for column in table.columns)
        chosen = ", of the chosen rate" if has_rates else ""
        counted = f"FLOPs are those of matrix products, counted{told}."
        yield f'<p class="legend">Over all seeds{chosen}. {counted}</p>'


def _conclusions(table: ResultsTable) -> Iterator[str]:
    if table.conclusions:
        yield "<h2>Conclusions</h2>"
    for title, items in table.conclusions.items():
        yield f"<h3>{html.escape(title)}</h3>"
        yield f"<ul>{''.join(f'<li>{prose(item)}</li>' for item in items)}</ul>"


def _explanations(table: ResultsTable) -> Iterator[str]:
    explained = [
        f"<dt>{html.escape(column.title)}</dt><dd>{html.escape(column.explanation)}</dd>"
        for column in table.columns
        if column.explanation
    ]
    if explained:
        yield "<h2>What the figures are</h2>"
        yield f"<dl>{''.join(explained)}</dl>"


def _figure(results: Results, path: PurePosixPath, picture: Mapping[str, str]) -> str:
    """A picture embedded in the page, its caption, and links to its files."""
    svg = base64.b64encode((results.directory / f"{path}.svg").read_bytes()).decode()
    caption = html.escape(picture["caption"])
    links = {"Explore it": path.parent / picture["page"]}
    links |= {form.upper(): path.with_suffix(f".{form}") for form in ("png", "svg", "pdf")}
    files = ", ".join(f'<a href="{quote(str(file))}">{name}</a>' for name, file in links.items())
    return (
        f'<figure><img alt="{caption}" src="data:image/svg+xml;base64,{svg}">'
        f"<figcaption>{caption} {files}</figcaption></figure>"
    )


def _plots(results: Results) -> Iterator[str]:
    """A plot of each judged figure: values by seed, mean, the first baseline in grey, and the paper's."""
    plots = []
    for figure in results.experiment.judged:
        rows = [row for row in results.rows if results.values(row.name, figure)]
        if len(rows) > 1:
            title = results.experiment.figures[figure].title
            plots.append(plot(_panels(results, rows, figure), f"{title} of every row"))
    yield from ["<h2>Every row and seed</h2>", *plots] if plots else ()


def _panels(results: Results, rows: Sequence[Row], figure: str) -> Iterator[Picture]:
    """A panel of our values and, if the first row has one, a panel of the paper's."""
    labels = [textwrap.fill(row.name if row.what == "-" else row.what, _LABEL_CHARACTERS) for row in rows]
    ours = {row.name: results.values(row.name, figure) for row in rows}
    paper = {row.name: [row.paper[figure]] for row in rows if figure in row.paper}
    for whose, values, color in (("ours", ours, "tab:blue"), ("paper", paper, "tab:orange")):
        if rows[0].name not in values:
            continue
        picture, axes = panel(0.9 + 0.34 * len(rows))
        for place, row in enumerate(rows):
            found = values.get(row.name, [])
            axes.plot(found, [place] * len(found), "o", color=color, alpha=0.5, markersize=4)
            if found:
                axes.plot([statistics.fmean(found)], [place], "|", color=color, markersize=14)
            beside = next(iter(row.compared_with(results.rows[0])), row.name)
            if beside in values:
                mean = statistics.fmean(values[beside])
                axes.vlines(mean, place - 0.5, place + 0.5, color="gray", linewidth=0.7)
        axes.set(title=f"{results.experiment.figures[figure].title}, {whose}", ylim=(len(rows) - 0.5, -0.5))
        axes.set_yticks(range(len(rows)), labels, fontsize=8)
        axes.grid(axis="x", alpha=0.3)
        axes.spines[["top", "right"]].set_visible(False)
        yield picture


# Texts


def as_terminal_table(table: ResultsTable) -> Iterator[str]:
    """The table in aligned columns, its marks, the rows that failed, and the verdict."""
    yield from aligned(table_cells(table))
    yield ""
    yield from _marks(table)
    yield from (f"{FAILED}: {why}" for why in table.conclusions.get(FAILED.capitalize(), ()))
    yield f"{table.verdict} Details: results.html"


def as_markdown(results: Results, table: ResultsTable) -> str:
    """The table with conclusions, pictures, legend and remarks."""
    cells = table_cells(table)
    titles, *rows = ("| " + " | ".join(row) + " |" for row in cells)
    lines = [f"# {table.title}", "", table.verdict, "", f"{', '.join(table.facts)}.", ""]
    lines += [titles, "|" + "---|" * len(cells[0]), *rows, ""]
    for title, items in table.conclusions.items():
        lines += [f"{title}: {'; '.join(items)}.", ""]
    for path, picture in pictures(results):
        caption, page = picture["caption"], path.parent / picture["page"]
        lines += [f"![{caption}]({path}.png)", "", f"{caption} [Explore it]({page}).", ""]
    return "\n".join([*lines, *(f"{remark}\n" for remark in (*_legend(table), *table.remarks))])


def as_csv(results: Results) -> str:
    """One line per row and seed, with all figures in full; lists, meant for pictures, are left out."""
    outcomes = [
        {"row": name, "seed": seed} | {k: v for k, v in figures.items() if not isinstance(v, list | dict)}
        for name, of_row in results.outcomes.items()
        for seed, figures in sorted(of_row.items())
    ]
    titles = dict.fromkeys(title for outcome in outcomes for title in outcome)
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, list(titles), lineterminator="\n")
    writer.writeheader()
    writer.writerows(outcomes)
    return text.getvalue()


def pictures(results: Results) -> Iterator[tuple[PurePosixPath, Mapping[str, str]]]:
    """Pictures drawn by rows: path in the experiment's folder, without suffix, and caption and page."""
    for row, of_row in results.outcomes.items():
        for seed, outcome in of_row.items():
            for name, picture in outcome.get(PICTURES, {}).items():
                yield PurePosixPath(row, f"seed-{seed}", name), picture


def table_cells(table: ResultsTable) -> list[list[str]]:
    """Column titles, then a line per computed row: the paper's figures beside ours."""
    titles = ["row", "what", "seeds"]
    for column in table.columns:
        titles += [f"{column.title}, paper", "ours"] if column.in_paper else [column.title]
    lines = [[*titles, *table.costs]]
    for line in table.lines:
        cells = [line.name, line.what, str(line.num_seeds)]
        for column, cell in zip(table.columns, line.cells, strict=True):
            cells += [cell.paper, cell.marked] if column.in_paper else [cell.marked]
        lines.append([*cells, *(cost for _, cost in table.costs_of(line))])
    return lines


def _marks(table: ResultsTable) -> Iterator[str]:
    if table.marks:
        yield f"Marks: {', '.join(f'{mark} {meaning.lower()}' for mark, meaning in table.marks.items())}."


def _legend(table: ResultsTable) -> Iterator[str]:
    """The marks and the figures, explained."""
    yield from _marks(table)
    for column in table.columns:
        if column.explanation:
            yield f"{column.title}: {column.explanation}."


def write_report(results: Results) -> list[Path]:
    """Write `results.md`, `results.csv` and `results.html` into the experiment's folder.

    Raises:
        DiskError: A file cannot be written.
    """
    table, folder = results_table(results), results.directory
    texts = {
        folder / "results.md": as_markdown(results, table),
        folder / "results.csv": as_csv(results),
        folder / "results.html": as_page(results, table),
    }
    for path, text in texts.items():
        write_text(path, text)
    return list(texts)


# The index of the pages in a folder

_ORDER = [*EXPERIMENTS]
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
    tables = {file: table for file, text in texts.items() if (table := _table_of(file, text))}
    if not tables:
        raise DataError(f"{folder}: has no page that `reproduce` has written; run an experiment first")
    found = [_entry(file, table, folder) for file, table in tables.items()]
    body = [*claims_table({_link(file, folder): table for file, table in tables.items()})]
    for (_, title), entries in groupby(sorted(found), key=lambda entry: entry[0]):
        body += [f"<h2>{title}</h2>", *(text for _, _, text in entries)]
    write_text(index, page(_TITLE, [f"<h1>{_TITLE_IN_HTML}</h1>", *body]))
    return index


def _table_of(file: Path, text: str) -> ResultsTable | None:
    """The table of a page; None for other pages.

    Raises:
        DataError: The table is damaged.
    """
    try:
        if (table := read_table(text)) is not None:
            _entry(file, table, file.parent)
            deque(claims_table({"": table}))
        return table
    except (ValueError, TypeError, KeyError, AttributeError, IndexError, RecursionError):
        raise DataError(
            f"{file}: is damaged, or was written by another version; run its experiment again, or remove it"
        ) from None


def _entry(file: Path, table: ResultsTable, folder: Path) -> tuple[tuple[int, str], str, str]:
    """The place and title of a page's experiment, the page's facts, and its entry."""
    place = _ORDER.index(table.experiment) if table.experiment in _ORDER else len(_ORDER)
    return (place, html.escape(table.title)), " ".join(table.facts), _shown(file, table, folder)


def _link(file: Path, folder: Path) -> str:
    return quote(os.fsencode(file.relative_to(folder)))


def _shown(file: Path, table: ResultsTable, folder: Path) -> str:
    """The verdict of a page, a link to it, and its facts."""
    name = file.resolve().parent.name if file.name == "results.html" else file.stem
    facts = html.escape(", ".join(table.facts))
    link = f'<a href="{_link(file, folder)}">{html.escape(printable(name))}</a>'
    return f'<p>{prose(table.verdict)}</p><p class="facts">{link}: {facts}</p>'
