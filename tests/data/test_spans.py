"""Spans that are not translated are found whole, and ordinary prose has none."""

import pytest
from tests.terms.ui_strings import ui_strings

from allyouneed.data.spans import Spans, at_edges
from allyouneed.errors import UsageError


def found(text: str, *patterns: str) -> list[str]:
    return [text[span.begin : span.end] for span in Spans(patterns).find(text)]


def test_every_span_of_the_strings_of_interfaces_is_found_and_nothing_else() -> None:
    for text, spans in ui_strings():
        assert sorted("".join(found(text))) == sorted("".join(spans))
        left = text
        for span in sorted(spans, key=len, reverse=True):
            assert any(span in each for each in found(text))
            left = left.replace(span, "", 1)
        assert Spans().find(left) == []


@pytest.mark.parametrize(
    ("text", "spans"),
    [
        ("See https://a.example/b?c=1#d. Bye", ["https://a.example/b?c=1#d"]),
        ("(www.a.example/b), a@b.example!", ["www.a.example/b", "a@b.example"]),
        (
            "{n, plural, =0 {none} one {# file} other {{x} files}} left",
            ["{n, plural, =0 {none} one {# file} other {{x} files}}"],
        ),
        ("file{s} of {a}{b}", ["file{s}", "{a}{b}"]),
        ("你好{name}先生", ["{name}"]),
        ("Run `a b` at 5 GB or 3,5 km, 20% off", ["`a b`", "5 GB", "3,5 km", "20%"]),
        ("sold 100%% of %s", ["100%%", "%s"]),
        ("[X0X]red[X7X] fish of [X12X]", ["[X0X]", "[X7X]", "[X12X]"]),
        ("<0>red</0>fish<br/>dog, caf&eacute;", ["<0>", "</0>", "<br/>", "caf&eacute;"]),
        ("Tag #one, @two and &amp; 👩🏽‍💻👍 ok", ["#one", "@two", "&amp;", "👩🏽‍💻👍"]),
    ],
)
def test_spans_are_found_whole(text: str, spans: list[str]) -> None:
    assert found(text) == spans


@pytest.mark.parametrize(
    "text",
    [
        "I <3 you",
        "100 people at 10:30",
        "AT&T and B&B",
        "No. 5 is #1",
        "a < b > c",
        "Peter's dog (3 years old)",
        "50",
    ],
)
def test_prose_has_no_spans(text: str) -> None:
    assert found(text) == []


def test_patterns_of_the_user_are_found_beside_the_others() -> None:
    assert found("Acme Cloud {x} ACME-12", r"Acme Cloud", r"ACME-\d+") == ["Acme Cloud", "{x}", "ACME-12"]
    assert found("ab 5 GB", r"(?i)B 5") == ["ab 5 GB"]


@pytest.mark.parametrize(
    ("pattern", "message"), [("(", "is no regular expression"), ("x*", "fits the empty text")]
)
def test_patterns_that_are_not_usable_are_refused(pattern: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        Spans([pattern])


@pytest.mark.parametrize(
    ("text", "core"),
    [
        ("Great! 🎉", "Great!"),
        ("🎉 Great #one #two", "Great"),
        ("{user}: hello", "hello"),
        ("Error: {message}", "Error:"),
        ("{user} says {message}", "{user} says {message}"),
        ("{a} {b}", "{a} {b}"),
    ],
)
def test_spans_at_the_ends_that_are_no_part_of_a_sentence_are_left_out(text: str, core: str) -> None:
    begin, end = at_edges(text, Spans().find(text))
    assert text[begin:end] == core


def test_time_is_proportional_to_the_text() -> None:
    for piece in ("{", "{a", "{a}", "`", "http://", "a@", "#", "&", "%(", "<a ", "1,", "@a.", "__a", "🎉"):
        Spans().find(piece * 20_000)


def test_places_without_text_are_no_spans() -> None:
    assert found("banana a", r"\b", r"(?=a)") == []
