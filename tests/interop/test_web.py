"""The web export is a folder that translates in a browser, without this program and without a network."""

import functools
import json
import os
import re
import threading
from collections.abc import Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from tests.interop.foreign_models import SENTENCES
from tests.interop.marian_form import random_model, trained_run

from allyouneed.errors import UsageError
from allyouneed.interop.exporting import export_model
from allyouneed.interop.web import PACKAGE
from allyouneed.runs.loading import load_translator

FILES = "translator-worker.js", "bergamot-translator-worker.js", "bergamot-translator-worker.wasm"


@pytest.fixture(scope="module")
def marian_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model of random weights that names its languages."""
    return random_model(tmp_path_factory.mktemp("models") / "random")


@pytest.fixture(scope="module")
def no_engine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with files named as the engine's, for what does not run it."""
    folder = tmp_path_factory.mktemp("package")
    (folder / "worker").mkdir()
    for name in FILES:
        (folder / "worker" / name).write_bytes(name.encode())
    (folder / "package.json").write_bytes(b'{"version": "1.2.3"}')
    return folder


def test_the_folder_has_the_page_the_engine_and_the_model(
    marian_model: Path, no_engine: Path, tmp_path: Path
) -> None:
    options = {"engine": no_engine, "precision": "float32"}
    export_model(marian_model, "web", site := tmp_path / "site", options)
    described = json.loads((site / "model" / "model.json").read_bytes())
    assert (described["source"], described["target"]) == ("en", "de")
    assert described["config"] == {"gemm-precision": "float32"}
    for names in described["files"].values():
        assert all((site / "model" / name).is_file() for name in names)
    assert {f"engine/{name}" for name in FILES} <= {*described["page"]}
    assert all((site / path).exists() for path in described["page"])
    assert "1.2.3" in (site / "README.md").read_bytes().decode()


def test_every_file_of_the_page_names_the_others_where_they_are(
    marian_model: Path, no_engine: Path, tmp_path: Path
) -> None:
    options = {"engine": no_engine, "precision": "float32"}
    export_model(marian_model, "web", site := tmp_path / "site", options)
    named = re.findall(r'(?:href|src)="([^"]+)"', (site / "index.html").read_bytes().decode())
    assert len(named) >= 5
    assert all((site / path).is_file() for path in named)
    for script in [*site.glob("*.js"), *site.glob("explorer/*.js")]:
        for path in re.findall(r'from "([^"]+)"', script.read_bytes().decode()):
            assert (script.parent / path).is_file(), (script, path)


def test_what_is_missing_is_named(marian_model: Path, no_engine: Path, tmp_path: Path) -> None:
    def refused(model: Path, engine: Path | None) -> str:
        with pytest.raises(UsageError) as raised:
            export_model(model, "web", tmp_path / "site", {"precision": "float32", "engine": engine})
        assert not (tmp_path / "site").exists()
        return str(raised.value)

    assert f"engine: is not installed here; npm install {PACKAGE}" in refused(marian_model, None)
    assert "is no folder of it" in refused(marian_model, tmp_path)
    unnamed = random_model(tmp_path / "unnamed", languages=("", ""))
    assert "name them: languages en-de" in refused(unnamed, no_engine)


@pytest.fixture(scope="module")
def engine() -> Path:
    """The installed package of the engine, which BERGAMOT_TRANSLATOR names."""
    if not (named := os.environ.get("BERGAMOT_TRANSLATOR")):
        pytest.skip(f"NOT RUN: needs BERGAMOT_TRANSLATOR, the folder of npm's {PACKAGE}")
    return Path(named)


@pytest.fixture
def serve_folder() -> Iterator[Any]:
    """Serves folders as any web server does, until it is told to stop."""
    servers = list[ThreadingHTTPServer]()

    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *_: Any) -> None: ...

    def started(folder: Path) -> ThreadingHTTPServer:
        server = ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(folder)))
        servers.append(server)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        return server

    yield started
    for server in servers:
        server.shutdown()
        server.server_close()


@pytest.mark.browser
@pytest.mark.release
def test_a_browser_translates_as_the_program_does_and_goes_on_without_a_network(
    browser: Any, engine: Path, serve_folder: Any, tmp_path: Path
) -> None:
    run = trained_run(tmp_path)
    options = {"engine": engine, "languages": ("en", "de"), "precision": "float32"}
    export_model(run, "web", site := tmp_path / "site", options)
    expected = [each.text for each in load_translator(run).translate(SENTENCES[:20], beam_size=1)]
    server = serve_folder(site)
    context = browser.new_context(permissions=["clipboard-read", "clipboard-write"])
    page = context.new_page()
    page.goto(f"http://127.0.0.1:{server.server_port}")
    found = [translated(page, text) for text in SENTENCES[:20]]
    assert sum(map(str.__eq__, found, expected)) >= 19
    assert len({*found}) > 10
    page.get_by_role("button", name="Copy").click()
    page.get_by_text("Copied.").wait_for()
    assert page.evaluate("navigator.clipboard.readText()") == found[-1]
    page.wait_for_function("navigator.serviceWorker.ready.then(() => true)")
    page.wait_for_function("caches.open('allyouneed').then(async (kept) => (await kept.keys()).length > 20)")
    server.shutdown()
    server.server_close()
    page.reload()
    assert translated(page, SENTENCES[0]) == found[0]


def translated(page: Any, text: str) -> str:
    """The translation that the page shows of a text."""
    page.get_by_label("Text to translate").fill(text)
    page.get_by_text("Translated on this device").wait_for()
    page.wait_for_function("!document.querySelector('[aria-busy]')")
    return str(page.get_by_label("Translation").inner_text())
