"""The paper's claims on one screen: each with a mark, our figures in a sentence, and a small plot."""

import html
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from allyouneed.lab.paper.pages.claims import CLAIMS, PARTLY, Claim, Lines, Mark, number
from allyouneed.lab.paper.pages.results_table import VERDICTS, ResultsTable

MARKS: Final[Mapping[Mark, tuple[str, str]]] = {
    **{str(verdict): told for verdict, told in VERDICTS.items()},
    PARTLY: ("◐", "In part as the paper, in part not, or not told apart"),
}
_CLASSES = {"as the paper": "good", "not as the paper": "bad"}
_FIGURES: Final = {
    "exponent of n, FLOPs": "operations grow with n to the power",
    "path": "longest path",
    "back, n = 64": "% right, 64 tokens back",
    "joint, n = 8": "% right, four of 8 keys asked for at once",
    "perplexity, 41 to 60 tokens": "perplexity at 41 to 60 tokens",
    "error of shift": "largest error",
}
"""Column -> what it is, where its title alone does not tell."""
_WIDTH, _HEIGHT, _MARGIN = 120, 34, 5
_LOGARITHMIC_FROM = 20
"""Ratio of the largest to the smallest value from which a plot is logarithmic."""


def claims_table(tables: Mapping[str, ResultsTable]) -> Iterator[str]:
    """A row for each claim that the tables speak of, whose place links to the page.

    Args:
        tables: Link to a page -> its table. Of several of one experiment, that with the most seeds counts.
    """
    rows = [row for claim in CLAIMS if (row := _row(claim, tables))]
    if not rows:
        return
    used = {mark for mark, _ in rows}
    legend = (f"{sign} {title.lower()}" for mark, (sign, title) in MARKS.items() if mark in used)
    yield '<table class="claims"><tbody>'
    yield from (row for _, row in rows)
    yield "</tbody></table>"
    told = (
        "<b class='line-ours'>ours</b>, <b class='line-paper'>the paper's</b>, their highest points aligned"
    )
    yield f'<p class="legend">Plots: {told}. {html.escape("; ".join(legend))}.</p>'


def _row(claim: Claim, tables: Mapping[str, ResultsTable]) -> tuple[Mark, str] | None:
    found = [(link, table, lines) for link, table in tables.items() if (lines := _lines(claim, table))]
    if not found:
        return None
    link, table, lines = max(found, key=lambda each: sum(line.num_seeds for line, _ in each[2]))
    mark = claim.rule(table, lines)
    sign, title = MARKS[mark]
    return mark, (
        f'<tr><td><abbr class="mark {_CLASSES.get(mark, "")}" title="{html.escape(title)}">{sign}</abbr></td>'
        f'<th scope="row"><a href="{link}">{html.escape(claim.place)}</a></th>'
        f'<td><span class="name">{html.escape(claim.text)}</span>'
        f'<span class="what">{html.escape(sentence(claim, lines))}</span></td>'
        f"<td>{_plot(lines)}</td></tr>"
    )


def _lines(claim: Claim, table: ResultsTable) -> Lines:
    """The rows of a claim in a table; none if one of them, or its figure, is missing."""
    if table.experiment != claim.experiment:
        return []
    cells = {
        line.name: (line, cell)
        for line in table.lines
        for column, cell in zip(table.columns, line.cells, strict=True)
        if column.title == claim.column
    }
    found = [cells[name] for name in claim.rows if name in cells]
    return found if len(found) == len(claim.rows) and all(cell.ours for _, cell in found) else []


def sentence(claim: Claim, lines: Lines) -> str:
    """Our figures of a claim, the paper's in parentheses, and how many comparisons are decided."""
    figures = ", ".join(
        " ".join([name, cell.ours.partition(" ")[0], *([f"({cell.paper})"] if cell.paper else [])])
        for name, (_, cell) in zip(claim.rows.values(), lines, strict=True)
    )
    verdicts = [verdict for _, cell in lines for verdict in cell.verdicts]
    decided = [f"{verdicts.count(name)} {name}" for name in _CLASSES if name in verdicts]
    counted = f"; of {len(verdicts)} comparisons {', '.join(decided)}" if decided else ""
    figure = _FIGURES.get(claim.column, claim.column)
    return f"{figure}{' (paper)' if '(' in figures else ''}: {figures}{counted}."


def _plot(lines: Lines) -> str:
    """Our figures and the paper's over the rows, on one scale; the highest points are aligned."""
    if len(lines) == 1:
        return ""
    ours = [number(cell.ours) for _, cell in lines]
    paper = [number(cell.paper) if cell.paper else math.nan for _, cell in lines]
    curves = {name: _scaled(values) for name, values in (("ours", ours), ("paper", paper))}
    span = -min(drop for curve in curves.values() for _, drop in curve) or 1
    drawn = "".join(_curve(name, curve, len(lines), span) for name, curve in curves.items() if curve)
    return (
        f'<svg class="spark" viewBox="0 0 {_WIDTH} {_HEIGHT}" width="{_WIDTH}" height="{_HEIGHT}" '
        f'aria-hidden="true">{drawn}</svg>'
    )


def _scaled(values: Sequence[float]) -> list[tuple[int, float]]:
    """The places of the finite values, and how far each is below the highest: 0 or less."""
    finite = [(place, value) for place, value in enumerate(values) if math.isfinite(value)]
    high = max((value for _, value in finite), default=0.0)
    low = min((value for _, value in finite), default=0.0)
    if low > 0 and high / low >= _LOGARITHMIC_FROM:
        return [(place, math.log(value / high)) for place, value in finite]
    return [(place, value - high) for place, value in finite]


def _curve(name: str, curve: Sequence[tuple[int, float]], num_places: int, span: float) -> str:
    points = [
        (
            _MARGIN + place * (_WIDTH - 2 * _MARGIN) / (num_places - 1),
            _MARGIN - drop / span * (_HEIGHT - 2 * _MARGIN),
        )
        for place, drop in curve
    ]
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    dots = "".join(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2.5"/>' for x, y in points)
    return f'<g class="line-{name}"><polyline points="{path}"/>{dots}</g>'
