"""Markdown: what is text, and that the page renders as before."""

import pytest
from markdown_it import MarkdownIt
from tests.files.shouting import SEEN, shouted_text

PAGE = """---
title: Dogs
---
# A dog *runs*

A **young** man sits on a `bench` and reads [a red book](http://x.org/a_b "T (x)"), see [this][ref], [ref] or
<http://y.org>.  ![a cat](c.png) 2 \\* 3 &amp; more.\\
Next line.

> A quote
> of two lines.

- [ ] A man
- Two [x] dogs
  * nested `code`

1. First step

| A cat | The house |
|---|:-:|
| red *shirt* | 42 |

```python
print("A dog")
```

    indented code

<div><p>A <b>big</b> dog.</p></div>

Title
=====

* * *

[ref]: http://z.org
"""


def test_text_is_translated_and_all_else_stays() -> None:
    found = shouted_text("a.md", PAGE)
    assert (
        found
        == """---
title: Dogs
---
# A DOG *RUNS*

A **YOUNG** MAN SITS ON A `bench` AND READS [A RED BOOK](http://x.org/a_b "T (x)"), SEE [THIS][ref], \
[REF][ref] OR <http://y.org>. ![a cat](c.png) 2 \\* 3 & MORE.\\
NEXT LINE.

> A QUOTE OF TWO LINES.

- [ ] A MAN
- TWO [X] DOGS
  * NESTED `code`

1. FIRST STEP

| A CAT | THE HOUSE |
|---|:-:|
| RED *SHIRT* | 42 |

```python
print("A dog")
```

    indented code

<div><p>A <b>BIG</b> DOG.</p></div>

TITLE
=====

* * *

[ref]: http://z.org
"""
    )


def test_a_paragraph_is_one_text() -> None:
    shouted_text("a.md", PAGE)
    assert "Two [x] dogs" in SEEN
    assert "A quote of two lines." in SEEN


@pytest.mark.parametrize(
    "text",
    [
        "1\\. x",
        "\\# a",
        "\\- a",
        "\\> a",
        "a \\*b\\* c",
        "\\`a\\`",
        "\\_a\\_",
        "\\<b>",
        "\\[a](b)",
        "&amp;lt;",
    ],
)
def test_signs_that_would_mean_something_are_escaped(text: str) -> None:
    parser = MarkdownIt("commonmark")
    assert parser.render(shouted_text("a.md", text)) == parser.render(text).upper().replace(
        "<P>", "<p>"
    ).replace("</P>", "</p>").replace("&LT;", "&lt;").replace("&GT;", "&gt;").replace("&AMP;", "&amp;")


def test_line_ends_stay() -> None:
    assert shouted_text("a.md", "# A\r\n\r\nb c\r\n") == "# A\r\n\r\nB C\r\n"


def test_alerts_footnotes_and_line_breaks_stay_in_quotations() -> None:
    page = "> [!NOTE]\n> A dog\n> runs.\n\n> A line  \n> another\n\nText[^1].\n\n[^1]: A note\n"
    assert shouted_text("a.md", page) == (
        "> [!NOTE]\n> A DOG RUNS.\n\n> A LINE  \n> ANOTHER\n\nTEXT[^1].\n\n[^1]: A NOTE\n"
    )


def test_what_ends_a_line_in_markdown_shifts_nothing() -> None:
    assert shouted_text("a.md", "a\rb\n\nc d\n") == "A B\n\nC D\n"


def test_html_within_a_quotation_stays() -> None:
    page = "> <div>\n> a b\n> </div>\n\nText\n"
    assert shouted_text("a.md", page) == page.replace("Text", "TEXT")


def test_links_by_their_own_names_still_lead_there() -> None:
    page = "See [Getting started][] or [Install  it], [the *third*] and [x](y).[^1]\n\n[^1]: A note.\n"
    targets = "\n[getting started]: a\n[install it]: b\n[The *third*]: c\n"
    assert shouted_text("a.md", page + targets) == (
        "SEE [GETTING STARTED][Getting started] OR [INSTALL IT][Install it], [THE *THIRD*][the *third*] AND "
        "[X](y).[^1]\n\n[^1]: A NOTE.\n" + targets
    )


def test_brackets_and_bars_mean_no_more_than_before() -> None:
    assert shouted_text("a.md", "[z\\]](/u) and [1]\n") == "[Z\\]](/u) AND [1]\n"
    table = "| a | b |\n|---|---|\n| one \\| *two* `x \\| y` | c |\n"
    assert shouted_text("a.md", table) == ("| A | B |\n|---|---|\n| ONE \\| *TWO* `x \\| y` | C |\n")


def test_bars_outside_of_tables_stay() -> None:
    assert shouted_text("a.md", "- run `a | b`\n  and more | or\n") == "- RUN `a | b` AND MORE | OR\n"
    table = "| A | B | C |\n|---|---|---|\n| x \\| y | x | y |\n"
    assert shouted_text("a.md", table) == "| A | B | C |\n|---|---|---|\n| X \\| Y | X | Y |\n"


def test_settings_in_toml_stay() -> None:
    page = '+++\ntitle = "One"\n+++\nA dog\n'
    assert shouted_text("a.md", page) == page.replace("A dog", "A DOG")
