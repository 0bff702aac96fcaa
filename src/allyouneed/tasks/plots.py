"""Plots as PNG files: curves of a run (paper 5), attention heat maps, and F1 by sentence length."""

import math
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.font_manager import get_font_names

from allyouneed.errors import printable
from allyouneed.storage.publish import disk_errors, replaced_file
from allyouneed.storage.run_log import Event, read_log
from allyouneed.tasks.catalogue import TASKS
from allyouneed.tasks.parsing.bracket_f1 import BracketScores, words_of

_WIDE_FONTS = ["DejaVu Sans", "Noto Sans CJK JP", "Arial Unicode MS", "Microsoft YaHei", "PingFang SC"]
"""Fonts to search for the characters of tokens, in this order, if installed."""
_HEADS_A_ROW = 4
_TOKEN_INCHES = 0.22
_MAX_HEAD_INCHES = 12.0
"""Maximum side of a head's heat map, which grows with the tokens; with more tokens the labels shrink."""


@dataclass(frozen=True)
class _Curve:
    label: str
    color: str
    steps: list[int]
    values: list[float]
    best: Callable[[Iterable[float]], float] | None = None
    """`min` or `max` to mark the best value and name it in the legend; None to mark nothing."""


def plot_run(run_directory: Path) -> list[Path]:
    """Plot loss, learning rate and scores from `log.jsonl`, as `loss.png` and so on.

    Returns:
        Paths of the pictures in the run directory; existing ones are replaced.

    Raises:
        DiskError: The log could not be read, or a picture could not be written.
    """
    log = run_directory / "log.jsonl"
    with disk_errors(log):
        events = last_events(read_log(log))
    training = _Curve("training", "tab:blue", *_series(events, "train", "loss"))
    validation = _Curve("validation", "tab:orange", *_series(events, "validate", "loss"), best=min)
    learning_rate = _Curve("learning rate", "tab:blue", *_series(events, "train", "learning_rate"))
    plots = {
        "loss": ("Loss (nats per word-piece)", [training, validation]),
        "learning_rate": ("Learning rate", [learning_rate]),
    }
    for task in TASKS.values():
        score = _Curve("validation", "tab:orange", *_series(events, "validate", task.score), best=max)
        plots[task.score] = (f"{task.score_label} (greedy)", [score])
    written = []
    for name, (quantity, curves) in plots.items():
        if drawn := [curve for curve in curves if curve.steps]:
            written.append(run_directory / f"{name}.png")
            _plot(written[-1], quantity, drawn, from_zero=name != "loss")
    return written


def last_events(log: Iterable[Event]) -> list[Event]:
    """The events of a log that have a step, ordered by step.

    A resumed run repeats the steps after its checkpoint: the last event of each kind and step counts.
    """
    events = {(event["event"], event["step"]): event for event in log if "step" in event}
    return sorted(events.values(), key=lambda event: int(event["step"]))


def plot_attention(
    weights: npt.NDArray[np.floating[Any]],
    source_pieces: Sequence[str],
    target_pieces: Sequence[str],
    path: Path,
) -> None:
    """Draw the attention of the heads of one layer as heat maps, with a common colour scale from 0 to 1.

    Args:
        weights: (heads, target_len, source_len); each row sums to 1.
        source_pieces: The attended tokens, one per column.
        target_pieces: The attending tokens, one per row; for self-attention the same as `source_pieces`.
        path: The PNG file to write.

    Raises:
        DiskError: The file could not be written.
    """
    num_heads, target_len, source_len = weights.shape
    side = min(_TOKEN_INCHES, _MAX_HEAD_INCHES / max(target_len, source_len))
    grid = _grid(num_heads, max(1.2, source_len * side), max(1.2, target_len * side))
    figure = grid[0, 0].figure
    for head, axes in enumerate(figure.axes):
        image = axes.imshow(
            weights[head], vmin=0, vmax=1, cmap="Blues", aspect="auto", interpolation="nearest"
        )
        axes.set_title(f"head {head + 1}", fontsize=9)
        axes.set(xticks=[], yticks=[])
    for axes in grid[0]:
        _label(axes.xaxis, source_pieces, fontsize=43 * side, rotation=90)
        axes.tick_params(top=False, labeltop=True, bottom=False, labelbottom=False)
    for axes in grid[:, 0]:
        _label(axes.yaxis, target_pieces, fontsize=43 * side)
        axes.tick_params(left=False)
    figure.supxlabel("attended token")
    figure.supylabel("attending token")
    figure.colorbar(image, ax=figure.axes, label="attention weight", aspect=30)
    save_figure(figure, path, dpi=100)


def plot_f1_by_length(scores: BracketScores, path: Path) -> None:
    """Plot labelled F1 by sentence length, in tens of words, with the number of sentences.

    The picture is an SVG or a PDF if `path` ends with that, else a PNG.

    Raises:
        DiskError: The file could not be written.
    """
    tens = sorted(scores.by_length)
    figure = Figure(figsize=(8, 5), layout="constrained")
    axes = figure.subplots()
    bars = axes.bar(range(len(tens)), [scores.by_length[each].f1 for each in tens], color="tab:blue")
    axes.bar_label(
        bars,
        [f"{scores.by_length[t].f1:.1f}\n{scores.num_by_length[t]:,}" for t in tens],
        padding=3,
        fontsize=9,
        bbox={"boxstyle": "square,pad=0.1", "facecolor": "white", "edgecolor": "none"},
    )
    axes.axhline(scores.brackets.f1, color="tab:orange", label=f"all lengths: {scores.brackets.f1:.2f}")
    axes.set_xticks(range(len(tens)), [words_of(each) for each in tens])
    axes.set(xlabel="Words (above a bar: F1, sentences)", ylabel="Labelled F1", ylim=(0, 110))
    axes.spines[["top", "right"]].set_visible(False)
    figure.legend(frameon=False, loc="outside upper right")
    form = path.suffix[1:].lower()
    save_figure(figure, path, form if form in ("svg", "pdf") else "png", dpi=120)


def _grid(num_heads: int, width: float, height: float) -> npt.NDArray[np.object_]:
    """Axes (rows, columns) of `width` x `height` inches for each head, with room for labels."""
    columns = min(num_heads, _HEADS_A_ROW)
    rows = math.ceil(num_heads / columns)
    size = (2.4 + columns * (width + 0.3), 2.2 + rows * (height + 0.5))
    grid: npt.NDArray[np.object_] = Figure(size, layout="constrained").subplots(rows, columns, squeeze=False)
    for axes in grid.flat[num_heads:]:
        axes.remove()
    return grid


def _series(events: Sequence[dict[str, Any]], kind: str, key: str) -> tuple[list[int], list[float]]:
    points = [(e["step"], e[key]) for e in events if e["event"] == kind and e.get(key) is not None]
    return [step for step, _ in points], [value for _, value in points]


def _plot(path: Path, quantity: str, curves: Sequence[_Curve], *, from_zero: bool) -> None:
    figure = Figure(figsize=(8, 5), layout="constrained")
    axes = figure.subplots()
    for curve in curves:
        label = curve.label
        if curve.best:
            best = curve.best(curve.values)
            step = curve.steps[curve.values.index(best)]
            label += f" (best {best:.2f} at step {step:,})"
            axes.plot([step], [best], "o", color=curve.color, markersize=9, fillstyle="none")
        marker = "o" if len(curve.steps) <= 50 else ""
        axes.plot(curve.steps, curve.values, color=curve.color, marker=marker, markersize=4, label=label)
    axes.set(xlabel="Step", ylabel=quantity, xlim=(0, None))
    axes.xaxis.set_major_formatter("{x:,.0f}")
    axes.locator_params("x", integer=True)
    if from_zero:
        axes.set_ylim(0, 1.05 * max(max(curve.values) for curve in curves) or 1)
    axes.grid(alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False)
    save_figure(figure, path, dpi=120)


def font_families() -> list[str]:
    """The installed fonts with wide coverage, in the order of the search for characters."""
    installed = get_font_names()
    return [name for name in _WIDE_FONTS if name in installed]


def _label(axis: Axis, pieces: Sequence[str], fontsize: float, rotation: float = 0) -> None:
    labels = [printable(piece.replace(" ", "·")) for piece in pieces]
    places, fonts = range(len(pieces)), font_families()
    axis.set_ticks(places, labels, family=fonts, fontsize=fontsize, rotation=rotation, parse_math=False)


@contextmanager
def any_character() -> Iterator[None]:
    """Within the block, characters without a font are drawn as boxes, without a warning."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing from")
        yield


def save_figure(figure: Figure, path: Path, form: str = "png", **options: Any) -> None:
    """Save a figure, replacing the file at `path` atomically, so that viewers never see half a picture.

    Args:
        figure: The figure to save.
        path: The file to write.
        form: File format: png, svg or pdf.
        **options: As for `savefig`: pixels per inch, margins, metadata.

    Raises:
        UsageError: `path` is a pipe or a device.
        DiskError: The file could not be written.
    """
    with any_character(), replaced_file(path) as aside:
        figure.savefig(aside, format=form, **options)
