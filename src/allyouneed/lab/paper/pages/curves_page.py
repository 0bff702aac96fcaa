"""The section of a page of results that shows how the rows learned: perplexity and scores during training."""

import re
import statistics
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain

from matplotlib.axes import Axes
from matplotlib.figure import Figure as Picture
from matplotlib.ticker import ScalarFormatter

from allyouneed.explorer.html_parts import heading, legend_of, panel, plot
from allyouneed.lab.paper.experiment import CURVE, PROCESSOR, RATES, Results, Row
from allyouneed.tasks.catalogue import TASKS

_AXES = {"step": "updates", "matmul_flops": "FLOPs of matrix products", "seconds": "seconds of training"}
"""Quantity that a curve is drawn against -> its title."""
_GROUP = re.compile(r"\((\w)\) ")
"""Beginning of the title of a row of a group, such as `(A) h = 1`."""
_PERPLEXITY = "perplexity"
_LARGEST = 5.0
"""Perplexities above this multiple of the smallest are not shown."""


def sections(results: Results) -> Iterator[str]:
    """Curves of all rows that have kept them: by group against updates, or else against FLOPs and seconds."""
    rows = [row for row in results.rows if _curves(results, row)]
    if len(rows) < 2:
        return
    groups = _grouped(rows)
    labels = _labels(results, rows)
    told = (
        f"Mean over seeds of {' and '.join(labels.values())} on the validation text, "
        "with the weights at that step, not averaged."
    )
    if len(groups) > 1:
        yield heading("How the rows learned", f"{told} Grey is the first row.")
        for name, label in labels.items():
            pictures = _by_group(results, rows[0], groups, name, label)
            yield plot(pictures, f"validation {label} of every row during training")
        return
    kind = _kinds(results, rows[0])
    timed = [row for row in rows if len(kind) == 1 and _kinds(results, row) == kind]
    left_out = {
        len(rows): "",
        0: " Seconds are not shown: the rows were computed on machines of several kinds.",
    }.get(len(timed), " Only rows of one kind of machine are drawn against seconds.")
    noise = " Seconds include what else the machine did." if timed else ""
    others = any(RATES in outcome for row in rows for outcome in results.outcomes[row.name].values())
    thin = " Thin lines are the runs with other learning rates." if others else ""
    yield heading("How the rows learned", told + thin + left_out + noise)
    costs = "FLOPs and against seconds" if timed else "FLOPs"
    for name, label in labels.items():
        yield plot(_by_cost(results, rows, timed, name, label), f"validation {label} against {costs}")


def _labels(results: Results, rows: Sequence[Row]) -> dict[str, str]:
    """Name of a quantity that all curves have -> what it is."""
    curves = [curve for row in rows for curve in _curves(results, row)]
    of_tasks = {task.score: f"{task.score_label} (greedy)" for task in TASKS.values()}
    scores = {name: label for name, label in of_tasks.items() if all(name in curve for curve in curves)}
    return {_PERPLEXITY: _PERPLEXITY} | scores


def _grouped(rows: Sequence[Row]) -> dict[str, list[Row]]:
    """Letter of a group -> its rows; rows without one are in none."""
    groups: dict[str, list[Row]] = {}
    for row in rows:
        if letter := _GROUP.match(row.what):
            groups.setdefault(letter[1], []).append(row)
    return groups


def _by_group(
    results: Results, first: Row, groups: Mapping[str, Sequence[Row]], name: str, label: str
) -> list[Picture]:
    pictures, panels = zip(*(panel() for _ in groups), strict=True)
    for axes, (letter, rows) in zip(panels, groups.items(), strict=True):
        _draw(axes, results, first, ("step", name), color="gray")
        for row in rows:
            _draw(axes, results, row, ("step", name))
        _finish(axes, "step", label)
        axes.set_title(f"({letter})")
        axes.legend(frameon=False, fontsize=8)
    _limit(panels, results, [first, *chain.from_iterable(groups.values())], name)
    return list(pictures)


def _by_cost(
    results: Results, rows: Sequence[Row], timed: Sequence[Row], name: str, label: str
) -> list[Picture]:
    shown_by = {"matmul_flops": rows} | ({"seconds": timed} if timed else {})
    pictures, panels = zip(*(panel(4.2) for _ in shown_by), strict=True)
    for axes, (quantity, shown) in zip(panels, shown_by.items(), strict=True):
        for row in shown:
            _draw(axes, results, row, (quantity, name))
        _finish(axes, quantity, label)
    _limit(panels, results, rows, name)
    return [*pictures, legend_of(panels[0])]


def _draw(axes: Axes, results: Results, row: Row, names: tuple[str, str], color: str | None = None) -> None:
    """Draw the second quantity of a row's curves against the first."""
    curves = _curves(results, row)
    length = min(len(curve["step"]) for curve in curves)
    x, y = (
        [statistics.fmean(curve[name][place] for curve in curves) for place in range(length)]
        for name in names
    )
    label = row.name if row.what == "-" else row.what
    (line,) = axes.plot(x, y, "o-", markersize=3, color=color, label=label)
    for outcome in results.outcomes[row.name].values():
        for of_rate in outcome.get(RATES, {}).values():
            curve = of_rate.get(CURVE, {})
            if not curve.keys() >= set(names):
                continue  # it diverged
            axes.plot(*(curve[name] for name in names), color=line.get_color(), alpha=0.3, linewidth=0.8)


def _finish(axes: Axes, quantity: str, label: str) -> None:
    axes.set(xlabel=_AXES[quantity], ylabel=label)
    axes.grid(alpha=0.3, which="both")


def _limit(panels: Sequence[Axes], results: Results, rows: Sequence[Row], name: str) -> None:
    """Give all panels the same y axis, once all rows have been drawn."""
    least = min(min(curve[name]) for row in rows for curve in _curves(results, row))
    top = max(axes.get_ylim()[1] for axes in panels)
    for axes in panels:
        if name == _PERPLEXITY:
            axes.set_yscale("log")
            axes.set_ylim(0.95 * least, _LARGEST * least)
            axes.yaxis.set_major_formatter(ScalarFormatter())
            axes.yaxis.set_minor_formatter(ScalarFormatter())
        else:
            axes.set_ylim(0, top)


def _curves(results: Results, row: Row) -> list[Mapping[str, list[float]]]:
    """The curves of a row, one per seed that has kept one."""
    outcomes = results.outcomes.get(row.name, {}).values()
    return [outcome[CURVE] for outcome in outcomes if len(outcome.get(CURVE, {}).get("step", ())) > 1]


def _kinds(results: Results, row: Row) -> set[tuple[object, object]]:
    """Machines and precisions that the seeds of a row were computed with."""
    outcomes = results.outcomes.get(row.name, {}).values()
    return {(outcome.get(PROCESSOR), outcome.get("precision")) for outcome in outcomes if CURVE in outcome}
