"""Builds an HTML page that shows attention, from JSON data and the modules and style sheets in `web/`.

The page's content security policy allows only its own script and style sheet, by hash, and no requests.
Texts arrive as JSON and are inserted as text only, which the policy enforces.

To embed the explorer in another page, serve `web/`, import `explore` from `explorer.js`, and call it with an
element and the result of `pack_weights`.
"""

import base64
import hashlib
import json
import re
import zlib
from collections.abc import Iterable, Mapping
from html import escape
from importlib.resources import files
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from allyouneed.errors import DataError

MODULES: Final = (
    "web/elements.js",
    "web/attention.js",
    "web/state.js",
    "web/controls.js",
    "web/raster.js",
    "web/lines.js",
    "web/matrix.js",
    "web/measures.js",
    "web/heads.js",
    "web/explorer.js",
)
"""The modules of the explorer; each follows the modules that it imports."""
_START = """\
const main = document.querySelector("main");
explore(main, JSON.parse(document.querySelector("#attention").textContent), { address: true })
  .catch((error) => { main.textContent = `This browser cannot show the attention: ${error}`; });
"""
_FRAME_HEIGHT = 760
MOST_WEIGHTS: Final = 50_000_000
"""Maximum per page, one byte each before compression: about 1,000 by 1,000 pieces, 4 layers of 4 heads."""


def attention_page(document: Mapping[str, Any]) -> str:
    """One self-contained HTML page.

    Args:
        document: The result of `Attention.document` or `Attention.to_json`.

    Raises:
        DataError: The document has more than `MOST_WEIGHTS` weights.
    """
    text = document["sequences"]["source"]["text"]
    title = "".join(character if character.isprintable() else " " for character in text)
    style = style_sheet("theme", "explorer", "page")
    return scripted_page(f"Attention: {title}", style, MODULES, _START, pack_weights(document))


def scripted_page(title: str, style: str, modules: Iterable[str], start: str, contents: object) -> str:
    """A page that shows `contents`, its element `#attention` of JSON, by modules and a script after them."""
    script = f"{_bundle(modules)}\n{start}"
    policy = (
        f"default-src 'none'; script-src '{hash_source(script)}'; style-src '{hash_source(style)}'; "
        "base-uri 'none'; form-action 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
    )
    return (
        f"{html_head(title, policy, style)}<main></main>\n"
        "<noscript>The attention is drawn by a script of this page: allow scripts to see it.</noscript>\n"
        f'<script type="application/json" id="attention">{json_in_html(contents)}</script>\n'
        f'<script type="module">{script}</script>\n</html>\n'
    )


def html_head(title: str, policy: str, style: str) -> str:
    """The beginning of a page, up to its body, with a content security policy and a style sheet."""
    return (
        '<!doctype html>\n<html lang="en">\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>{style}</style>\n"
    )


def attention_frame(document: Mapping[str, Any]) -> str:
    """The page as a sandboxed `iframe`, for a notebook: neither can access the other."""
    page = escape(attention_page(document))
    return (
        f'<iframe title="Attention" sandbox="allow-scripts" width="100%" height="{_FRAME_HEIGHT}" '
        f'style="border: 0" srcdoc="{page}"></iframe>'
    )


def pack_weights(document: Mapping[str, Any]) -> dict[str, Any]:
    """The document with compressed weights: the square root of each weight in 8 bits, then zlib.

    The error of a weight w is at most sqrt(w) / 255, so at most 0.004. To unpack a row, square its values and
    divide by their sum. `packed`, the base64 of the compressed bytes, and `shape`, (layers, heads, queries,
    keys), replace `weights`.

    Raises:
        DataError: The document has more than `MOST_WEIGHTS` weights.
    """
    weights = {name: np.asarray(kind["weights"]) for name, kind in document["kinds"].items()}
    if (total := sum(of_kind.size for of_kind in weights.values())) > MOST_WEIGHTS:
        raise too_many_weights(
            total, *(len(document["sequences"][name]["pieces"]) for name in ("source", "target"))
        )
    return {**document, "kinds": {name: _packed(document["kinds"][name], weights[name]) for name in weights}}


def too_many_weights(num_weights: int, source_len: int, target_len: int) -> DataError:
    """The error for a text whose weights are more than `MOST_WEIGHTS`."""
    return DataError(
        f"the page would hold {num_weights:,} weights, of {source_len} by {target_len} pieces, "
        f"more than the maximum of {MOST_WEIGHTS:,}: give a shorter text, or draw some heads with png",
        settings=["png"],
        label="E-TOO-LONG",
    )


def _packed(kind: Mapping[str, Any], weights: npt.NDArray[Any]) -> dict[str, Any]:
    compress = zlib.compressobj()
    parts = [
        compress.compress(np.rint(255 * np.sqrt(layer.clip(0, 1))).astype(np.uint8).tobytes())
        for layer in weights
    ]
    packed = base64.b64encode(b"".join([*parts, compress.flush()])).decode()
    rest = {name: value for name, value in kind.items() if name != "weights"}
    return rest | {"packed": packed, "shape": weights.shape}


def _bundle(modules: Iterable[str]) -> str:
    """Modules joined into one script; no two of them define the same name."""
    joined = "\n".join(map(read_part, modules))
    return re.sub(r"^import .*\n|^export (default )?", "", joined, flags=re.MULTILINE)


def read_part(path: str) -> str:
    """The text of a file of this package."""
    return files("allyouneed.explorer").joinpath(*path.split("/")).read_bytes().decode()


def style_sheet(*names: str) -> str:
    """Style sheets of `web/` as one, each after those that it imports."""
    read = (read_part(f"web/{name}.css") for name in names)
    return "".join(re.sub(r"^@import .*\n", "", style, flags=re.MULTILINE) for style in read)


def hash_source(content: str) -> str:
    """The source expression by which a content security policy allows this script or style sheet."""
    return f"sha256-{base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()}"


def json_in_html(value: Any) -> str:
    """JSON that cannot close the element that holds it: `<`, `>`, `&` and non-ASCII are escaped."""
    text = json.dumps(value, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
