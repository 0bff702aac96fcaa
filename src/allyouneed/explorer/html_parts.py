"""Building blocks of result pages: everything in one file, all text escaped."""

import base64
import html
import io
import re
from collections.abc import Iterable, Sequence

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from allyouneed.explorer.page import hash_source, html_head, style_sheet

_THEMED = (
    "<style>:root{color:#1c1c1a}@media(prefers-color-scheme:dark){:root{color:#e9e8e4}}"
    "text{fill:currentColor}</style>"
)
"""Style of a plot: what is black on a light page is light on a dark one."""
_PANEL_INCHES = 4.0
"""Width of a panel: three fit on a wide page, and on a narrow one the text can still be read."""


def page(title: str, body: Iterable[str]) -> str:
    """A page of results, which loads nothing and follows the reader's choice of light or dark."""
    style = style_sheet("theme", "page", "results")
    policy = (
        f"default-src 'none'; style-src '{hash_source(style)}'; img-src data:; base-uri 'none'; "
        "form-action 'none'"
    )
    return (
        html_head(title, policy, style)
        + "\n".join(['<main class="results">', *body, "</main>", "</html>"])
        + "\n"
    )


def prose(text: str) -> str:
    """Escaped text, with `backticks` as code."""
    return re.sub("`([^`]+)`", r"<code>\1</code>", html.escape(text))


_SECTION = "<h2>(.*?)</h2>"


def with_contents(body: Sequence[str]) -> list[str]:
    """The body of a page after links to its sections, if it has several."""
    whole = "\n".join(body)
    titles = re.findall(_SECTION, whole)
    if len(titles) < 2:
        return [*body]
    places = {title: f"section-{number}" for number, title in enumerate(titles, start=1)}
    links = "".join(f'<a href="#{place}">{title}</a>' for title, place in places.items())
    marked = re.sub(_SECTION, lambda found: f'<a id="{places[found[1]]}"></a>{found[0]}', whole)
    return [f'<nav class="contents" aria-label="Contents">{links}</nav>', marked]


def heading(title: str, text: str) -> str:
    """A heading and the paragraph below it."""
    return f"<h2>{html.escape(title)}</h2><p>{prose(text)}</p>"


def cards(titles: Sequence[str], lines: Iterable[tuple[str, Sequence[str]]]) -> str:
    """A table that shows every line as a card on narrow screens.

    Args:
        titles: Titles of the columns, the first above the heads of the lines.
        lines: Head and cells of each line, as HTML.
    """
    head = "".join(f'<th scope="col">{html.escape(title)}</th>' for title in titles)
    rows = (
        f'<tr><th scope="row">{name}</th>'
        + "".join(
            f'<td data-title="{html.escape(title)}">{cell}</td>'
            for title, cell in zip(titles[1:], cells, strict=True)
        )
        + "</tr>"
        for name, cells in lines
    )
    body = "\n".join(rows)
    return (
        f'<div class="table"><table class="cards"><thead><tr>{head}</tr></thead>\n'
        f"<tbody>{body}</tbody></table></div>"
    )


def finish_panel(axes: Axes, *, legend: bool = True, **texts: str) -> None:
    """Finish a panel of logarithmic curves: texts, powers of two along the x axis, a grid, and a legend."""
    axes.set(**texts)
    axes.set_xscale("log", base=2)
    axes.xaxis.set_major_formatter("{x:,.0f}")
    axes.xaxis.minorticks_off()
    axes.grid(alpha=0.3)
    if legend:
        axes.legend(frameon=False)


def panel(height: float = 3.4) -> tuple[Figure, Axes]:
    """A figure with one panel, `height` inches high."""
    figure = Figure((_PANEL_INCHES, height), layout="constrained")
    return figure, figure.subplots()


def legend_of(axes: Axes) -> Figure:
    """The legend of a panel as a figure of its own, which explains the panels beside it, too."""
    handles, labels = axes.get_legend_handles_labels()
    figure = Figure((_PANEL_INCHES, 0.3 + 0.22 * len(labels)))
    figure.legend(handles, labels, loc="center left", frameon=False)
    return figure


def plot(figures: Iterable[Figure], description: str) -> str:
    """Figures embedded side by side as far as the page is wide; `description` says what all of them show."""
    images = "".join(f'<img alt="" src="data:image/svg+xml;base64,{_encoded(each)}">' for each in figures)
    return f'<div class="plot" role="img" aria-label="{html.escape(description)}">{images}</div>'


def _encoded(figure: Figure) -> str:
    file = io.StringIO()
    with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": "allyouneed", "font.family": "sans-serif"}):
        figure.savefig(file, format="svg", transparent=True, metadata={"Date": None})
    svg = file.getvalue()
    svg = svg[svg.index("<svg") :].replace("#000000", "currentColor")
    opening, _, rest = svg.partition(">")
    return base64.b64encode(f"{opening}>{_THEMED}{rest}".encode()).decode()
