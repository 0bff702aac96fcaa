"""The page in a real browser, on a real server."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.serve.conftest import StartServer

pytestmark = pytest.mark.browser

ENGLISH = "a star bear sees wolf. fish likes bird\nriver stone tree"
"""The toy model has never read its first word, so there are alternatives."""
HOSTILE = [
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    '"><svg onload=alert(1)>',
    "</textarea><script>alert(1)</script>",
    "javascript:alert(1)",
    "{{7*7}} ${7*7} <%= 7 %>",
    "&lt;b&gt; &amp; &#x3c;script&#x3e;",
    "<style>*{display:none}</style>",
    "\u202egnp.exe\u202c \u2066isolated\u2069",
    "a\u0301\u0302\u0303\u0304" * 30,
    "👩‍👩‍👧‍👦 " * 20,
    "\u0000\u0007\u001b[31m red",
]


@pytest.fixture
def faults() -> list[str]:
    """What goes wrong in the page: exceptions, errors on the console, dialogs."""
    return []


@pytest.fixture
def open_page(browser: Any, faults: list[str]) -> Iterator[Any]:
    """Opens pages and looks at what goes wrong in them."""
    contexts: list[Any] = []

    def opened(address: str, **options: Any) -> Any:
        context = browser.new_context(**({"viewport": {"width": 1200, "height": 800}} | options))
        contexts.append(context)
        page = context.new_page()
        page.on("pageerror", lambda error: faults.append(str(error)))
        page.on("console", lambda message: faults.append(message.text) if message.type == "error" else None)
        page.on("dialog", lambda dialog: faults.append(dialog.message))
        page.goto(address)
        page.wait_for_selector("textarea, dialog, [role=alert], noscript p")
        return page

    yield opened
    for context in contexts:
        context.close()
    assert faults == []


@pytest.fixture
def page(start_server: StartServer, open_page: Any) -> Any:
    return open_page(start_server())


def translate(page: Any, text: str, source: str = "en") -> list[str]:
    """Write a text and wait for its translation; return its words."""
    page.select_option("select[aria-label='Source language']", source)
    page.fill("textarea", text)
    page.wait_for_selector(".target:not([aria-busy]) .word")
    return words(page)


def words(page: Any) -> list[str]:
    found: list[str] = page.locator(".target .word").all_inner_texts()
    return found


def languages(page: Any) -> list[str]:
    found: list[str] = page.locator("select").evaluate_all("(all) => all.map(({ value }) => value)")
    return found


def test_the_files_have_types_and_are_not_sent_twice(start_server: StartServer) -> None:
    with httpx.Client(base_url=start_server(token="t")) as client:
        index = client.get("/")
        assert index.headers["content-type"] == "text/html; charset=utf-8"
        for path in re.findall(r'(?:href|src)="(/[^"]+)"', index.text):
            found = client.get(path)
            assert found.status_code == 200, path
            again = client.get(path, headers={"If-None-Match": found.headers["etag"]})
            assert (again.status_code, again.content) == (304, b"")
        assert not re.search(r"<script>|<style>|style=|\son\w+=|https?://", index.text)


def test_a_text_is_translated_line_by_line(page: Any) -> None:
    expected = translate(page, ENGLISH)
    assert len(expected) > 4
    assert page.inner_text(".target").count("\n") == 1
    assert page.inner_text(".count") == f"{len(ENGLISH)} / 5,000"
    page.fill("textarea", "")
    page.wait_for_selector(".target:not(:has(.word))")


def test_the_translation_grows_as_it_becomes_certain(page: Any) -> None:
    page.evaluate(
        """() => {
          window.seen = [];
          new MutationObserver(() => seen.push(document.querySelector('.target').textContent))
            .observe(document.querySelector('.target'), { childList: true });
        }"""
    )
    translate(page, "moon star\nriver stone tree\nbear\n" * 25)  # long enough for more than a glimpse
    seen = page.evaluate("seen")
    assert len(seen) > 2
    assert all(seen[-1].startswith(text) for text in seen)


def test_another_word_changes_its_sentence_and_can_be_undone(page: Any) -> None:
    before = translate(page, ENGLISH)
    page.locator(".word").nth(0).click()
    page.wait_for_selector(".menu button")
    chosen = page.locator(".menu button strong").first.inner_text()
    page.locator(".menu button").first.click()
    assert words(page)[0] == chosen != before[0]
    assert words(page)[-3:] == before[-3:]
    page.click("text=Undo")
    assert words(page) == before


def test_the_keyboard_alone_is_enough(page: Any) -> None:
    before = translate(page, "a star bear sees wolf")
    page.focus(".word >> nth=0")
    page.keyboard.press("ArrowRight")
    assert page.evaluate("document.activeElement.textContent") == before[1]
    page.keyboard.press("Home")
    page.keyboard.press("Enter")
    page.wait_for_selector(".menu button")
    chosen = page.evaluate("document.activeElement.querySelector('strong').textContent")
    page.keyboard.press("Enter")
    assert words(page)[0] == chosen
    page.keyboard.press("Enter")
    page.wait_for_selector(".menu button")
    page.keyboard.press("Escape")
    assert page.locator(".menu").count() == 0
    assert page.evaluate("document.activeElement.className").startswith("word")
    enter = (
        "document.activeElement.dispatchEvent(new KeyboardEvent('keydown', { key: 'Enter', bubbles: true }));"
    )
    page.evaluate(enter * 2)
    page.wait_for_selector(".menu button")
    assert page.locator(".menu").count() == 1
    page.keyboard.press("Escape")
    assert page.locator(".menu").count() == 0


def test_linked_words_are_marked_on_both_sides(page: Any) -> None:
    translate(page, "moon star")
    page.locator(".word").nth(1).hover()
    assert page.locator(".mirror .linked").all_inner_texts() == ["star"]
    page.locator(".mirror span").first.hover(force=True)
    assert page.locator(".target .linked").all_inner_texts() == ["noomo"]
    page.mouse.move(5, 5)
    assert page.locator(".linked").count() == 0


def test_words_that_a_third_language_parts_are_not_linked(page: Any) -> None:
    page.select_option("select[aria-label='Target language']", "fr")
    translate(page, "moon star")
    hint = page.inner_text(".status")
    page.locator(".word").nth(0).hover()
    assert page.locator(".linked").count() == 0
    page.locator(".word").nth(0).click()
    page.locator(".menu button").first.click()
    page.mouse.move(5, 5)
    page.locator(".word").nth(0).hover()
    assert page.locator(".linked").count() == 0
    assert hint == "Click a word of the translation for alternatives."


def test_attention_is_explored_in_a_dialog(page: Any) -> None:
    translate(page, ENGLISH)
    page.click("text=Attention")
    page.wait_for_selector("dialog .attention-explorer canvas")
    assert page.locator("dialog .controls").evaluate("(form) => getComputedStyle(form).paddingLeft") == "0px"
    page.keyboard.press("Escape")
    page.wait_for_selector("dialog", state="detached")


def test_a_sentence_is_drawn_as_a_tree(page: Any) -> None:
    page.click("#modes >> text=Parse")
    page.fill("textarea", "the sun sees the moon .")
    page.wait_for_selector("svg.tree")
    leaves = page.locator("svg.tree text.word").all_text_contents()
    assert leaves == ["the", "sun", "sees", "the", "moon", "."]
    assert page.inner_text(".brackets").startswith("(TOP (S (NP")
    page.click("text=Attention")
    page.wait_for_selector("dialog .attention-explorer canvas")


def test_languages_are_chosen_and_swapped(page: Any) -> None:
    targets = "select[aria-label='Target language'] option"
    page.select_option("select[aria-label='Source language']", "en")
    assert page.locator(targets).all_inner_texts() == ["German", "French"]
    page.select_option("select[aria-label='Source language']", "de")
    assert page.locator(targets).all_inner_texts() == ["French"]
    assert page.locator("[aria-label='Swap languages']").is_disabled()


def test_a_swap_takes_the_translation_of_the_text_that_is_there(page: Any) -> None:
    def serve_back_too(route: Any) -> None:
        listed = route.fetch().json()
        listed["directions"].append({"source": "de", "target": "en", "models": ["ende"]})
        route.fulfill(json=listed)

    def translate_back(route: Any) -> None:
        route.continue_(post_data=json.dumps(route.request.post_data_json | {"source": "en", "target": "de"}))

    page.route("**/api/models", serve_back_too)
    page.route("**/api/stream", translate_back)
    page.reload()
    translated = translate(page, "moon star")
    swap = page.locator("[aria-label='Swap languages']")
    swap.click()
    assert page.input_value("textarea") == " ".join(translated)
    page.wait_for_selector(".target:not([aria-busy]) .word")
    page.evaluate(
        """() => {
          const area = document.querySelector("textarea");
          area.value = "river";
          area.dispatchEvent(new Event("input"));
          document.querySelector("[aria-label='Swap languages']").click();
        }"""
    )
    assert page.input_value("textarea") == "river"  # what is shown is a translation of another text
    assert languages(page) == ["en", "de"]


def test_the_text_is_kept_when_the_page_is_loaded_again(page: Any) -> None:
    page.select_option("select[aria-label='Source language']", "auto")
    page.select_option("select[aria-label='Target language']", "fr")
    page.fill("textarea", "moon star\nsun")
    page.wait_for_selector(".target:not([aria-busy]) .word")
    before = words(page)
    page.reload()
    page.wait_for_selector(".target:not([aria-busy]) .word")
    assert page.input_value("textarea") == "moon star\nsun"
    assert (languages(page), words(page)) == (["auto", "fr"], before)
    page.click("text=Clear")
    page.reload()
    page.wait_for_selector("textarea")
    assert page.input_value("textarea") == ""


def test_without_scripts_the_page_says_only_that_it_needs_them(
    start_server: StartServer, open_page: Any
) -> None:
    page = open_page(start_server(), java_script_enabled=False)
    assert page.inner_text("main") == "This page needs scripts: allow them to translate."


def test_the_theme_is_that_of_the_system_until_it_is_chosen(
    start_server: StartServer, open_page: Any
) -> None:
    page = open_page(start_server(), color_scheme="dark")
    background = "getComputedStyle(document.body).backgroundColor"
    dark = page.evaluate(background)
    page.click("#theme")
    light = page.evaluate(background)
    assert dark != light
    page.reload()
    page.wait_for_selector("textarea")
    assert page.evaluate(background) == light


def test_a_phone_shows_all_without_scrolling_sideways(start_server: StartServer, open_page: Any) -> None:
    page = open_page(start_server(), viewport={"width": 390, "height": 844})
    translate(page, ENGLISH + " " + "moon" * 60)
    assert page.evaluate("document.documentElement.scrollWidth") == 390
    page.locator(".word").nth(0).click()
    page.wait_for_selector(".menu button")
    assert page.evaluate("document.documentElement.scrollWidth") == 390


def test_the_token_is_asked_for_and_kept(
    start_server: StartServer, open_page: Any, faults: list[str]
) -> None:
    page = open_page(start_server(token="secret"))
    page.fill("dialog input", "wrong")
    page.keyboard.press("Enter")
    page.wait_for_selector("text=The server does not know this token")
    page.fill("dialog input", "secret")
    page.keyboard.press("Enter")
    page.wait_for_selector("textarea")
    assert translate(page, "moon star")
    page.reload()
    page.wait_for_selector("textarea")


def test_a_text_that_is_too_long_is_not_sent_and_the_reason_is_in_sight(
    start_server: StartServer, open_page: Any
) -> None:
    page = open_page(start_server(most_characters=100))
    translate(page, "moon " + "\U0001f600" * 95)  # two UTF-16 units each
    assert page.inner_text(".count") == "100 / 100"
    page.fill("textarea", "\n" * 100 + "a")
    page.wait_for_selector("text=The text is longer than 100 characters; shorten it.")
    assert words(page) == []
    page.evaluate("scrollTo(0, 0)")
    box = page.locator(".status").bounding_box()
    assert box["y"] + box["height"] <= 800


def show_hostile(page: Any, texts: list[str]) -> None:
    """Show each text as source, as translation and in the menu, and count the page's nodes."""
    kinds = "[...new Set([...document.querySelectorAll('*')].map((node) => node.localName))].sort().join()"
    translate(page, "moon star")
    before = page.evaluate(kinds)
    for text in texts:
        page.fill("textarea", text)
        page.wait_for_selector(".target:not([aria-busy])")
        shown = page.evaluate("document.querySelector('.mirror').textContent.slice(0, -1)")
        assert shown == page.input_value("textarea")
        page.evaluate(
            """async (text) => {
              const { targetField } = await import("/web/target.js");
              const { openMenu } = await import("/web/menu.js");
              const { drawTree, readTree } = await import("/web/tree.js");
              const field = targetField(() => {}, () => {});
              document.body.append(field.node);
              field.show(text, true);
              const menu = openMenu(field.node, () => {}, () => {});
              menu.show([{ next: text, rest: text }]);
              const tree = readTree(`(S (X ${text.replace(/[()\\s]/g, "") || "x"}))`);
              document.body.append(drawTree(tree));
              menu.shut();
              field.node.remove();
              document.querySelector("svg.tree").remove();
            }""",
            text,
        )
        assert page.evaluate(kinds) == before


def test_hostile_texts_are_shown_as_text(page: Any) -> None:
    """Promise: Hostile requests."""
    show_hostile(page, HOSTILE)


@pytest.mark.release
def test_two_hundred_hostile_texts_are_shown_as_text(page: Any) -> None:
    """Promise: Hostile requests."""
    show_hostile(page, [f"{first} {second}" for first in HOSTILE for second in HOSTILE + HOSTILE[:5]][:200])


def test_a_file_is_translated_and_downloaded(
    open_page: Any, start_server: StartServer, tmp_path: Path
) -> None:
    page = open_page(start_server(files=True))
    file = tmp_path / "en.md"
    file.write_bytes(b"# star bear\n\nriver **stone** tree\n")
    with page.expect_download() as download:
        page.set_input_files("input[type=file]", file)
    download.value.save_as(tmp_path / "de.md")
    assert download.value.suggested_filename == "en.md"
    assert (tmp_path / "de.md").read_bytes().count(b"**") == 2
    page.wait_for_function("document.querySelector('[role=status]').textContent.includes('is translated')")
    page.set_input_files("input[type=file]", {"name": "a.doc", "mimeType": "text/plain", "buffer": b"x"})
    page.wait_for_function("document.querySelector('[role=status]').textContent.includes('of no kind')")


def test_a_server_without_files_has_no_button_for_them(open_page: Any, start_server: StartServer) -> None:
    assert open_page(start_server()).locator("input[type=file]").count() == 0
