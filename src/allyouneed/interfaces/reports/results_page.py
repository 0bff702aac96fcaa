"""The results of `reproduce` as an HTML page with plots, in one file."""

import base64
import html
import json
import math
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import PurePosixPath
from urllib.parse import quote

from matplotlib.figure import Figure

from allyouneed.explorer.page import json_in_html
from allyouneed.interfaces.reports import curves_page, paths_page, scaling_page, table1_page
from allyouneed.interfaces.reports.figure_legend import figure_title
from allyouneed.interfaces.reports.html_parts import cards, page, plot, prose
from allyouneed.interfaces.reports.results_table import VERDICTS, Cell, ResultsTable
from allyouneed.interfaces.reports.results_text import pictures
from allyouneed.paper.experiment import Results, Row

SECTIONS: dict[str, Callable[[Results], Iterator[str]]] = {
    "table1": table1_page.sections,
    "scaling": scaling_page.sections,
    "paths": paths_page.sections,
}
"""Experiment -> extra sections of its page, after the table and plots that all experiments have."""
_DRAWN_BY_SECTION = {"paths"}
"""Experiments whose section comes first, and shows every figure in one picture."""
_CLASSES = {"as the paper": "good", "not as the paper": "bad", "differs": "new"}
_MOST_COLUMNS = 7
_DATA = '<script type="application/json" id="table">'


def as_page(results: Results, table: ResultsTable) -> str:
    """The page; it holds the table as JSON, too, which `read_table` reads."""
    extra = [*SECTIONS[table.experiment](results)] if table.experiment in SECTIONS else []
    drawn = table.experiment in _DRAWN_BY_SECTION
    costs = [*cost_table(table)]
    body = [
        f"<h1>{html.escape(table.title)}</h1>",
        f'<p class="facts">{html.escape(", ".join(table.facts))}</p>',
        *main_table(table),
        *(extra if drawn else ()),
        *(["<h2>Cost</h2>", *costs] if costs else []),
        *(_figure(results, path, picture) for path, picture in pictures(results)),
        *(() if drawn else _plots(results)),
        *curves_page.sections(results),
        *_conclusions(table),
        *(() if drawn else extra),
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
    """The figures of all rows, the paper's below ours, and a legend of the marks.

    More columns than a page is wide are shown as several tables.
    """
    num_parts = max(1, math.ceil(len(table.columns) / _MOST_COLUMNS))
    size = math.ceil(len(table.columns) / num_parts)
    for number in range(num_parts):
        part = slice(number * size, (number + 1) * size)
        lines = [
            (_name(line.name, line.what), [html.escape(str(line.num_seeds)), *map(_cell, line.cells[part])])
            for line in table.lines
        ]
        yield cards(["row", "seeds", *(column.title for column in table.columns[part])], lines)
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


def cost_table(table: ResultsTable) -> Iterator[str]:
    """What each row has cost, on which machine and when."""
    origins = [name for name in ("processor", "dates") if any(getattr(line, name) for line in table.lines)]
    lines = [
        (
            _name(line.name, ""),
            [
                *(html.escape(cost) for _, cost in table.costs_of(line)),
                *(html.escape(getattr(line, name)) for name in origins),
            ],
        )
        for line in table.lines
        if any(line.costs) or line.dates
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
    for figure, compared in results.experiment.figures.items():
        rows = [row for row in results.rows if results.values(row.name, figure)]
        if compared and len(rows) > 1:
            yield f"<h2>{html.escape(figure_title(figure))}</h2>"
            yield plot(_plot(results, rows, figure), f"{figure_title(figure)} of every row")


def _plot(results: Results, rows: Sequence[Row], figure: str) -> Figure:
    picture = Figure((9, 1.2 + 0.32 * len(rows)), layout="constrained")
    ours = {row.name: results.values(row.name, figure) for row in rows}
    means = {name: statistics.fmean(values) for name, values in ours.items()}
    paper = {row.name: row.paper[figure] for row in rows if figure in row.paper}
    shown_paper = rows[0].name in paper
    panels = picture.subplots(1, 2 if shown_paper else 1, sharey=True, squeeze=False)[0]
    for place, row in enumerate(rows):
        values = ours[row.name]
        panels[0].plot(values, [place] * len(values), "o", color="tab:blue", alpha=0.5, markersize=4)
        panels[0].plot([means[row.name]], [place], "|", color="tab:blue", markersize=14)
        if shown_paper and row.name in paper:
            panels[1].plot([paper[row.name]], [place], "o", color="tab:orange")
        beside = next(iter(row.compared_with(results.rows[0])), row.name)
        for axes, of_rows in zip(panels, (means, paper), strict=False):
            if beside in of_rows:
                axes.vlines(of_rows[beside], place - 0.5, place + 0.5, color="gray", linewidth=0.7)
    labels = [row.name if row.what == "-" else row.what for row in rows]
    panels[0].set(title=f"{figure_title(figure)}, ours", yticks=range(len(rows)), yticklabels=labels)
    panels[0].invert_yaxis()
    if shown_paper:
        panels[1].set_title(f"{figure_title(figure)}, paper")
    for axes in panels:
        axes.grid(axis="x", alpha=0.3)
        axes.spines[["top", "right"]].set_visible(False)
    return picture
