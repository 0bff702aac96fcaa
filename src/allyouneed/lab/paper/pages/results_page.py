"""The results of `reproduce` as an HTML page with plots, in one file, and all files of results."""

import base64
import html
import json
import statistics
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path, PurePosixPath
from urllib.parse import quote

from matplotlib.figure import Figure

from allyouneed.explorer.html_parts import cards, page, panel, plot, prose
from allyouneed.explorer.page import json_in_html
from allyouneed.lab.paper.experiment import Results, Row
from allyouneed.lab.paper.pages import curves_page, paths_page, scaling_page, table1_page
from allyouneed.lab.paper.pages.figure_legend import figure_title
from allyouneed.lab.paper.pages.results_table import VERDICTS, Cell, ResultsTable, results_table
from allyouneed.lab.paper.pages.results_text import as_csv, as_markdown, pictures
from allyouneed.storage.publish import write_text

SECTIONS: dict[str, Callable[[Results], Iterator[str]]] = {
    "table1": table1_page.sections,
    "scaling": scaling_page.sections,
    "paths": paths_page.sections,
}
"""Experiment -> sections that only its page has."""
_SECTIONS_FIRST = {"table1", "paths"}
"""Experiments whose own sections say more than the table of all figures and come before it."""
_CLASSES = {"as the paper": "good", "not as the paper": "bad", "differs": "new"}
_LABEL_CHARACTERS = 22
"""Length of a line of the label of a row in a plot."""
_DATA = '<script type="application/json" id="table">'


def as_page(results: Results, table: ResultsTable) -> str:
    """The page; it holds the table as JSON, too, which `read_table` reads."""
    extra = [*SECTIONS[table.experiment](results)] if table.experiment in SECTIONS else []
    comes_first = table.experiment in _SECTIONS_FIRST and extra != []
    costs = [*_cost_table(table)]
    body = [
        f"<h1>{html.escape(table.title)}</h1>",
        f'<p class="verdict">{prose(table.verdict)}</p>',
        f'<p class="facts">{html.escape(", ".join(table.facts))}</p>',
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
    return page(table.title, body)


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
    """What each row has cost, and when it was computed if not all rows were at the same time."""
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
        has_rates = any(column.title == figure_title("rate") for column in table.columns)
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
    """A plot of each figure: the values of every row by seed, their mean, and the paper's.

    A grey line marks the row's baseline, the first one if there are several.
    """
    plots = []
    for figure, compared in results.experiment.figures.items():
        rows = [row for row in results.rows if results.values(row.name, figure)]
        if compared and len(rows) > 1:
            plots.append(plot(_panels(results, rows, figure), f"{figure_title(figure)} of every row"))
    yield from ["<h2>Every row and seed</h2>", *plots] if plots else ()


def _panels(results: Results, rows: Sequence[Row], figure: str) -> Iterator[Figure]:
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
        axes.set(title=f"{figure_title(figure)}, {whose}", ylim=(len(rows) - 0.5, -0.5))
        axes.set_yticks(range(len(rows)), labels, fontsize=8)
        axes.grid(axis="x", alpha=0.3)
        axes.spines[["top", "right"]].set_visible(False)
        yield picture


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
