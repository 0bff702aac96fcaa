"""The page stays quick, and its file small, with 100 by 100 words, 6 layers and 16 heads."""

from pathlib import Path
from typing import Any

import pytest

from allyouneed.explorer import attention_page

pytestmark = [pytest.mark.browser, pytest.mark.alone]

OPENS_SECONDS, DRAWS_SECONDS, REDRAWS_SECONDS, FILE_BYTES = 1.0, 0.2, 0.05, 8_000_000
"""What is shown for the first time has its weights unpacked and its canvases made."""

SINCE_START = "performance.getEntriesByName('explorer is drawn')[0].startTime / 1000"
REDRAW = """async ([name, value]) => {
    document.querySelector(`input[name=${name}][value="${value}"]`).click();
    for (const canvas of document.querySelectorAll("canvas")) {
        canvas.getContext("2d").getImageData(0, 0, 1, 1);  // waits for every pixel
    }
    await new Promise((resolve) => requestAnimationFrame(() => setTimeout(resolve)));  // and for the layout
}"""
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
    assert (len(source["words"]), len(source["pieces"])) == (100, 150)
    return document


def test_the_file_is_bounded(large_document: dict[str, Any]) -> None:
    size = len(attention_page(large_document))
    print(f"\n100 x 100 words, 6 layers, 16 heads: {size:,} bytes")
    assert size < FILE_BYTES


@pytest.mark.parametrize("view", ["lines", "matrix", "heads", "measures"])
def test_it_opens_and_redraws_within_the_bars(
    browser: Any, large_document: dict[str, Any], view: str, tmp_path: Path
) -> None:
    """The time is the processor's, of the page's thread, as others may compute on this machine, too."""
    path = tmp_path / "page.html"
    path.write_bytes(attention_page(large_document).encode())
    page = browser.contexts[0].new_page()
    page.set_default_timeout(120_000)
    session = page.context.new_cdp_session(page)
    session.send("Performance.enable", {"timeDomain": "threadTicks"})
    page.goto(f"{path.as_uri()}#kind=encoder&view={view}")
    page.wait_for_selector("main[data-ready]")
    opening, elapsed = busy_seconds(session), page.evaluate(SINCE_START)
    first, again = (sorted(redraw_seconds(page, session, change) for change in CHANGES) for _ in range(2))
    page.close()
    for name, seconds in (("draws", first), ("redraws", again)):
        print(f"\n{view} {name} in {' '.join(f'{each:.3f}' for each in seconds)} s", end="")
    print(f", opens in {opening:.3f} s ({elapsed:.3f} s by the clock)")
    assert opening < OPENS_SECONDS
    assert first[len(CHANGES) // 2] < DRAWS_SECONDS
    assert again[len(CHANGES) // 2] < REDRAWS_SECONDS


def redraw_seconds(page: Any, session: Any, change: tuple[str, str]) -> float:
    before = busy_seconds(session)
    page.evaluate(REDRAW, change)
    return busy_seconds(session) - before


def busy_seconds(session: Any) -> float:
    """How long the page's main thread has computed."""
    metrics = {
        metric["name"]: metric["value"] for metric in session.send("Performance.getMetrics")["metrics"]
    }
    return float(metrics["TaskDuration"])
