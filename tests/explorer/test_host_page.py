"""The explorer as a component of another page, which keeps its own looks and its own address."""

import json
from collections.abc import Iterator
from importlib.resources import files
from typing import Any

import pytest

from allyouneed.explorer.page import pack_weights
from allyouneed.tasks.attention_maps import Attention

pytestmark = pytest.mark.browser

HOST = """<!doctype html>
<link rel="stylesheet" href="/web/explorer.css">
<h1>Host</h1><table><tr><td>cell</td></tr></table><button>Press</button>
<div id="first"></div><div id="second"></div>
<script type="module">
  import { explore } from "/web/explorer.js";
  const contents = await (await fetch("/contents")).json();
  window.close_first = await explore(document.querySelector("#first"), contents);
  window.close_second = await explore(document.querySelector("#second"), contents);
</script>
"""
PLAIN = "<!doctype html><h1>Host</h1><table><tr><td>cell</td></tr></table><button>Press</button>"
LOOKS = """() => ["html", "body", "h1", "table", "table td", "button"].map((name) => {
    const { color, backgroundColor, font, margin, padding, textAlign, borderCollapse } =
        getComputedStyle(document.querySelector(name));
    return [color, backgroundColor, font, margin, padding, textAlign, borderCollapse];
})"""


@pytest.fixture
def host(browser: Any, attention: Attention) -> Iterator[Any]:
    """A page that has imported the modules and shows two explorers."""
    page = browser.contexts[0].new_page()
    page.set_default_timeout(60_000)

    def answer(route: Any) -> None:
        path = route.request.url.removeprefix("http://host.test/").split("#")[0]
        if path == "contents":
            route.fulfill(body=json.dumps(pack_weights(attention.document())), content_type="text/json")
        elif path.startswith("web/"):
            kind = "text/css" if path.endswith("css") else "text/javascript"
            content = files("allyouneed.explorer").joinpath(path).read_bytes()
            route.fulfill(body=content, content_type=kind)
        else:
            route.fulfill(body=PLAIN if path == "plain" else HOST, content_type="text/html")

    page.route("http://host.test/**", answer)
    page.goto("http://host.test/#kind=encoder&view=measures")
    page.wait_for_selector("#second[data-ready]")
    yield page
    page.close()


def test_the_host_keeps_its_looks_and_its_address(host: Any) -> None:
    looks = host.evaluate(LOOKS)
    assert host.locator("#first input[name=view]:checked").get_attribute("value") == "lines"
    host.locator("#first").get_by_role("radio", name="Matrix").check()
    assert host.url.endswith("#kind=encoder&view=measures")
    host.evaluate("location.hash = 'chapter-2'")
    assert host.locator("#first input[name=view]:checked").get_attribute("value") == "matrix"
    assert host.locator("#second input[name=view]:checked").get_attribute("value") == "lines"
    assert host.url.endswith("#chapter-2")
    host.goto("http://host.test/plain")
    assert host.evaluate(LOOKS) == looks


def test_an_explorer_that_is_closed_leaves_nothing_behind(host: Any) -> None:
    errors: list[Any] = []
    host.on("pageerror", lambda error: errors.append(str(error)))
    assert listeners(host).count("resize") == 2
    host.evaluate("window.close_first()")
    assert listeners(host).count("resize") == 1
    first = host.locator("#first")
    assert first.evaluate("node => [node.childElementCount, node.className, node.dataset.ready ?? null]") == [
        *(0, "", None)
    ]
    host.set_viewport_size({"width": 700, "height": 500})
    host.emulate_media(color_scheme="dark")
    host.evaluate("new Promise((resolve) => requestAnimationFrame(() => setTimeout(resolve)))")
    assert first.evaluate("node => node.childElementCount") == 0
    host.locator("#second").get_by_role("radio", name="Matrix").check()
    assert host.locator("#second canvas").count() == 1
    assert errors == []


def listeners(page: Any) -> list[str]:
    """The events of the window that something waits for."""
    session = page.context.new_cdp_session(page)
    window = session.send("Runtime.evaluate", {"expression": "window"})["result"]["objectId"]
    found = session.send("DOMDebugger.getEventListeners", {"objectId": window})["listeners"]
    return [listener["type"] for listener in found]
