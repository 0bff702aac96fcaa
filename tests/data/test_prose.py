"""What is not plain prose is recognised by its form, and prose is not mistaken for it."""

import gzip
import os
import re
from pathlib import Path

import pytest

from allyouneed.data.prose import not_prose_in

FOUND = {
    "markup": r"""
        <b>|</p>|<br/>|<br />|<img src=|<input disabled value=|<0>|</0>|<!--|<?xml|<!DOCTYPE|<svg:a>
        &nbsp;|&#39;|&#x27;|&lt;|[/b]|[text](page.html)
        {\an8}|{\i1}|\n|\N
    """,
    "a time code of subtitles": """
        00:00:01,000 --> 00:00:04,000|00:01.000 --> 00:04.000|1:00:00.000-->1:00:01.000|0:00:01.00 -->
    """,
    "a placeholder": """
        %s|%d|%@|%ld|%.2f|%02d|%-5s|%1$s|%2$d|%(name)s|%n|%PATH%|%name%
        {}|{0}|{name}|{user.name}|{rows[0]}|{name!r}|{0:.2f}|${name}|#{name}|%{name}|{{name}}|{{ name }}
        {count, plural|<%= name %>|$user|__NAME__|[[name]]|{name|upper}|{n}|${a}
    """,
    "a URL": "https://example.org/a?b=c|ftp://x.y|s3://bucket/key|www.example.org",
    "an e-mail address": "a.b+c@example.org|ü@beispiel.de",
}
PIECES = [
    (kind, piece.strip())
    for kind, rows in FOUND.items()
    for row in rows.strip().split("\n")
    for piece in re.split(r"\|(?!upper)", row)
]


@pytest.mark.parametrize(("kind", "piece"), PIECES)
def test_a_piece_between_words_is_named(kind: str, piece: str) -> None:
    assert not_prose_in(f"See {piece} now") == f"has {kind} (`{piece}`)"


@pytest.mark.parametrize("piece", ["<b>", "%s", "%1$s", "{0}", "{name}", "&amp;", "[/b]"])
def test_a_piece_within_words_is_named(piece: str) -> None:
    for text in (f"see{piece}", f"({piece})", f"See {piece}{piece}.", f"{piece}: see"):
        assert f"`{piece}`" in (not_prose_in(text) or "")


@pytest.mark.parametrize(
    ("line", "piece"),
    [
        ('msgid "Open"', 'msgid "'),
        ('msgid_plural "dogs"', 'msgid_plural "'),
        ('msgstr[1] ""', 'msgstr[1] "'),
        ("app.title=Hello", "app.title="),
        ("app.title = Hello", "app.title ="),
        ("title=Hello", "title=H"),
        ('"title": "Hello"', '"title": "'),
        ('"The title": "Hello",', '"The title": "Hello",'),
        ('  "title": "Hello",', '"title": "'),
        ('{"text": "A dog"}', '{"text": "'),
        ('{"id": 7, "text": "A dog"}', '{"id": 7'),
        ('"Open" = "Open file";', '"Open" = "Open file";'),
        ("'open' => 'Open',", "'open' => '"),
    ],
)
def test_a_key_of_a_catalogue_is_named_at_the_beginning_of_any_line(line: str, piece: str) -> None:
    named = f"has a key of a catalogue or JSON file (`{piece}`)"
    assert not_prose_in(line) == not_prose_in(f"A dog.\n{line}\nruns.") == named
    assert not_prose_in(f"He wrote: {line.strip()}") is None


@pytest.mark.parametrize("line", ["Dialogue: 0,0:00:01.00,0:00:02.00,,A dog", "[00:12.50]A dog"])
def test_a_line_of_other_subtitles_is_named(line: str) -> None:
    assert (not_prose_in(f"A dog.\n{line}") or "").startswith("has a time code of subtitles (`")


@pytest.mark.parametrize(
    "prose",
    """
    5 < 6|I <3 you|a < b and c > d|a <b and c> d|x -> y <- z|--> there|a <= b
    AT&T|R&D; and Q&A; too|B&Bs; yes|Smith & Sons; more
    100 % sicher|100%|50%ige|100 %ige|a % b|5% off, 10%-20%|%50 indirim|5 % de|100%s
    { in prose|{ a, b }|{1, 2}|a } b|$5|US$ 5|[sic]|[1]|(see [1])
    10:30|um 10:30 Uhr|He said: "yes"|"Yes": that was it|'yes', he said|x = 5|e.g. this = that|msgid
    <<Bonjour>>, dit-il|x<y>z|"Yes": "No"|"Yes": "No", he said.|The set {a} is small.|a=b|E=mc2|A$AP|____
    at 5 @ home|@home|a@b|and/or|1/2|http|www|:-) :/ ;)
    """.replace("\n", "|").split("|"),
)
def test_prose_is_plain(prose: str) -> None:
    assert not_prose_in(prose) is None
    assert not_prose_in(prose.strip()) is None


def test_captions_have_only_the_entities_that_were_forgotten_in_them() -> None:
    if not (data := os.environ.get("ALLYOUNEED_DATA")):
        pytest.skip("ALLYOUNEED_DATA is not set: needs multi30k")
    for language, num_forgotten in (("de", 1), ("en", 16), ("fr", 0)):
        file = Path(data) / "multi30k" / f"train.{language}.gz"
        lines = gzip.decompress(file.read_bytes()).decode().split("\n")
        found = [each for line in lines if (each := not_prose_in(line))]
        assert found == ["has markup (`&amp;`)"] * num_forgotten


def test_the_piece_that_is_named_is_short() -> None:
    assert len(not_prose_in(f"https://example.org/{'a' * 1_000_000}") or "") < 100
