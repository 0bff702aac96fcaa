"""Words that would like to be more than text, on the page and in the file."""

import re
from html.parser import HTMLParser
from typing import Any

import pytest

from allyouneed.explorer.page import attention_frame, attention_page
from allyouneed.tasks.attention_maps import Attention

PAYLOADS = [
    "<script>alert(1)</script>",
    "</script><script>alert(1)</script>",
    "<!--<script>",
    "--><img src=x onerror=alert(1)>",
    "<img src=x onerror=alert(1)>",
    "<svg onload=alert(1)>",
    "</title></style></textarea></main>",
    "]]><![CDATA[",
    "\"'`",
    '" onfocus="alert(1)" autofocus="',
    "&lt;b&gt;&amp;&#60;",
    "javascript:alert(1)",
    "${alert(1)}",
    "{{constructor.constructor('alert(1)')()}}",
    "\\u003cscript\\u003e",
    "\\",
    "__proto__",
    "\u202egnirts\u202c",
    "\u2066isolate",
    "\u2028\u2029",
    "\x00\x01\x1b[31m",
    "\x7f\x85\xa0\ufeff",
    "\U0001f468\u200d\U0001f469\u200d\U0001f467",
    "\U0001f1e9\U0001f1ea",
    "Z\u0351\u036b\u0343\u036a\u0302",
    "\u0627\u0644\u0633\u0644\u0627\u0645",
    "\U0010ffff\ufffd\ufffe",
    "x" * 300,
    "",
    " ",
]
FRAMES = ["{}", "a{}b", '"{}', "'{}'", "<{}>", "{}</script>", "&{};"]
HOSTILE = [frame.format(payload) for frame in FRAMES for payload in PAYLOADS][:200]


def with_words(attention: Attention, words: list[str]) -> dict[str, Any]:
    """The attention of letters, of which the first so many words are these, in source and target."""
    document = attention.document()
    for name, sequence in document["sequences"].items():
        texts = iter(words if name == "source" else words[::-1])
        for word in sequence["words"]:
            word["text"] = next(texts, word["text"])
        sequence["text"] = " ".join(words)
        sequence["pieces"] = [words[place % len(words)] for place in range(len(sequence["pieces"]))]
    return document


@pytest.fixture(scope="module")
def long_attention(make_attention: Any) -> Attention:
    letters: Attention = make_attention(" ".join("abcdefghij" * 20), " ".join("klmnopqrst" * 20), 1, 1)
    return letters


class Tags(HTMLParser):
    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[Any] = []
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attributes: Any) -> None:
        self.tags.append((tag, attributes))

    def handle_endtag(self, tag: str) -> None:
        self.tags.append(tag)


def test_there_are_two_hundred_of_them() -> None:
    assert len(set(HOSTILE)) == 200


def test_the_file_has_the_same_elements_whatever_the_words_are(long_attention: Attention) -> None:
    harmless = Tags(attention_page(with_words(long_attention, ["word"] * 200))).tags
    hostile = attention_page(with_words(long_attention, HOSTILE))
    assert Tags(hostile).tags == harmless
    assert len(harmless) == 17
    data = hostile.split('id="attention">')[1].split("</script>")[0]
    assert re.fullmatch(r"[\x20-\x7e]+", data)
    assert not re.search("[<>&]", data)


def test_a_frame_is_one_element(long_attention: Attention) -> None:
    frame = attention_frame(with_words(long_attention, HOSTILE))
    (iframe, attributes), end = Tags(frame).tags
    assert (iframe, end) == ("iframe", "iframe")
    assert dict(attributes)["sandbox"] == "allow-scripts"
    assert dict(attributes)["srcdoc"] == attention_page(with_words(long_attention, HOSTILE))


@pytest.mark.browser
@pytest.mark.parametrize("view", ["lines", "matrix", "heads", "measures"])
def test_words_are_shown_as_text_and_make_no_node(
    open_page: Any, long_attention: Attention, view: str
) -> None:
    count = "() => document.querySelectorAll('*').length"
    tables = "() => { for (const node of document.querySelectorAll('details')) node.open = true; }"
    numbers = []
    for words in (["word"] * 200, HOSTILE):
        page = open_page(f"#kind=cross&view={view}", with_words(long_attention, words))
        page.evaluate(tables)
        page.wait_for_timeout(200)
        numbers.append(page.evaluate(count))
        if view == "lines":
            assert page.locator(".keys li").all_text_contents()[:200] == words
            assert page.locator(".queries li").all_text_contents()[:200] == words[::-1]
            page.locator(".keys li").nth(1).click()
        if view == "matrix":
            header = page.locator(".behind thead th").all_text_contents()
            assert header[1:201] == words
    assert numbers[0] == numbers[1]


def test_words_that_cannot_be_seen_are_named(make_attention: Any) -> None:
    attention: Attention = make_attention("a\u202eb\u200b \u2028 \U0001f600", "x")
    assert [word.text for word in attention.source.words] == [
        "a",
        "<U+202E>",
        "b",
        "<U+200B>",
        "\U0001f600",
        "</s>",
    ]
