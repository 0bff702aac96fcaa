"""Subtitles: times stay, and sentences are translated across cues."""

import re
from collections.abc import Sequence
from dataclasses import replace

import pytest
from tests.files.shouting import SEEN, shouted_text, shuffled

from allyouneed.errors import DataError
from allyouneed.files.formats import format_of
from allyouneed.markup.marks import Links, MarkedText

FILM = """1
00:00:01,000 --> 00:00:02,500
A young man
is sitting on

2
00:00:02,600 --> 00:00:04,000
a bench in the park.

3
00:00:05,000 --> 00:00:06,000
<i>Two dogs run.</i>

4
00:00:07,000 --> 00:00:08,000
- A man.
- A woman.

5
00:00:09,000 --> 00:00:10,000
{\\an8}A <b>big</b> dog.
"""


def test_texts_are_translated_and_times_stay() -> None:
    found = shouted_text("film.srt", FILM)
    expected = FILM.replace("A young man\nis sitting on", "A YOUNG MAN IS SITTING ON")
    for text in ("a bench in the park", "Two dogs run", "A man", "A woman", "A <b>big</b> dog"):
        upper = text.upper().replace("<B>", "<b>").replace("</B>", "</b>")
        expected = expected.replace(text, upper)
    assert found == expected


def test_a_sentence_across_cues_is_one_text() -> None:
    shouted_text("film.srt", FILM)
    assert SEEN[0] == "A young man is sitting on a bench in the park."
    assert SEEN[2:4] == ["A man.", "A woman."]


def test_long_lines_are_divided_where_the_cue_had_several() -> None:
    text = "A young man in a red shirt is sitting\non a bench in the middle of the park."
    found = shouted_text("film.srt", f"1\n00:00:01,000 --> 00:00:02,500\n{text}\n")
    assert found.split("\n")[2:4] == text.upper().split("\n")


def test_words_follow_the_alignment_into_their_cue() -> None:
    first, second = "1\n00:00:01,000 --> 00:00:02,000\n", "2\n00:00:02,000 --> 00:00:03,000\n"
    source = f"{first}I have seen\n\n{second}the two big dogs.\n"
    links = [(0, 1, 0, 3), (2, 6, 4, 8), (12, 15, 9, 12), (16, 19, 13, 19), (24, 28, 20, 25)]

    def answer(_: Sequence[MarkedText]) -> list[tuple[str, Links]]:
        return [("Ich habe die beiden Hunde gesehen.", links)]

    found = format_of("a.srt").translated(source.encode(), replace(shuffled(0), answer=answer)).decode()
    assert [found.split("\n")[2], found.split("\n")[6]] == ["Ich habe", "die beiden Hunde gesehen."]


@pytest.mark.parametrize("seed", range(20))
def test_every_cue_keeps_its_time_whatever_the_alignment(seed: int) -> None:
    found = format_of("film.srt").translated(FILM.encode(), shuffled(seed)).decode()
    times = [line for line in FILM.split("\n") if "-->" in line]
    assert [line for line in found.split("\n") if "-->" in line] == times
    assert sorted(re.findall(r"<[^>]*>", found)) == sorted(re.findall(r"<[^>]*>", FILM))
    assert sorted(re.sub(r"<[^>]*>|\{[^}]*\}", " ", found).split()) == sorted(
        re.sub(r"<[^>]*>|\{[^}]*\}", " ", FILM).split()
    )


def test_webvtt_keeps_notes_styles_and_settings() -> None:
    content = (
        "WEBVTT - A title\n\nSTYLE\n::cue { color: red }\n\nNOTE a remark\n\nfirst\n"
        "00:01.000 --> 00:02.000 align:start\n<v Anna>A dog runs.</v>\n"
    )
    assert shouted_text("film.vtt", content) == content.replace("A dog runs", "A DOG RUNS")


def test_what_has_no_cues_is_refused() -> None:
    with pytest.raises(DataError, match="no subtitles"):
        shouted_text("film.srt", "A dog runs.\n")


def test_cues_need_no_blank_line_between_them() -> None:
    content = "1\n00:00:01,000 --> 00:00:02,000\nHello\n2\n00:00:02,000 --> 00:00:03,000\nthere.\n"
    assert shouted_text("a.srt", content) == content.replace("Hello", "HELLO").replace("there", "THERE")


def test_subrip_has_no_entities_and_webvtt_has() -> None:
    cue = "00:00:01{}000 --> 00:00:02{}000\nI like <i>{}</i> music\n"
    subrip = "1\n" + cue.format(",", ",", "R&B\xa0x")
    assert shouted_text("a.srt", subrip) == subrip.replace("I like", "I LIKE").replace(
        "x</i> music", "X</i> MUSIC"
    )
    webvtt = "WEBVTT\n\n" + cue.format(".", ".", "R&amp;b")
    assert shouted_text("a.vtt", webvtt) == webvtt.replace("I like", "I LIKE").replace(
        "R&amp;b", "R&amp;B"
    ).replace("music", "MUSIC")
    plain = "WEBVTT\n\n00:01.000 --> 00:02.000\nTom &amp; Jerry\n"
    assert shouted_text("a.vtt", plain) == plain.replace("Tom", "TOM").replace("Jerry", "JERRY")


def test_codes_within_a_line_stay() -> None:
    content = "1\n00:00:01,000 --> 00:00:02,000\nA {\\i1}big{\\i0} dog\n"
    found = shouted_text("a.srt", content)
    assert "{\\i1}" in found
    assert "BIG" in found
