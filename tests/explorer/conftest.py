"""Attention made of chosen or random weights, and its page in a real browser."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.chromium import SCREEN

from allyouneed.config.run import RunConfig
from allyouneed.data.tokenizer import SMALLEST_VOCABULARY, Tokenizer
from allyouneed.explorer.page import attention_page
from allyouneed.inference.attention_weights import AttentionWeights
from allyouneed.tasks.attention_maps import Attention, Pieces, look_into

MakeAttention = Callable[..., Attention]
OpenPage = Callable[..., Any]

BYTES = Tokenizer.train([], "byte", SMALLEST_VOCABULARY)
SOURCE, TARGET = "Two dogs run.", "Zwei Hunde rennen."


def contrast(colour: Sequence[float], other: Sequence[float]) -> float:
    """The ratio of WCAG 2 between two colours, as red, green and blue from 0 to 255."""
    linear = [
        [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in np.array(each) / 255]
        for each in (colour, other)
    ]
    darker, lighter = sorted(float(np.dot([0.2126, 0.7152, 0.0722], each)) for each in linear)
    return (lighter + 0.05) / (darker + 0.05)


@pytest.fixture(scope="session")
def make_attention() -> MakeAttention:
    """Attention of texts whose pieces are letters, with random weights far from uniform."""

    def make(
        source: str = SOURCE,
        target: str = TARGET,
        layers: int = 3,
        heads: int = 4,
        decoder: tuple[int, int] | None = None,
    ) -> Attention:
        """`decoder` has the number of layers of its attention to itself, and to the source."""
        own, cross = decoder or (layers, layers)
        ids = BYTES.encode(source), BYTES.encode(target)
        source_len, target_len = (len(of_text) + 1 for of_text in ids)
        draw = torch.Generator().manual_seed(1)
        scores = [
            4 * torch.randn(number, heads, rows, columns, generator=draw)
            for number, rows, columns in (
                (layers, source_len, source_len),
                (own, target_len, target_len),
                (cross, target_len, source_len),
            )
        ]
        scores[1].masked_fill_(torch.ones(target_len, target_len).triu(1).bool(), float("-inf"))
        sizes = {"num_layers": layers, "num_decoder_layers": cross, "num_heads": heads}
        config = RunConfig().replace(model=sizes)
        weights = AttentionWeights(*(of_kind.softmax(dim=-1) for of_kind in scores))
        return look_into(weights, Pieces.of(BYTES, ids[0]), Pieces.of(BYTES, ids[1]), config)

    return make


@pytest.fixture(scope="session")
def attention(make_attention: MakeAttention) -> Attention:
    """That of `SOURCE` and `TARGET`."""
    return make_attention()


@pytest.fixture
def open_page(browser: Any, attention: Attention, tmp_path: Path) -> Iterator[OpenPage]:
    """Open the page of a document at a fragment; afterwards it is asserted that nothing was amiss.

    No error was raised, nothing logged, no dialog shown, and nothing loaded but the file itself.
    """
    contexts: list[Any] = []
    pages: list[Any] = []
    amiss: list[str] = []
    requested: list[str] = []

    def open_at(fragment: str = "", document: dict[str, Any] | None = None, **screen: Any) -> Any:
        path = tmp_path / "page.html"
        path.write_bytes(attention_page(document or attention.document()).encode())
        if screen:
            contexts.append(browser.new_context(viewport=SCREEN, **screen))
        pages.append((contexts[-1] if screen else browser.contexts[0]).new_page())
        page = pages[-1]
        page.set_default_timeout(60_000)
        page.on("pageerror", lambda error: amiss.append(f"error: {error}"))
        page.on("console", lambda message: amiss.extend([message.text] * (message.type == "error")))
        page.on("dialog", lambda dialog: amiss.append(f"dialog: {dialog.message}"))
        page.on("request", lambda request: requested.append(request.url.split("#")[0]))
        page.goto(f"{path.as_uri()}{fragment}")
        page.wait_for_selector("main[data-ready]")
        return page

    yield open_at
    for opened in (*pages, *contexts):
        opened.close()
    assert amiss == []
    assert set(requested) <= {(tmp_path / "page.html").as_uri()}
