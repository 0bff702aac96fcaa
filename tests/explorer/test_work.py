"""The page does little to show anything else, counted with 100 by 100 words, 6 layers and 16 heads.

How long it takes is measured by `benchmarks/explorer.py`.
"""

from pathlib import Path
from typing import Any, NamedTuple

import pytest

from allyouneed.explorer.page import attention_page

pytestmark = pytest.mark.browser

FILE_BYTES = 8_000_000
WORDS, PIECES, PICTURES = 100, 150, 6 * 16
COUNTING = """
window.work = {drawn: 0, added: 0};
const drawing = CanvasRenderingContext2D.prototype;
for (const name of [
    "fillText", "fillRect", "strokeRect", "clearRect", "stroke", "fill", "drawImage", "putImageData",
]) {
    const draw = drawing[name];
    drawing[name] = function (...given) { window.work.drawn++; return draw.apply(this, given); };
}
const all = (node) => 1 + [...node.childNodes].reduce((sum, child) => sum + all(child), 0);
new MutationObserver((records) => {
    for (const record of records) for (const node of record.addedNodes) window.work.added += all(node);
}).observe(document, {childList: true, subtree: true});
"""
CHANGE = """async ([name, value]) => {
    Object.assign(window.work, {drawn: 0, added: 0});
    document.querySelector(`input[name=${name}][value="${value}"]`).click();
    await new Promise((resolve) => requestAnimationFrame(() => setTimeout(resolve)));
    return window.work;
}"""


class Most(NamedTuple):
    """The most that a change may do."""

    other_picture: int
    """Nodes that a change of the kind of attention, or between words and pieces, adds to the page."""
    other_layer: int
    """Nodes that a change of the layer adds."""
    drawn: int
    """Calls that draw on a canvas."""


MOST = {
    "lines": Most(other_picture=3 * (PIECES + PIECES) + 20, other_layer=5, drawn=5),
    "matrix": Most(other_picture=20, other_layer=5, drawn=PIECES + PIECES + 60),
    "heads": Most(other_picture=4 * PICTURES, other_layer=5, drawn=PICTURES),
    "measures": Most(other_picture=40 * PICTURES, other_layer=5, drawn=0),
}
"""A list has three nodes for each piece, a matrix two labels, and the other views something of each head."""

CHANGES = [
    ("kind", "cross"),
    ("layer", "1"),
    ("kind", "decoder"),
    ("layer", "3"),
    ("parts", "pieces"),
    ("layer", "4"),
    ("kind", "encoder"),
    ("parts", "words"),
]


@pytest.fixture(scope="module")
def large_document(make_attention: Any) -> dict[str, Any]:
    words = "ab," * 49 + "ab"  # 99 of them in 149 pieces, and the end symbol
    document: dict[str, Any] = make_attention(words, words, layers=6, heads=16).document()
    source = document["sequences"]["source"]
    assert (len(source["words"]), len(source["pieces"])) == (WORDS, PIECES)
    return document


def test_the_file_is_bounded(large_document: dict[str, Any]) -> None:
    size = len(attention_page(large_document))
    print(f"\n100 x 100 words, 6 layers, 16 heads: {size:,} bytes")
    assert size < FILE_BYTES


@pytest.mark.parametrize("view", MOST)
def test_a_change_adds_and_draws_no_more_than_what_it_shows(
    browser: Any, large_document: dict[str, Any], view: str, tmp_path: Path
) -> None:
    path = tmp_path / "page.html"
    path.write_bytes(attention_page(large_document).encode())
    page = browser.contexts[0].new_page()
    page.set_default_timeout(120_000)
    page.add_init_script(COUNTING)
    session = page.context.new_cdp_session(page)
    session.send("Performance.enable")
    page.goto(f"{path.as_uri()}#kind=encoder&view={view}")
    page.wait_for_selector("main[data-ready]")
    for name, value in CHANGES * 2:
        before = num_layouts(session)
        work = page.evaluate(CHANGE, [name, value])
        nodes = MOST[view].other_layer if name == "layer" else MOST[view].other_picture
        assert work["added"] <= nodes, (name, value)
        assert work["drawn"] <= MOST[view].drawn, (name, value)
        assert num_layouts(session) - before <= 2, (name, value)
    if view == "heads":
        assert work["drawn"] == 0  # each was drawn when it was shown for the first time
    if view == "lines":
        assert "the strongest 400 of" in page.inner_text("[role=status]")
    page.close()


def num_layouts(session: Any) -> int:
    """How often the page has been laid out."""
    metrics = session.send("Performance.getMetrics")["metrics"]
    return int(next(metric["value"] for metric in metrics if metric["name"] == "LayoutCount"))
