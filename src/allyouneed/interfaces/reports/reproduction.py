"""The results of `reproduce` as a terminal table, Markdown, CSV, and an HTML page with plots."""

import base64
import csv
import html
import io
import re
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath

from matplotlib.figure import Figure

from allyouneed.interfaces.reports import scaling_page, table1_page
from allyouneed.interfaces.reports.html_parts import embedded_png, heading, table_row
from allyouneed.interfaces.reports.tables import aligned
from allyouneed.paper.experiment import FAILED, PICTURES, RESULT, Results, Row
from allyouneed.paper.verdicts import (
    TESTS,
    Judgement,
    Verdict,
    are_sentences_drawn,
    control,
    deviation,
    find_test,
    judge,
)
from allyouneed.storage.publish import write_text

SECTIONS: dict[str, Callable[[Results], Iterator[str]]] = {
    "table1": table1_page.sections,
    "scaling": scaling_page.sections,
}
"""Experiment -> extra sections of its page, after the table and plots that all experiments have."""

_STYLE = """body{font:15px/1.5 system-ui,sans-serif;max-width:80em;margin:2em auto;padding:0 1em;color:#222}
.table{overflow-x:auto}table{border-collapse:collapse;font-variant-numeric:tabular-nums}
td,th{padding:.25em .6em;text-align:right;border-bottom:1px solid #ddd;white-space:nowrap}
th{vertical-align:bottom;white-space:normal;border-bottom:2px solid #888}tr:hover td{background:#f3f6fa}
td:first-child,th:first-child,td:nth-child(2),th:nth-child(2){text-align:left}
h2{font-size:1.1em;margin:1.6em 0 .3em}p{max-width:60em}img{max-width:100%;display:block;margin:1em 0}
figure{margin:2em 0}figcaption{color:#555}"""
_TITLES = {
    "bleu": "BLEU",
    "bracket_f1": "bracket F1",
    "f1_unconstrained": "F1 unconstrained",
    "formula_flops": "FLOPs by formula",
    "parameters_millions": "10⁶ parameters",
}
"""Titles of figures whose names alone would read badly."""
_GROUPED_FROM, _BY_POWERS_FROM = 1e4, 1e9
_VERDICTS: Mapping[Verdict, tuple[str, str]] = {
    "as the paper": ("✓", "As the paper"),
    "not as the paper": ("✗", "Not as the paper"),
    "differs": ("≠", "Differs, where the paper has no figure"),
    "not told apart": ("~", "Not told apart"),
    "not tested": ("·", "Not tested (one seed)"),
}
"""Verdict -> its mark in tables, and the title of its list of conclusions."""


def write_report(results: Results) -> list[Path]:
    """Write `results.md`, `results.csv` and `results.html` into the experiment's folder.

    Raises:
        DiskError: A file cannot be written.
    """
    cells, folder = table_of(results), results.directory
    texts = {
        folder / "results.md": _markdown(results, cells),
        folder / "results.csv": _csv(results),
        folder / "results.html": _html(results, cells),
    }
    for path, text in texts.items():
        write_text(path, text)
    return list(texts)


def as_terminal_table(results: Results) -> Iterator[str]:
    """The table in aligned columns, with conclusions and remarks."""
    yield from aligned(table_of(results))
    yield ""
    yield from (f"{title}: {'; '.join(items)}" for title, items in conclusions(results).items())
    yield ""
    yield from _remarks(results)


def table_of(results: Results) -> list[list[str]]:
    """Column titles, then a line per computed row: the paper's figures beside ours."""
    figures = [
        name
        for name in results.experiment.figures
        if any(results.values(row.name, name) for row in results.rows)
    ]
    in_paper = {figure for row in results.rows for figure in row.paper}
    titles = ["row", "what", "seeds"]
    for figure in figures:
        titles += [f"{_title(figure)}, paper", "ours"] if figure in in_paper else [_title(figure)]
    lines, judgements = [[*titles, "hours", "FLOPs", "by formula", "kWh"]], judge(results)
    for row in _computed(results):
        cells = [row.name, row.what, str(len(results.outcomes[row.name]))]
        for figure in figures:
            if figure in in_paper:
                cells.append(f"{row.paper[figure]:g}" if figure in row.paper else "")
            marks = (
                _VERDICTS[found.verdict][0]
                for found in judgements
                if (found.row, found.figure) == (row.name, figure)
            )
            cells.append(" ".join([_mean(results.values(row.name, figure)), *marks]).strip())
        if all(FAILED in outcome for outcome in results.outcomes[row.name].values()):
            cells[1] += f" ({FAILED})"
        lines.append([*cells, *_cost(results, row)])
    titled = [column for column in zip(*lines, strict=True) if len(lines) == 1 or any(column[1:])]
    return [list(line) for line in zip(*titled, strict=True)]


def conclusions(results: Results) -> dict[str, list[str]]:
    """Lists of differences by verdict; then failed rows."""
    found: dict[str, list[str]] = {title: [] for _, title in _VERDICTS.values()}
    named = {row.name for row in results.rows if row.baselines}
    for judgement in judge(results):
        title = _VERDICTS[judgement.verdict][1]
        found[title].append(_difference(judgement, name_baseline=judgement.row in named))
    found["Failed"] = [
        f"{why}; to continue it, delete {folder / RESULT}, to restart it, delete all of that folder"
        for folder, why in results.failures().items()
    ]
    return {title: items for title, items in found.items() if items}


def _title(figure: str) -> str:
    """Title of a figure; `bleu_21_30` is the BLEU of sentences with 21 to 30 tokens."""
    if numbers := re.fullmatch(r"(\w+?)_(\d+)_(\d+)", figure):
        return f"{_title(numbers[1])}, {numbers[2]} to {numbers[3]} tokens"
    return _TITLES.get(figure, figure.replace("_", " "))


def _difference(judgement: Judgement, *, name_baseline: bool) -> str:
    beside = f" beside {judgement.baseline}" if name_baseline else ""
    paper = "" if judgement.paper is None else f", paper {judgement.paper:+.2f}"
    test = find_test(judgement.figure)
    within = f"within {test.margin_in_words}, " if judgement.equivalent and test else ""
    p_value = "" if judgement.p_value is None else f" ({within}p = {judgement.p_value:.2g})"
    return f"{judgement.row}, {_title(judgement.figure)} {judgement.difference:+.2f}{beside}{p_value}{paper}"


def _computed(results: Results) -> list[Row]:
    return [row for row in results.rows if row.name in results.outcomes]


def _mean(values: list[float]) -> str:
    if not values:
        return ""
    mean, spread = statistics.fmean(values), deviation(values)
    form = spread_form = ".1e" if abs(mean) >= _BY_POWERS_FROM else ",.0f"
    if abs(mean) < _GROUPED_FROM:
        form, spread_form = ".4g", ".2g"
    return f"{mean:{form}} ± {spread:{spread_form}}" if spread else f"{mean:{form}}"


def _cost(results: Results, row: Row) -> list[str]:
    """Hours, FLOPs, FLOPs by formula (unless already a figure), and energy of a row, summed over seeds."""
    names = ("seconds", "matmul_flops", "formula_flops", "energy_joules")
    seconds, counted, formula, joules = (sum(results.values(row.name, name)) for name in names)
    if not seconds:
        return [""] * len(names)
    energy = f"{joules / 3.6e6:.3f}" if joules else ""
    by_formula = "" if "formula_flops" in results.experiment.figures else f"{formula:.1e}"
    return [f"{seconds / 3600:.2f}", f"{counted:.1e}", by_formula, energy]


def _remarks(results: Results) -> Iterator[str]:
    """The settings of the models, the experiment's notes, and the rule of comparison."""
    yield from _trained(results)
    yield from results.experiment.notes
    yield from _rule(results)


def _rule(results: Results) -> Iterator[str]:
    """How rows are compared, and the control of the test."""
    judged = [name for name, is_judged in results.experiment.figures.items() if is_judged]
    if not judged:
        return
    marks = ", ".join(f"{mark} {verdict}" for verdict, (mark, _) in _VERDICTS.items())
    on_sentences = [_title(name) for name in judged if are_sentences_drawn(name, results)]
    drawn = f"; test sentences, too, are drawn for {', '.join(on_sentences)}" if on_sentences else ""
    yield (
        f"Marks: {marks}. A row is tested against its baseline if both have two seeds or more, with seeds "
        f"drawn from Student's t distribution{drawn}. p-values have Holm's correction over all rows; a "
        "difference counts below 0.05."
    )
    margins = [test.margin_in_words for name in judged if (test := TESTS.get(name))]
    if margins:
        yield (
            "Where the paper's rows differ by no more than one in the last digit that it prints, ours agree "
            f"with it if they are shown to be equivalent, within {' or '.join(margins)} (two one-sided "
            "tests)."
        )
    different, splits = control(results)
    if splits:
        yield (
            f"Control: the seeds of one row, split into halves in all {splits} ways, are called different in "
            f"{different} ({different / splits:.1%}); by chance it should be 5% at most."
        )


def _trained(results: Results) -> Iterator[str]:
    """Remarks on the models: the given one, or the settings of the trained ones."""
    if results.inputs.model is not None:
        yield f"Of the model {results.inputs.model}."
        return
    if results.inputs.data is None and not any(_cost(results, row)[0] for row in results.rows):
        return  # nothing was trained
    settings = results.experiment.settings(results.scale)
    scaled = f"Scale {results.scale.name}, sized for {results.scale.sized_for}."
    yield scaled + (f" Settings: {'; '.join(settings)}." if settings else "")


def _markdown(results: Results, cells: Sequence[Sequence[str]]) -> str:
    titles, *rows = ("| " + " | ".join(row) + " |" for row in cells)
    lines = [f"# {results.experiment.title}", "", titles, "|" + "---|" * len(cells[0]), *rows, ""]
    for title, items in conclusions(results).items():
        lines += [f"{title}: {'; '.join(items)}.", ""]
    for path, picture in _pictures(results):
        caption, page = picture["caption"], path.parent / picture["page"]
        lines += [f"![{caption}]({path}.png)", "", f"{caption} [Explore it]({page}).", ""]
    return "\n".join([*lines, *(f"{remark}\n" for remark in _remarks(results))])


def _csv(results: Results) -> str:
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


def _html(results: Results, cells: Sequence[Sequence[str]]) -> str:
    title = html.escape(results.experiment.title)
    parts = [
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{title}</title><style>{_STYLE}</style>',
        f"<h1>{title}</h1><div class=table><table>{table_row('th', cells[0])}",
        *(table_row("td", line) for line in cells[1:]),
        "</table></div>",
        *(_figure(results, path, picture) for path, picture in _pictures(results)),
        *_plots(results),
        *(heading(title, "; ".join(items)) for title, items in conclusions(results).items()),
        "<h2>How this was computed</h2>",
        *(f"<p>{html.escape(remark)}</p>" for remark in _remarks(results)),
    ]
    if results.experiment.name in SECTIONS:
        parts += SECTIONS[results.experiment.name](results)
    return "\n".join([*parts, "</html>"]) + "\n"


def _pictures(results: Results) -> Iterator[tuple[PurePosixPath, Mapping[str, str]]]:
    """Pictures drawn by rows: path in the experiment's folder, without suffix, and caption and page."""
    for row in _computed(results):
        for seed, outcome in results.outcomes[row.name].items():
            for name, picture in outcome.get(PICTURES, {}).items():
                yield PurePosixPath(row.name, f"seed-{seed}", name), picture


def _figure(results: Results, path: PurePosixPath, picture: Mapping[str, str]) -> str:
    """A picture embedded in the page, its caption, and links to its files."""
    svg = base64.b64encode((results.directory / f"{path}.svg").read_bytes()).decode()
    caption = html.escape(picture["caption"])
    links = {"Explore it": path.parent / picture["page"]}
    links |= {form.upper(): path.with_suffix(f".{form}") for form in ("png", "svg", "pdf")}
    files = ", ".join(f'<a href="{html.escape(str(file))}">{name}</a>' for name, file in links.items())
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
            yield embedded_png(_plot(results, rows, figure), f"{_title(figure)} of every row")


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
    panels[0].set(title=f"{_title(figure)}, ours", yticks=range(len(rows)), yticklabels=labels)
    panels[0].invert_yaxis()
    if shown_paper:
        panels[1].set_title(f"{_title(figure)}, paper")
    for axes in panels:
        axes.grid(axis="x", alpha=0.3)
        axes.spines[["top", "right"]].set_visible(False)
    return picture
