"""The paper's claims on one screen: each with a mark, our figures in a sentence, and a small plot."""

import html
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from allyouneed.lab.paper.pages.results_table import VERDICTS, Cell, ResultLine, ResultsTable

Mark = str
"""A verdict of `VERDICTS`, or PARTLY."""
PARTLY: Final = "partly"
MARKS: Final = {**VERDICTS, PARTLY: ("◐", "In part as the paper, in part not, or not told apart")}
_CLASSES = {"as the paper": "good", "not as the paper": "bad"}
_WIDTH, _HEIGHT, _MARGIN = 120, 34, 5
_LOGARITHMIC_FROM = 20
"""Ratio of the largest to the smallest value from which a plot is logarithmic."""


@dataclass(frozen=True)
class Claim:
    """A claim of the paper, and where our tables show whether it holds."""

    place: str
    text: str
    experiment: str
    column: str
    """Title of the column that is told and drawn."""
    rows: Mapping[str, str]
    """Row -> its name in the sentence, in the order of the plot."""
    rule: "Rule"


Lines = Sequence[tuple[ResultLine, Cell]]
"""The rows of a claim, and their cells in its column."""
Rule = Callable[[ResultsTable, Lines], Mark]


def as_tested(table: ResultsTable, lines: Lines) -> Mark:
    """What the tests of all figures say of the paper's differences between the rows and their baselines."""
    of_rows = [[verdict for cell in line.cells for verdict in cell.verdicts] for line, _ in lines]
    return _together([verdicts for verdicts in of_rows if verdicts])


def _together(of_rows: Sequence[Sequence[str]]) -> Mark:
    """One mark for the verdicts of several rows; it is that of the paper if each row agrees in a figure."""
    found = {verdict for verdicts in of_rows for verdict in verdicts}
    if "as the paper" not in found:
        return next((name for name in ("not as the paper", "not told apart") if name in found), "not tested")
    agree = all("as the paper" in verdicts for verdicts in of_rows) and "not as the paper" not in found
    return "as the paper" if agree else PARTLY


def close(tolerance: float) -> Rule:
    """The figures are the paper's, up to a share of them, or of 1 if they are smaller."""

    def rule(table: ResultsTable, lines: Lines) -> Mark:
        pairs = [(number(cell.ours), number(cell.paper)) for _, cell in lines if cell.paper]
        near = [ours == paper or abs(ours - paper) <= tolerance * max(abs(paper), 1) for ours, paper in pairs]
        return "as the paper" if all(near) else PARTLY if any(near) else "not as the paper"

    return rule


def beside_first(*, higher: bool) -> Rule:
    """The paper has no figures, but says that the first row is the better one; tests show it."""

    def rule(table: ResultsTable, lines: Lines) -> Mark:
        first = number(lines[0][1].ours)
        return _together(
            [
                [_decided(verdict, (first > number(cell.ours)) == higher) for verdict in cell.verdicts]
                for _, cell in lines[1:]
            ]
        )

    return rule


def _decided(verdict: str, as_said: bool) -> str:
    if verdict != "differs":
        return verdict
    return "as the paper" if as_said else "not as the paper"


def untested(table: ResultsTable, lines: Lines) -> Mark:
    """Shown by one seed, or without a figure of the paper: the reader sees the figures."""
    return "not tested"


CLAIMS: Final = (
    Claim(
        *("Table 1", "A self-attention layer costs n²·d operations, a recurrent or convolutional one n·d²"),
        *("table1", "exponent of n, FLOPs"),
        {"self_attention": "self-attention", "recurrent": "recurrent", "convolutional": "convolutional"},
        close(0.05),
    ),
    Claim(
        *("Table 1", "Any two of 64 positions are 1 step apart in self-attention, 64 in a recurrent layer"),
        *("table1", "path"),
        {"self_attention": "self-attention", "dilated": "dilated", "restricted": "restricted"}
        | {"convolutional": "convolutional", "recurrent": "recurrent"},
        close(0.0),
    ),
    Claim(
        *("4", "Short paths make distant dependencies easier to learn"),
        *("paths", "back, n = 64"),
        {"self_attention": "self-attention", "restricted": "restricted", "dilated": "dilated"}
        | {"convolutional": "convolutional", "recurrent": "recurrent"},
        beside_first(higher=True),
    ),
    Claim(
        *("3.2.2", "A single head cannot attend to several places at once"),
        *("paths", "joint, n = 8", {"self_attention": "8 heads", "one_head": "1 head"}),
        beside_first(higher=True),
    ),
    Claim(
        *("3.2.1", "Dot products of random vectors have the variance d_k"),
        *("scaling", "variance"),
        {f"random_unscaled_{d_k}": f"d_k {d_k}" for d_k in (4, 16, 64, 256, 1024)},
        close(0.02),
    ),
    Claim(
        *("3.2.1", "With a large d_k, attention fails unless it is scaled or additive"),
        *("scaling", "BLEU"),
        {"scaled_256": "scaled", "additive_256": "additive", "unscaled_256": "unscaled"},
        untested,
    ),
    Claim(
        *("3.5", "PE(pos + k) is a linear function of PE(pos)"),
        *("extrapolation", "error of shift", {"linear": "ours"}),
        close(1e-6),
    ),
    Claim(
        *("3.5", "Sinusoids go on to longer sentences than were trained on, rather than learned positions"),
        *("extrapolation", "perplexity, 41 to 60 tokens"),
        {"sinusoids": "sinusoids", "learned": "learned"},
        beside_first(higher=False),
    ),
    Claim(
        *("Table 2, En-De", "The Transformer is better than its rivals at a fraction of their cost"),
        *("table2", "BLEU"),
        {"transformer_flops": "Transformer", "recurrent_flops": "GNMT", "convolutional_flops": "ConvS2S"}
        | {"bytenet_flops": "ByteNet", "experts_flops": "MoE"},
        as_tested,
    ),
    Claim(
        *("Table 2, En-Fr", "The same from English to French"),
        *("table2-en-fr", "BLEU"),
        {"transformer": "Transformer", "recurrent": "GNMT", "convolutional": "ConvS2S"}
        | {"bytenet": "ByteNet", "experts": "MoE"},
        as_tested,
    ),
    Claim(
        *("Table 3 (A)", "One head is worse than several, and so are too many"),
        *("table3", "BLEU"),
        {"heads_1": "h 1", "heads_4": "4", "base": "8", "heads_16": "16", "heads_32": "32"},
        as_tested,
    ),
    Claim(
        *("Table 3 (B)", "A smaller d_k hurts"),
        *("table3", "BLEU", {"dk_16": "d_k 16", "dk_32": "32", "base": "64"}),
        as_tested,
    ),
    Claim(
        *("Table 3 (C)", "Deeper models are better"),
        *("table3", "BLEU", {"layers_2": "N 2", "layers_4": "4", "base": "6", "layers_8": "8"}),
        as_tested,
    ),
    Claim(
        *("Table 3 (C)", "Wider models are better"),
        *("table3", "BLEU"),
        {"d_model_256": "d_model 256", "d_ff_1024": "d_ff 1024", "base": "base"}
        | {"d_ff_4096": "d_ff 4096", "d_model_1024": "d_model 1024"},
        as_tested,
    ),
    Claim(
        *("Table 3 (D)", "Dropout helps to avoid overfitting"),
        *("table3", "BLEU", {"dropout_00": "0.0", "base": "0.1", "dropout_02": "0.2"}),
        as_tested,
    ),
    Claim(
        *("5.4", "Label smoothing hurts perplexity and helps BLEU"),
        *("table3", "BLEU", {"smoothing_00": "0.0", "base": "0.1", "smoothing_02": "0.2"}),
        as_tested,
    ),
    Claim(
        *("Table 3 (E)", "Learned positions do nearly as well as sinusoids"),
        *("table3", "BLEU", {"base": "sinusoids", "learned_positions": "learned"}),
        as_tested,
    ),
    Claim(
        *("Table 4", "The Transformer learns to parse, and better with silver trees"),
        *("table4", "F1 unconstrained", {"supervised": "gold trees", "other_parser": "silver, too"}),
        as_tested,
    ),
)
"""In the order of the page."""
_FIGURES: Final = {
    "exponent of n, FLOPs": "operations grow with n to the power",
    "path": "longest path",
    "back, n = 64": "% right, 64 tokens back",
    "joint, n = 8": "% right, four of 8 keys asked for at once",
    "perplexity, 41 to 60 tokens": "perplexity at 41 to 60 tokens",
    "error of shift": "largest error",
}
"""Column -> what it is, where its title alone does not tell."""


def number(text: str) -> float:
    """The value of a figure as tables print it: `29.81 ± 0.24`, `13,604`, `7.0e-08`, `∞`."""
    return math.inf if text == "∞" else float(text.partition(" ")[0].replace(",", ""))


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
    lines = (
        "Plots: <b class='line-ours'>ours</b>, <b class='line-paper'>the paper's</b>, each on its own scale"
    )
    yield f'<p class="legend">{lines}. {html.escape("; ".join(legend))}.</p>'


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
    verdicts = [verdict for line, _ in lines for cell in line.cells for verdict in cell.verdicts]
    decided = [f"{verdicts.count(name)} {name}" for name in _CLASSES if name in verdicts]
    counted = f"; of {len(verdicts)} comparisons {', '.join(decided)}" if decided else ""
    figure = _FIGURES.get(claim.column, claim.column)
    return f"{figure}{' (paper)' if '(' in figures else ''}: {figures}{counted}."


def _plot(lines: Lines) -> str:
    """The shape of our figures and of the paper's, as lines over the rows."""
    if len(lines) == 1:
        return ""
    curves = {
        "ours": [number(cell.ours) for _, cell in lines],
        "paper": [number(cell.paper) if cell.paper else math.nan for _, cell in lines],
    }
    drawn = "".join(_curve(name, values) for name, values in curves.items())
    return (
        f'<svg class="spark" viewBox="0 0 {_WIDTH} {_HEIGHT}" width="{_WIDTH}" height="{_HEIGHT}" '
        f'aria-hidden="true">{drawn}</svg>'
    )


def _curve(name: str, values: Sequence[float]) -> str:
    finite = [value for value in values if math.isfinite(value)]
    if not finite:
        return ""
    low, high = min(finite), max(finite)
    scale: Callable[[float], float] = float
    if low > 0 and high / low >= _LOGARITHMIC_FROM:
        low, high, scale = math.log(low), math.log(high), math.log
    points = [
        (
            _MARGIN + place * (_WIDTH - 2 * _MARGIN) / max(len(values) - 1, 1),
            _HEIGHT - _MARGIN - (scale(value) - low) / ((high - low) or 1) * (_HEIGHT - 2 * _MARGIN),
        )
        for place, value in enumerate(values)
        if math.isfinite(value)
    ]
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    dots = "".join(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2.5"/>' for x, y in points)
    return f'<g class="line-{name}"><polyline points="{path}"/>{dots}</g>'
