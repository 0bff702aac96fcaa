"""Building blocks of result pages: everything in one file, all text escaped."""

import base64
import html
import io

from matplotlib.figure import Figure


def heading(title: str, text: str) -> str:
    """A heading and the paragraph below it."""
    return f"<h2>{html.escape(title)}</h2><p>{html.escape(text)}</p>"


def embedded_png(figure: Figure, description: str) -> str:
    """A figure embedded in the page, with `description` as its alternative text."""
    file = io.BytesIO()
    figure.savefig(file, format="png", dpi=110)
    data = base64.b64encode(file.getvalue()).decode()
    return f'<img alt="{html.escape(description)}" src="data:image/png;base64,{data}">'
