"""How soon the attention page opens, and shows something else, with 100 by 100 words, 6 layers and 16 heads.

The time is that which the page's thread computes, in Chromium, as other programs may compute beside it. Each
change is made twice: what is shown for the first time has its weights unpacked and its canvases made.
"""

import json
import shutil
import statistics
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch
from playwright.sync_api import CDPSession, Page, sync_playwright

from allyouneed.config.run import RunConfig
from allyouneed.data.tokenizer import SMALLEST_VOCABULARY, Tokenizer
from allyouneed.explorer.page import attention_page
from allyouneed.hardware.machine import environment
from allyouneed.inference.attention_weights import AttentionWeights
from allyouneed.tasks.attention_maps import Pieces, look_into

RESULTS = Path(__file__).parent / "results" / "explorer.json"
TEXT = "ab," * 49 + "ab"  # 99 words in 149 pieces, and the end symbol
LAYERS, HEADS = 6, 16
VIEWS = "lines", "matrix", "heads", "measures"
CHANGES = [
    *(("kind", "cross"), ("layer", "1"), ("kind", "decoder"), ("layer", "3")),
    *(("parts", "pieces"), ("layer", "4"), ("kind", "encoder"), ("parts", "words")),
]
CHANGE = """async ([name, value]) => {
    document.querySelector(`input[name=${name}][value="${value}"]`).click();
    for (const canvas of document.querySelectorAll("canvas")) {
        canvas.getContext("2d").getImageData(0, 0, 1, 1);  // waits for every pixel
    }
    await new Promise((resolve) => requestAnimationFrame(() => setTimeout(resolve)));  // and for the layout
}"""


def page_of_random_attention() -> bytes:
    """A page whose weights are random, and far from uniform."""
    tokenizer = Tokenizer.train([], "byte", SMALLEST_VOCABULARY)
    ids = tokenizer.encode(TEXT)
    pieces, length = Pieces.of(tokenizer, ids), len(ids) + 1
    draw = torch.Generator().manual_seed(1)
    scores = 4 * torch.randn(3, LAYERS, HEADS, length, length, generator=draw)
    scores[1].masked_fill_(torch.ones(length, length).triu(1).bool(), float("-inf"))
    config = RunConfig().replace(model={"num_layers": LAYERS, "num_heads": HEADS})
    attention = look_into(AttentionWeights(*scores.softmax(dim=-1)), pieces, pieces, config)
    return attention_page(attention.document()).encode()


def busy_seconds(session: CDPSession) -> float:
    """How long the page's main thread has computed."""
    metrics = session.send("Performance.getMetrics")["metrics"]
    return float(next(metric["value"] for metric in metrics if metric["name"] == "TaskDuration"))


def seconds_of_changes(page: Page, session: CDPSession) -> list[float]:
    """How long each change takes."""
    taken = []
    for change in CHANGES:
        before = busy_seconds(session)
        page.evaluate(CHANGE, list(change))
        taken.append(busy_seconds(session) - before)
    return taken


def measure(browser: Any, path: Path, view: str) -> dict[str, float]:
    """Seconds until the page is open, and medians of the changes when made first and again."""
    page = browser.new_page(viewport={"width": 1200, "height": 900})
    session = page.context.new_cdp_session(page)
    session.send("Performance.enable", {"timeDomain": "threadTicks"})
    page.goto(f"{path.as_uri()}#kind=encoder&view={view}")
    page.wait_for_selector("main[data-ready]")
    opens = busy_seconds(session)
    first, again = (seconds_of_changes(page, session) for _ in range(2))
    page.close()
    return {"opens": opens, "draws": statistics.median(first), "redraws": statistics.median(again)}


def main() -> None:
    """Measure, print, and keep it in `results/`."""
    chromium = shutil.which("chromium-headless-shell") or shutil.which("chromium")
    if chromium is None:
        print("not measured: needs Chromium (Debian's chromium-headless-shell)")
        return
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as started:
        path = Path(folder) / "page.html"
        path.write_bytes(page_of_random_attention())
        browser = started.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        views = {view: measure(browser, path, view) for view in VIEWS}
        result = {
            "date": datetime.now(UTC).date().isoformat(),
            "environment": environment(torch.device("cpu")),
            "chromium": browser.version,
            "file_bytes": path.stat().st_size,
            "seconds": views,
        }
        browser.close()
    for view, seconds in views.items():
        print(f"{view:<10}" + "".join(f"  {name} in {taken:.3f} s" for name, taken in seconds.items()))
    RESULTS.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
