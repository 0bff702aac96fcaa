"""The extra section of the page of `reproduce paths`: accuracy against the size of each task."""

import statistics
from collections.abc import Iterator, Mapping

from matplotlib.figure import Figure

from allyouneed.explorer.html_parts import finish_panel, heading, legend_of, panel, plot
from allyouneed.lab.paper.experiment import Results
from allyouneed.lab.paper.paths import KINDS, NUM_ANSWERS, TASKS, accuracy_of, lengths


def sections(results: Results) -> Iterator[str]:
    """The page's section as HTML, for the rows computed so far."""
    curves = {(task, kind): _curve(results, task, kind) for task in TASKS for kind in KINDS}
    if not any(curves.values()):
        return
    yield heading(
        "How far back a network finds what it needs",
        "Self-attention connects all positions by a path of length one. A convolution or a neighbourhood "
        "ends at its reach, and a recurrent network must carry everything in its state. One head averages "
        "what it attends to (3.2.2), so `joint` asks for four things at once. The dotted line is guessing.",
    )
    yield plot(_pictures(curves), "accuracy of each kind of network against the size of three tasks")


def _curve(results: Results, task: str, kind: str) -> dict[int, list[float]]:
    """Size -> accuracy per seed."""
    found = {n: results.values(kind, accuracy_of(task, n)) for n in lengths(results.scale)}
    return {n: values for n, values in found.items() if values}


def _pictures(curves: Mapping[tuple[str, str], Mapping[int, list[float]]]) -> Iterator[Figure]:
    for name, task in TASKS.items():
        picture, axes = panel()
        for kind, described in KINDS.items():
            curve = curves[name, kind]
            if not curve:
                continue
            means = [statistics.fmean(values) for values in curve.values()]
            (line,) = axes.plot(list(curve), means, "o-", markersize=4, label=described.what)
            low, high = ([end(values) for values in curve.values()] for end in (min, max))
            axes.fill_between(list(curve), low, high, color=line.get_color(), alpha=0.15, linewidth=0)
        axes.axhline(100 / NUM_ANSWERS, color="gray", linewidth=0.7, linestyle=":")
        title = f"{name}, accuracy in %"
        axes.set_ylim(0, 105)
        finish_panel(axes, title=title, xlabel=f"n, {task.title}", legend=False)
        yield picture
    yield legend_of(axes)
