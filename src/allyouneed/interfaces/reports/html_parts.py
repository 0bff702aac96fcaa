"""Building blocks of result pages: everything in one file, all text escaped."""

import base64
import html
import io
from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure


def heading(title: str, text: str) -> str:
    """A heading and the paragraph below it."""
    return f"<h2>{html.escape(title)}</h2><p>{html.escape(text)}</p>"


def table_row(tag: str, texts: Sequence[str]) -> str:
    """A row of a table; `tag` is th or td."""
    return "<tr>" + "".join(f"<{tag}>{html.escape(text)}</{tag}>" for text in texts) + "</tr>"


def finish_panel(axes: Axes, *, legend: bool = True, **texts: str) -> None:
    """Finish a panel of logarithmic curves: texts, powers of two along the x axis, a grid, and a legend."""
    axes.set(**texts)
    axes.set_xscale("log", base=2)
    axes.xaxis.set_major_formatter("{x:,.0f}")
    axes.xaxis.minorticks_off()
    axes.grid(alpha=0.3)
    if legend:
        axes.legend(frameon=False)


def embedded_png(figure: Figure, description: str) -> str:
    """A figure embedded in the page, with `description` as its alternative text."""
    file = io.BytesIO()
    figure.savefig(file, format="png", dpi=110)
    data = base64.b64encode(file.getvalue()).decode()
    return f'<img alt="{html.escape(description)}" src="data:image/png;base64,{data}">'
