"""A real browser for tests of pages."""

import shutil
from collections.abc import Iterator
from typing import Any

import pytest

SCREEN = {"width": 1200, "height": 900}


@pytest.fixture(scope="module")  # while it is there, the thread has an event loop, and can run no other
def browser() -> Iterator[Any]:
    """Chromium without a window, with a context for pages on an ordinary screen."""
    playwright = pytest.importorskip("playwright.sync_api", reason="NOT RUN: needs playwright")
    chromium = shutil.which("chromium-headless-shell") or shutil.which("chromium")
    if chromium is None:
        pytest.skip("NOT RUN: needs chromium")
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=chromium, args=["--no-sandbox"], timeout=120_000)
        browser.new_context(viewport=SCREEN)
        yield browser
        browser.close()
