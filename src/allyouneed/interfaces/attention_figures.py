"""Figures of lines between words, as the paper's Figures 3 to 5, for print: PNG, SVG, PDF."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import matplotlib
import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure

from allyouneed.attention import KINDS, Attention, Word
from allyouneed.errors import UsageError
from allyouneed.interfaces.plots import font_families, save_figure

Form = Literal["png", "svg", "pdf"]

_WORD_INCHES, _LINES_INCHES = 0.27, 2.6
_BESIDE = 0.09
"""From a line of one head to that of the next, by the distance of words."""
_FAINTEST = 0.01
"""Lines of less weight are left out: they cannot be seen, but make large files."""
_READABLE: Any = {"svg.fonttype": "none", "svg.hashsalt": "allyouneed", "pdf.fonttype": 42}
"""Text stays text; the same weights give the same file."""
_UNDATED: dict[Form, dict[str, None]] = {"png": {}, "svg": {"Date": None}, "pdf": {"CreationDate": None}}


@dataclass(frozen=True)
class Selection:
    """What a figure shows of an attention."""

    kind: str
    """A name in `KINDS`."""
    layer: int
    """From 0."""
    heads: Sequence[int]
    """From 0."""
    words: Sequence[str] = ()
    """Whose lines are drawn; all if there are none."""


def draw_lines(attention: Attention, selection: Selection, path: Path, form: Form) -> None:
    """Draw lines from the words that look, above, to those that they look at; their ink is the weight.

    Args:
        attention: Of a model.
        selection: What to show of it.
        path: The file to write.
        form: Its format.

    Raises:
        UsageError: A word does not occur.
        DiskError: The file could not be written.
    """
    kind = KINDS[selection.kind]
    queries: list[Word] = getattr(attention, kind.queries).words
    keys: list[Word] = getattr(attention, kind.keys).words
    rows = _rows(queries, selection.words)
    weights = getattr(attention.in_words(), selection.kind)[selection.layer].numpy()  # (heads, queries, keys)
    figure = Figure((_WORD_INCHES * max(len(queries), len(keys)) + 0.4, _LINES_INCHES))
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set(xlim=(-0.7, max(len(queries), len(keys)) - 0.3), ylim=(0, 1))
    axes.axis("off")
    for order, head in enumerate(selection.heads):
        spread = min(_BESIDE, 0.6 / len(selection.heads)) * (order - (len(selection.heads) - 1) / 2)
        _draw_head(axes, weights[head], rows, spread, _colour(order, len(selection.heads)))
    _write_words(axes, queries, {"y": 1.02, "va": "bottom"}, set(rows))
    _write_words(axes, keys, {"y": -0.02, "va": "top"}, set(range(len(keys))))
    with matplotlib.rc_context(_READABLE):
        save_figure(figure, path, form, dpi=160, bbox_inches="tight", metadata=_UNDATED[form])


def _rows(queries: Sequence[Word], words: Sequence[str]) -> list[int]:
    texts = [word.text for word in queries]
    if missing := [word for word in words if word not in texts]:
        raise UsageError(f"--word {missing[0]}: is none of the words that look: {' '.join(texts)}")
    return [place for place, text in enumerate(texts) if not words or text in words]


def _draw_head(axes: Axes, weights: npt.NDArray[Any], rows: Sequence[int], shift: float, colour: str) -> None:
    ends = [(query, key) for query in rows for key in np.flatnonzero(weights[query] >= _FAINTEST)]
    lines = [np.array([(query + shift, 1), (key + shift, 0)]) for query, key in ends]
    colours = [(*to_rgb(colour), min(1.0, float(weights[end]))) for end in ends]
    axes.add_collection(LineCollection(lines, colors=colours, linewidths=1.6))


def _write_words(axes: Axes, words: Sequence[Word], place: dict[str, Any], shown: set[int]) -> None:
    for position, word in enumerate(words):
        axes.text(
            position,
            s=word.text,
            rotation=90,
            ha="center",
            color="black" if position in shown else "0.65",
            family=font_families(),
            fontsize=11,
            parse_math=False,
            **place,
        )


def _colour(order: int, count: int) -> str:
    names = matplotlib.colormaps["tab10" if count <= 10 else "tab20"]
    return matplotlib.colors.to_hex(names(order % names.N))
