"""The results of `reproduce` as a table for terminals, Markdown, CSV, and one HTML page with plots."""

import base64
import csv
import html
import io
import statistics
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from matplotlib.figure import Figure

from allyouneed.experiments.comparison import RowComparison, compare, deviation
from allyouneed.experiments.reproduction import FAILED, Results, Row
from allyouneed.interfaces import table1_page
from allyouneed.publish import write_text

SECTIONS: dict[str, Callable[[Results], Iterator[str]]] = {"table1": table1_page.sections}
"""Experiment -> what its page shows besides the table and plots that all have."""

_STYLE = """body{font:15px/1.5 sans-serif;max-width:75em;margin:2em auto;padding:0 1em}
table{border-collapse:collapse}td,th{padding:.2em .7em;text-align:right;border-bottom:1px solid #ddd}
td:first-child,th:first-child,td:nth-child(2),th:nth-child(2){text-align:left}img{max-width:100%}"""


def write_report(results: Results) -> list[Path]:
    """Write `results.md`, `results.csv` and `results.html` into the experiment's folder.

    Raises:
        DiskError: One cannot be written.
    """
    cells = table_of(results)
    texts = {
        "results.md": _markdown(results, cells),
        "results.csv": _csv(results),
        "results.html": _html(results, cells),
    }
    for name, text in texts.items():
        write_text(results.directory / name, text)
    return [results.directory / name for name in texts]


def as_terminal_table(results: Results) -> Iterator[str]:
    """The table in aligned columns, and all that there is to say of it."""
    cells = table_of(results)
    widths = [max(len(row[column]) for row in cells) for column in range(len(cells[0]))]
    for row in cells:
        first, second, *others = (
            cell.ljust(w) if n < 2 else cell.rjust(w)
            for n, (cell, w) in enumerate(zip(row, widths, strict=True))
        )
        yield "  ".join([first, second, *others]).rstrip()
    yield ""
    yield from conclusions(results)
    yield ""
    yield from _remarks(results)


def table_of(results: Results) -> list[list[str]]:
    """Titles, then a line for each row that has been computed: the paper's figures beside ours."""
    figures = [
        name
        for name in results.experiment.figures
        if any(results.values(row.name, name) for row in results.rows)
    ]
    titles = ["row", "what"]
    for figure in figures:
        in_paper = any(figure in row.paper for row in results.rows)
        titles += [f"{figure} paper", f"{figure} ours"] if in_paper else [figure]
    compares = any(results.experiment.figures.values())
    lines = [[*titles, "p (BLEU)", "hours", "FLOPs", "by formula"] if compares else titles]
    for row in _computed(results):
        cells = [row.name, row.what]
        for figure in figures:
            if any(figure in other.paper for other in results.rows):
                cells.append(f"{row.paper[figure]:g}" if figure in row.paper else "")
            cells.append(_mean(results.values(row.name, figure)))
        if all(FAILED in outcome for outcome in results.outcomes[row.name].values()):
            cells[1] += f" ({FAILED})"
        if compares:
            p_values = (comparison.bleu_p_value for comparison in compare(results, row))
            cells += [", ".join(f"{p:.3f}" for p in p_values if p is not None), *_cost(results, row)]
        lines.append(cells)
    return lines


def conclusions(results: Results) -> Iterator[str]:
    """Which of the paper's directions hold, which do not, which cannot be told from noise; what failed."""
    by_verdict: dict[str, list[str]] = {}
    for row in _computed(results):
        for comparison in compare(results, row):
            for figure, verdict in comparison.verdicts.items():
                by_verdict.setdefault(verdict, []).append(_difference(row, figure, comparison))
    titles = {
        "as the paper": "holds",
        "not as the paper": "does not hold",
        "differs": "differs, where the paper has no figure",
        "noise": "cannot be told from noise",
    }
    for verdict, title in titles.items():
        if verdict in by_verdict:
            yield f"{title}: {'; '.join(by_verdict[verdict])}"
    for folder, why in results.failures().items():
        yield f"failed: {why}; to try it again, delete {folder}"


def _difference(row: Row, figure: str, comparison: RowComparison) -> str:
    paper = f", paper {comparison.paper[figure]:+.2f}" if figure in comparison.paper else ""
    beside = f" beside {comparison.beside}" if row.beside else ""
    return f"{row.name} {figure} {comparison.differences[figure]:+.2f}{beside}{paper}"


def _computed(results: Results) -> list[Row]:
    return [row for row in results.rows if row.name in results.outcomes]


def _mean(values: list[float]) -> str:
    if not values:
        return ""
    spread = deviation(values)
    mean = f"{statistics.fmean(values):.4g}"
    return mean if spread is None else f"{mean} ± {spread:.2g} (n={len(values)})"


def _cost(results: Results, row: Row) -> list[str]:
    """Hours and FLOPs of a row, all its seeds together."""
    hours = sum(results.values(row.name, "seconds")) / 3600
    counted, formula = (sum(results.values(row.name, name)) for name in ("matmul_flops", "formula_flops"))
    return [f"{hours:.2f}", f"{counted:.1e}", f"{formula:.1e}"] if hours else ["", "", ""]


def _remarks(results: Results) -> list[str]:
    if not any(results.experiment.figures.values()):
        return list(results.experiment.notes)
    changes = results.scale.changes()
    scaled = f"Scale {results.scale.name}, sized for {results.scale.sized_for}."
    if changes:
        scaled += f" Scaled down from the paper: {'; '.join(changes)}."
    rule = (
        "A difference counts as noise if the paired bootstrap on BLEU has p >= 0.05, or if Student's t test "
        "over seeds has, for which one seed is taken to vary as the other row's; of one seed each only BLEU "
        "can be told from noise. Where the paper has no difference at all, noise is what holds."
    )
    return [scaled, *results.experiment.notes, rule]


def _markdown(results: Results, cells: Sequence[Sequence[str]]) -> str:
    titles, *rows = ("| " + " | ".join(row) + " |" for row in cells)
    lines = [f"# {results.experiment.title}", "", titles, "|" + "---|" * len(cells[0]), *rows, ""]
    lines += [f"- {line}" for line in conclusions(results)]
    return "\n".join([*lines, "", *(f"{remark}\n" for remark in _remarks(results))])


def _csv(results: Results) -> str:
    """One line for each row and seed, all figures in full but lists, which are for pictures."""
    outcomes = [
        {"row": name, "seed": seed} | {k: v for k, v in figures.items() if not isinstance(v, list)}
        for name, of_row in results.outcomes.items()
        for seed, figures in sorted(of_row.items())
    ]
    titles = dict.fromkeys(title for outcome in outcomes for title in outcome)
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, list(titles), lineterminator="\n")
    writer.writeheader()
    writer.writerows(outcomes)
    return text.getvalue()


def _html(results: Results, cells: Sequence[Sequence[str]]) -> str:
    def row(tag: str, texts: Sequence[str]) -> str:
        return "<tr>" + "".join(f"<{tag}>{html.escape(text)}</{tag}>" for text in texts) + "</tr>"

    title = html.escape(results.experiment.title)
    parts = [
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{title}</title><style>{_STYLE}</style>',
        f"<h1>{title}</h1><table>{row('th', cells[0])}",
        *(row("td", line) for line in cells[1:]),
        "</table>",
        "<ul>" + "".join(f"<li>{html.escape(line)}</li>" for line in conclusions(results)) + "</ul>",
        *(f"<p>{html.escape(remark)}</p>" for remark in _remarks(results)),
        *(
            f'<img alt="{html.escape(name)}" src="data:image/png;base64,{data}">'
            for name, data in _plots(results)
        ),
    ]
    if results.experiment.name in SECTIONS:
        parts += SECTIONS[results.experiment.name](results)
    return "\n".join([*parts, "</html>"]) + "\n"


def _plots(results: Results) -> Iterator[tuple[str, str]]:
    """A picture of each figure: every row's values by seed, their mean, and the paper's."""
    for figure, compared in results.experiment.figures.items():
        rows = [row for row in results.rows if results.values(row.name, figure)]
        if compared and len(rows) > 1:
            yield figure, base64.b64encode(_plot(results, rows, figure)).decode()


def _plot(results: Results, rows: Sequence[Row], figure: str) -> bytes:
    picture = Figure((8, 1.2 + 0.32 * len(rows)), layout="constrained")
    first = rows[0]
    ours = {row.name: results.values(row.name, figure) for row in rows}
    shown_paper = figure in first.paper
    panels = picture.subplots(1, 2 if shown_paper else 1, sharey=True, squeeze=False)[0]
    places = range(len(rows))
    for place, row in zip(places, rows, strict=True):
        panels[0].plot(
            ours[row.name], [place] * len(ours[row.name]), "o", color="tab:blue", alpha=0.5, markersize=4
        )
        panels[0].plot([statistics.fmean(ours[row.name])], [place], "|", color="tab:blue", markersize=14)
        if shown_paper and figure in row.paper:
            panels[1].plot([row.paper[figure]], [place], "o", color="tab:orange")
    panels[0].axvline(statistics.fmean(ours[first.name]), color="gray", linewidth=0.7)
    panels[0].set(title=f"{figure}, ours", yticks=list(places), yticklabels=[row.what for row in rows])
    panels[0].invert_yaxis()
    if shown_paper:
        panels[1].axvline(first.paper[figure], color="gray", linewidth=0.7)
        panels[1].set_title(f"{figure}, paper")
    for axes in panels:
        axes.grid(axis="x", alpha=0.3)
    file = io.BytesIO()
    picture.savefig(file, format="png", dpi=110)
    return file.getvalue()
