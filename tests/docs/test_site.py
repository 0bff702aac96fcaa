"""The documentation as a site builds without a warning, loads nothing from elsewhere, and fits screens."""

import functools
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]


class Quiet(SimpleHTTPRequestHandler):
    """Serves files without a log."""

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The site, built and served on loopback."""
    pytest.importorskip("zensical", reason="NOT RUN: needs zensical")
    folder = tmp_path_factory.mktemp("site")
    shutil.copytree(ROOT / "docs", folder / "docs")
    shutil.copy(ROOT / "zensical.toml", folder)
    command = [sys.executable, "-m", "zensical", "build", "--strict"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}  # for what shows code in the chapters
    built = subprocess.run(command, cwd=folder, env=environment, capture_output=True, check=False)
    assert built.returncode == 0, built.stdout.decode() + built.stderr.decode()
    handler = functools.partial(Quiet, directory=folder / "site")
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


@pytest.mark.browser
@pytest.mark.parametrize("width", [1_240, 390])
@pytest.mark.parametrize("path", ["", "commands/", "results/index.html"])
def test_a_page_loads_nothing_from_elsewhere_and_fits(
    browser: Any, address: str, path: str, width: int
) -> None:
    page = browser.contexts[0].new_page()
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.set_viewport_size({"width": width, "height": 900})
    page.goto(address + path, wait_until="networkidle")
    assert [url for url in asked if not url.startswith((address, "data:", "blob:"))] == []
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.close()


@pytest.mark.browser
@pytest.mark.parametrize(("scheme", "is_dark"), [("light", False), ("dark", True)])
def test_the_site_is_light_or_dark_as_the_reader_wishes(
    browser: Any, address: str, scheme: str, is_dark: bool
) -> None:
    reader = browser.new_context(color_scheme=scheme)  # whose choice is not that of another test
    page = reader.new_page()
    page.goto(address)
    [red, green, blue] = page.evaluate(
        "getComputedStyle(document.body).backgroundColor.match(/[0-9.]+/g).slice(0, 3).map(Number)"
    )
    assert (red + green + blue < 3 * 128) == is_dark
    reader.close()


@pytest.mark.browser
def test_the_home_page_says_first_what_this_is_and_search_finds_a_term(browser: Any, address: str) -> None:
    page = browser.contexts[0].new_page()
    page.goto(address, wait_until="networkidle")
    assert "translator of your own" in page.locator("article p").first.inner_text()
    page.keyboard.press("Control+k")
    page.keyboard.type("label smoothing")
    page.get_by_text("Glossary").locator("visible=true").nth(1).wait_for()
    page.close()
