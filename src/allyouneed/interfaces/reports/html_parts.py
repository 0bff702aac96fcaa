"""Pieces of which pages of results are made: everything in one file, text only ever as text."""

import base64
import html
import io

from matplotlib.figure import Figure


def heading(title: str, text: str) -> str:
    """A heading and a paragraph below it."""
    return f"<h2>{html.escape(title)}</h2><p>{html.escape(text)}</p>"


def embedded_png(figure: Figure, description: str) -> str:
    """A picture in the page itself, with what it shows for those who do not see it."""
    file = io.BytesIO()
    figure.savefig(file, format="png", dpi=110)
    data = base64.b64encode(file.getvalue()).decode()
    return f'<img alt="{html.escape(description)}" src="data:image/png;base64,{data}">'
