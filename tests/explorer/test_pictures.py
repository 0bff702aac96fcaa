"""Pictures can be read and reached with the keyboard; tables stay while their numbers do, and are bounded."""

from typing import Any

import numpy as np
import pytest
from tests.explorer.conftest import contrast

pytestmark = pytest.mark.browser

SENTENCE = ",".join("abcdefghij")
"""19 words of one letter each; with the end symbol, 20 pieces."""
CELL = 38  # pixels of the largest cell of the matrix
COLOURS = """([left, top, side]) => {
    const canvas = document.querySelector("canvas"), ratio = canvas.width / canvas.clientWidth;
    const { data } = canvas.getContext("2d").getImageData(...[left, top, side, side].map((n) => n * ratio));
    const paper = getComputedStyle(canvas.closest("main")).backgroundColor.match(/\\d+/g).map(Number);
    const colours = Array.from({ length: data.length / 4 }, (_, place) => paper.map((byte, channel) =>
        byte + (data[4 * place + channel] - byte) * data[4 * place + 3] / 255));
    const sorted = colours.toSorted((a, b) => a[0] + a[1] + a[2] - b[0] - b[1] - b[2]);
    return [colours[0], sorted[0], sorted.at(-1)];
}"""
"""Colours of a part of the matrix on its paper: that of its upper left corner, the darkest, the lightest."""
BACKGROUND = """(node) => {
    const context = document.createElement("canvas").getContext("2d");
    for (const { backgroundColor } of [getComputedStyle(node.closest("main")), node.style]) {
        context.fillStyle = backgroundColor;
        context.fillRect(0, 0, 1, 1);
    }
    return [...context.getImageData(0, 0, 1, 1).data.slice(0, 3)];
}"""


def document_of(make_attention: Any, weights: np.ndarray) -> dict[str, Any]:
    """A document whose encoder has one head, with these weights between the words of `SENTENCE`."""
    document: dict[str, Any] = make_attention(SENTENCE, "x", 1, 1).document()
    document["kinds"]["encoder"]["weights"] = weights[None, None]
    return document


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("picked", ["", "&from=20"])
def test_values_of_the_matrix_can_be_read(
    open_page: Any, make_attention: Any, scheme: str, picked: str
) -> None:
    weights = np.zeros((20, 20))
    weights[:, 0] = np.linspace(0.03, 1, 20)
    weights[:, 1] = 1 - weights[:, 0]
    document = document_of(make_attention, weights)
    page = open_page(
        f"#kind=encoder&view=matrix{picked}", document, color_scheme=scheme, device_scale_factor=4
    )
    width, height = page.locator("canvas").evaluate(
        "({ clientWidth, clientHeight }) => [clientWidth, clientHeight]"
    )
    left, top = width - 20 * CELL, height - 20 * CELL
    for query, key in np.argwhere(weights >= 0.01).tolist():
        corner = left + key * CELL + 2, top + query * CELL + 2
        background, darkest, lightest = page.evaluate(COLOURS, [*corner, CELL - 5])
        best = max(contrast(background, darkest), contrast(background, lightest))
        assert best >= 4.5, weights[query, key]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_words_at_the_end_of_strong_lines_can_be_read(
    open_page: Any, make_attention: Any, scheme: str
) -> None:
    document = document_of(make_attention, np.eye(20)[::-1])
    page = open_page("#kind=encoder&heads=1&from=1", document, color_scheme=scheme)
    word = page.locator(".keys li").last
    background = word.evaluate(BACKGROUND)
    text = word.evaluate("(node) => getComputedStyle(node).color.match(/\\d+/g).map(Number)")
    assert contrast(background, text) >= 4.5


def test_the_cursor_of_the_matrix_stays_in_sight(open_page: Any, make_attention: Any) -> None:
    document = make_attention("ab," * 49 + "ab", "x", 1, 1).document()  # 100 words with the end symbol
    page = open_page("#kind=encoder&view=matrix", document)
    page.set_viewport_size({"width": 390, "height": 600})
    page.locator("canvas").focus()
    canvas = """() => {
        const { left, top, right, bottom } = document.querySelector("canvas").getBoundingClientRect();
        return [left, top, innerWidth - right, innerHeight - bottom];
    }"""
    page.keyboard.press("ArrowDown")
    assert page.evaluate(canvas)[2] < 0  # it is wider than the screen
    for key, side in (("ArrowRight", 2), ("ArrowDown", 3), ("ArrowLeft", 0), ("ArrowUp", 1)):
        for _ in range(99):
            page.keyboard.press(key)
        assert page.evaluate(canvas)[side] > -1
    assert page.locator(".readout").inner_text().startswith("ab attends to ab ")


@pytest.mark.parametrize("view", ["lines", "matrix"])
def test_an_open_table_is_made_again_only_for_other_numbers(open_page: Any, view: str) -> None:
    page = open_page(f"#kind=encoder&view={view}&layer=1")
    page.get_by_text("As a table").click()
    page.locator(".behind table").wait_for()
    page.evaluate("window.first = document.querySelector('.behind table')")
    is_first = "document.querySelector('.behind table') === first"
    page.locator({"lines": ".keys li >> nth=2", "matrix": "canvas"}[view]).hover()
    assert "attend" in page.locator(".readout").inner_text()
    page.set_viewport_size({"width": 800, "height": 700})
    page.evaluate("new Promise((resolve) => requestAnimationFrame(() => setTimeout(resolve)))")
    assert page.evaluate(is_first)
    page.get_by_role("radio", name="2", exact=True).check()
    assert not page.evaluate(is_first)
    assert page.locator(".behind table").count() == 1


def test_a_table_that_is_cut_says_so(open_page: Any, make_attention: Any) -> None:
    document = make_attention("a," * 125, "x", 1, 1).document()
    page = open_page("#kind=encoder&view=matrix", document)
    page.get_by_text("As a table").click()
    page.locator(".behind table").wait_for()
    assert page.locator(".behind thead th").count() == 1 + 200
    assert page.locator(".behind tbody tr").count() == 200
    assert page.locator(".behind tbody td").count() == 40_000
    assert page.locator("caption").inner_text() == (
        "Layer 1, head 1. Only the first 200 of 251 rows and the first 200 of 251 columns are listed."
    )
