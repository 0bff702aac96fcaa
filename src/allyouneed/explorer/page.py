"""An HTML page that shows attention, from the modules and the style sheet in `web/` and the data as JSON.

The page may run the one script and use the one style sheet that it is made with, by their hashes, and may
load nothing. Texts come to it as JSON and are put on it as text only, which the policy holds it to.

Another page can have the explorer, too: serve `web/`, import `explore` from `explorer.js`, and call it with
an element and what `pack_weights` returns.
"""

import base64
import hashlib
import json
import re
import zlib
from collections.abc import Mapping
from html import escape
from importlib.resources import files
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from allyouneed.errors import DataError

_MODULES = (
    "elements.js",
    "attention.js",
    "state.js",
    "controls.js",
    "raster.js",
    "lines.js",
    "matrix.js",
    "measures.js",
    "heads.js",
    "explorer.js",
)
"""Each after those that it imports from."""
_START = """\
const main = document.querySelector("main");
explore(main, JSON.parse(document.querySelector("#attention").textContent), { address: true })
  .catch((error) => { main.textContent = `This browser cannot show the attention: ${error}`; });
"""
_FRAME_HEIGHT = 760
MOST_WEIGHTS: Final = 50_000_000
"""On a page, a byte each before they are compressed: about 1,000 by 1,000 pieces in 4 layers of 4 heads."""


def attention_page(document: Mapping[str, Any]) -> str:
    """One self-contained page.

    Args:
        document: What `Attention.document` or `Attention.to_json` returns.

    Raises:
        DataError: It has more weights than a browser can be given at once.
    """
    script, style = f"{_bundle()}\n{_START}", _read("explorer.css") + _read("page.css")
    policy = (
        f"default-src 'none'; script-src '{_hash(script)}'; style-src '{_hash(style)}'; base-uri 'none'; "
        "form-action 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
    )
    title = escape(f"Attention: {_one_line(document['sequences']['source']['text'])}")
    return (
        '<!doctype html>\n<html lang="en">\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{title}</title>\n<style>{style}</style>\n<main></main>\n"
        "<noscript>The attention is drawn by a script of this page: allow scripts to see it.</noscript>\n"
        f'<script type="application/json" id="attention">{_json_in_html(pack_weights(document))}</script>\n'
        f'<script type="module">{script}</script>\n</html>\n'
    )


def attention_frame(document: Mapping[str, Any]) -> str:
    """The page as an element of another, a notebook, which can neither reach into it nor be reached."""
    page = escape(attention_page(document))
    return (
        f'<iframe title="Attention" sandbox="allow-scripts" width="100%" height="{_FRAME_HEIGHT}" '
        f'style="border: 0" srcdoc="{page}"></iframe>'
    )


def pack_weights(document: Mapping[str, Any]) -> dict[str, Any]:
    """The document with weights that take little room: the square root of each in 8 bits, compressed.

    A weight w is then known to sqrt(w) / 255, which is 0.004 at most; whoever unpacks a row divides it by its
    sum, so that it sums to 1 again. `weights` becomes `packed`, base64 of what zlib makes of
    the bytes, and `shape`: (layers, heads, queries, keys).

    Raises:
        DataError: There are more than `MOST_WEIGHTS`.
    """
    weights = {name: np.asarray(kind["weights"]) for name, kind in document["kinds"].items()}
    if (total := sum(of_kind.size for of_kind in weights.values())) > MOST_WEIGHTS:
        lengths = [len(document["sequences"][name]["pieces"]) for name in ("source", "target")]
        raise DataError(
            f"the page would hold {total:,} weights, of {lengths[0]} by {lengths[1]} pieces; "
            f"{MOST_WEIGHTS:,} are the most: give a shorter text, or draw some heads with --png",
            label="E-TOO-LONG",
        )
    return {**document, "kinds": {name: _packed(document["kinds"][name], weights[name]) for name in weights}}


def _packed(kind: Mapping[str, Any], weights: npt.NDArray[Any]) -> dict[str, Any]:
    compress = zlib.compressobj()
    parts = [
        compress.compress(np.rint(255 * np.sqrt(layer.clip(0, 1))).astype(np.uint8).tobytes())
        for layer in weights
    ]
    packed = base64.b64encode(b"".join([*parts, compress.flush()])).decode()
    rest = {name: value for name, value in kind.items() if name != "weights"}
    return rest | {"packed": packed, "shape": weights.shape}


def _bundle() -> str:
    """The modules as one script: they are written so that none uses a name of another for something else."""
    joined = "\n".join(map(_read, _MODULES))
    return re.sub(r"^import .*\n|^export (default )?", "", joined, flags=re.MULTILINE)


def _read(name: str) -> str:
    return files("allyouneed.explorer").joinpath("web", name).read_bytes().decode()


def _hash(content: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()}"


def _json_in_html(value: Any) -> str:
    """JSON in which nothing can end the element that holds it; other scripts are escaped, too."""
    text = json.dumps(value, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _one_line(text: str) -> str:
    return "".join(character if character.isprintable() else " " for character in text)
