"""Figures with lines between words, like the paper's Figures 3 to 5, for print: PNG, SVG, PDF."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, get_args

import matplotlib
import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.colors import to_hex, to_rgb
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from allyouneed.errors import UsageError
from allyouneed.tasks.attention_maps import KINDS, Attention, Selection, Word
from allyouneed.tasks.plots import any_character, font_families, save_figure

Form = Literal["png", "svg", "pdf"]

_WORD_INCHES, _LINES_INCHES = 0.27, 2.6
_BESIDE = 0.09
"""Offset between the lines of neighbouring heads, relative to the distance of words."""
_FAINTEST = 0.01
"""Minimum weight of a line: fainter ones are invisible, but make files large."""
_READABLE: Any = {"svg.fonttype": "none", "svg.hashsalt": "allyouneed", "pdf.fonttype": 42}
"""Settings that keep text as text, and make equal weights give equal files."""
_KINDS = {"encoder": "Encoder", "decoder": "Decoder", "cross": "Cross"}
_UNDATED: dict[Form, dict[str, None]] = {"png": {}, "svg": {"Date": None}, "pdf": {"CreationDate": None}}

_LMS_OF_OKLAB = np.array(
    [[1, 0.3963377774, 0.2158037573], [1, -0.1055613458, -0.0638541728], [1, -0.0894841775, -1.2914855480]]
)
_SRGB_OF_LMS = np.array(
    [
        [4.0767416621, -3.3077115913, 0.2309699292],
        [-1.2684380046, 2.6097574011, -0.3413193965],
        [-0.0041960863, -0.7034186147, 1.7076147010],
    ]
)
"""Matrices from Ottosson 2020, "A perceptual color space for image processing", to sRGB before its gamma."""


def draw_lines(attention: Attention, selection: Selection, path: Path, form: Form) -> None:
    """Draw lines from the attending words, above, to the attended words; opacity shows the weight.

    Args:
        attention: Attention of a model on a sentence.
        selection: The part of the attention to show.
        path: The file to write.
        form: Format of the file.

    Raises:
        UsageError: A selected word does not occur.
        DiskError: The file could not be written.
    """
    kind = KINDS[selection.kind]
    queries: list[Word] = getattr(attention, kind.queries).words
    keys: list[Word] = getattr(attention, kind.keys).words
    rows = shown_rows(attention, selection)
    weights = getattr(attention.in_words(), selection.kind)[selection.layer].numpy()  # (heads, queries, keys)
    figure = Figure((_WORD_INCHES * max(len(queries), len(keys)) + 0.4, _LINES_INCHES))
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set(xlim=(-0.7, max(len(queries), len(keys)) - 0.3), ylim=(0, 1))
    axes.axis("off")
    for order, head in enumerate(selection.heads):
        spread = min(_BESIDE, 0.6 / len(selection.heads)) * (order - (len(selection.heads) - 1) / 2)
        _draw_head(axes, weights[head], rows, spread, head_colour(head))
    _write_words(axes, queries, {"y": 1.02, "va": "bottom"}, set(rows))
    _write_words(axes, keys, {"y": -0.02, "va": "top"}, set(range(len(keys))))
    _write_key(axes, selection)
    with matplotlib.rc_context(_READABLE):
        save_figure(figure, path, form, dpi=160, bbox_inches="tight", metadata=_UNDATED[form])


def draw_in_every_form(attention: Attention, selection: Selection, path: Path) -> None:
    """Draw lines as PNG, SVG and PDF; `path` has no suffix, and each file adds its own.

    Raises:
        UsageError: A selected word does not occur.
        DiskError: A file could not be written.
    """
    for form in get_args(Form):
        draw_lines(attention, selection, path.with_name(f"{path.name}.{form}"), form)


def shown_rows(attention: Attention, selection: Selection) -> list[int]:
    """Indices of the words whose lines are drawn.

    Raises:
        UsageError: A selected word does not occur.
    """
    texts = [word.text for word in getattr(attention, KINDS[selection.kind].queries).words]
    if missing := [word for word in selection.words if word not in texts]:
        raise UsageError(
            f"word {missing[0]}: is not one of the words that attend: {' '.join(texts)}", settings=["word"]
        )
    return [place for place, text in enumerate(texts) if not selection.words or text in selection.words]


def head_colour(head: int) -> str:
    """Colour of a head, from 0, on white, as on the page: `headColour` in `explorer/web/elements.js`."""
    lightness, chroma = (0.63, 0.14) if head % 2 else (0.52, 0.15)
    hue = math.radians((255 + head * 137.5) % 360)
    oklab = np.array([lightness, chroma * math.cos(hue), chroma * math.sin(hue)])
    linear = (_SRGB_OF_LMS @ (_LMS_OF_OKLAB @ oklab) ** 3).clip(0, 1)
    encoded = np.where(linear <= 0.0031308, 12.92 * linear, 1.055 * linear ** (1 / 2.4) - 0.055)
    return to_hex(encoded)


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


def _write_key(axes: Axes, selection: Selection) -> None:
    """Legend below all words: kind and layer, and the colour of each head."""
    count = len(selection.heads)
    where = f"{_KINDS[selection.kind]}, layer {selection.layer + 1}, head{'s' if count > 1 else ''}"
    with any_character():
        below = axes.get_tightbbox()
    assert below is not None
    lines = [Line2D([], [], color=head_colour(head), linewidth=3) for head in selection.heads]
    axes.legend(
        [Line2D([], [], linestyle="none"), *lines],
        [where, *(str(head + 1) for head in selection.heads)],
        loc="upper left",
        bbox_to_anchor=(0, axes.transAxes.inverted().transform((0, below.y0))[1]),
        ncols=count + 1,
        frameon=False,
        handlelength=0.8,
        handletextpad=0.4,
        columnspacing=1.0,
        borderpad=0,
        fontsize=9,
    )
