"""Subtitles (SubRip and WebVTT): sentences are translated across cues, and divided among them again."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from allyouneed.errors import DataError
from allyouneed.files.translating import Place, Translate, decoded, replaced, with_line_feeds
from allyouneed.markup.dialect import HTML, Dialect, escaped
from allyouneed.markup.document import Document
from allyouneed.markup.marks import Links, MarkedText
from allyouneed.markup.paragraph import Content, Paragraph

_TIME: Final = r"(?:\d+:)?\d\d:\d\d[,.]\d{3}"
_CUE: Final = re.compile(
    rf"^{_TIME}[ \t]*-->[ \t]*{_TIME}[^\n]*\n"
    rf"(?P<text>(?:(?!(?:\d+[ \t]*\n)?{_TIME}[ \t]*-->)[ \t]*[^\s][^\n]*(?:\n|\Z))+)",
    re.MULTILINE,
)
_TAGS: Final = re.compile(r"\A(?:<([ibu]|c[.\w]*|v[^>]*)>|(\{\\an?\d+\}))")
_CODE: Final = re.compile(r"<[/A-Za-z\d]|\{\\")
_DASH: Final = re.compile(r"\s*[-–—]\s*(?=\S)")
_SENTENCE_END: Final = re.compile(r"[.!?…:;。！？][\"'”’»)\]]*\s*\Z|\A\s*[♪♫#\[(]|[♪♫\])]\s*\Z")
_MOST_CUES: Final = 6
"""Number of cues of a sentence."""
_LONGEST_LINE: Final = 42
"""Characters of a line, above which it is divided if the cue had several lines."""
_SHARE_OF_LENGTH: Final = 4.0
"""Weight of the lengths of parts, in links across the place of a division per whole text."""

_MARKUP: Final = re.compile(HTML.markup.pattern + "\n" + r"| \{\\[^}]*\}", HTML.markup.flags)
_SUBRIP: Final = HTML._replace(markup=_MARKUP, keeps_lines=True, read=str, write=str)
"""SubRip has tags, and codes such as `{\\i1}`, but no entities."""
_WEBVTT: Final = HTML._replace(keeps_lines=True, write=escaped)


@dataclass
class _Cue:
    """The text of a cue, without tags around all of it."""

    begin: int
    end: int
    lines: list[str]
    tags: tuple[str, str] = ("", "")

    @property
    def text(self) -> str:
        """Its lines as one."""
        return " ".join(line.strip() for line in self.lines)

    @property
    def is_apart(self) -> bool:
        """Whether it is not joined with others: it has several speakers, or tags or notes inside."""
        return self.is_dialogue or _CODE.search(self.text) is not None

    @property
    def is_dialogue(self) -> bool:
        """Whether each line is of another speaker."""
        return len(self.lines) > 1 and all(map(_DASH.match, self.lines))

    def in_lines(self, text: str) -> str:
        """A translation in as many lines as it needs, at most those of the cue."""
        is_long = len(self.lines) > 1 and len(text) > _LONGEST_LINE
        return _in_lines(text, len(self.lines)) if is_long else text


def subrip(content: bytes, translate: Translate) -> bytes:
    """Translate a SubRip file; numbers, times and codes stay as they are.

    Raises:
        DataError: It has no cues.
    """
    return _translated(content, translate, _SUBRIP)


def webvtt(content: bytes, translate: Translate) -> bytes:
    """Translate a WebVTT file; times, styles, settings and notes stay as they are.

    Raises:
        DataError: It has no cues.
    """
    return _translated(content, translate, _WEBVTT)


def _translated(content: bytes, translate: Translate, dialect: Dialect) -> bytes:
    text, mark = decoded(content)
    text, with_own_ends = with_line_feeds(text)
    cues = [_cue(found) for found in _CUE.finditer(text)]
    if not cues:
        raise DataError("no subtitles (a time, an arrow `-->`, and text below); give a SubRip or WebVTT file")
    groups = [*_sentences(cues)]
    documents = [_alone(group[0], dialect) if group[0].is_apart else None for group in groups]
    sources = [
        document.texts if document else [MarkedText(dialect.read(" ".join(cue.text for cue in group)), [])]
        for document, group in zip(documents, groups, strict=True)
    ]
    found = iter(translate.answer([each for of_group in sources for each in of_group]))
    places = list[Place]()
    for document, group in zip(documents, groups, strict=True):
        if document:
            new = [document.translated(found)]
        else:
            of_cues = _divided([dialect.read(cue.text) for cue in group], *next(found))
            lines = (cue.in_lines(its) for cue, its in zip(group, of_cues, strict=True))
            new = [dialect.write(each) for each in lines]
        for cue, its in zip(group, new, strict=True):
            places.append((cue.begin, cue.end, cue.tags[0] + its + cue.tags[1]))
    return mark + with_own_ends(replaced(text, places)).encode()


def _cue(found: re.Match[str]) -> _Cue:
    text = found["text"].rstrip()
    before = after = ""
    if tag := _TAGS.match(text):
        name = re.match(r"\w+", tag[1] or "")
        closing = f"</{name[0]}>" if name else ""
        if not closing or (text.endswith(closing) and text.count("<") == 2):
            before, after = tag[0], closing
            text = text[len(before) : len(text) - len(after)]
    start = found.start("text")
    return _Cue(start, start + len(found["text"].rstrip()), text.split("\n"), (before, after))


def _alone(cue: _Cue, dialect: Dialect) -> Content:
    """The text of a cue that is not joined with others; the dashes of speakers stay."""
    pieces = list[str | Paragraph]()
    lines = cue.lines if cue.is_dialogue else ["\n".join(cue.lines)]
    for number, line in enumerate(lines):
        dash = _DASH.match(line) if cue.is_dialogue else None
        start = dash.end() if dash else 0
        pieces += ["\n" * bool(number), line[:start], *Document(line[start:], dialect).pieces]
    return Content(pieces, dialect.write)


def _sentences(cues: Sequence[_Cue]) -> Iterator[list[_Cue]]:
    """Cues in groups that end where a sentence does."""
    group = list[_Cue]()
    for cue in cues:
        if group and (cue.is_apart or cue.tags != group[-1].tags or len(group) == _MOST_CUES):
            yield group
            group = []
        group.append(cue)
        if cue.is_apart or _SENTENCE_END.search(cue.text):
            yield group
            group = []
    if group:
        yield group


def _divided(cues: Sequence[str], translation: str, links: Links | None) -> list[str]:
    """A translation as one part per cue: the fewest links lead from one cue to the part of another.

    The lengths of parts follow those of the cues as far as the links allow.
    """
    places, start = list[int](), 0
    for cue in cues[:-1]:
        start += len(cue) + 1
        places.append(start)
    gaps = [each.end() for each in re.finditer(r"\s+", translation)]
    total, size = len(" ".join(cues)), max(1, len(translation))
    chosen = [0]
    for number, place in enumerate(places):
        left = len(places) - number - 1
        open_gaps = [gap for gap in gaps if gap > chosen[-1]]
        open_gaps = open_gaps[: len(open_gaps) - left] or open_gaps
        if not open_gaps:
            chosen.append(chosen[-1] if chosen[-1] else len(translation))
            continue

        def cost(gap: int, place: int = place) -> float:
            crossing = sum((begin < place) != (first < gap) for begin, _, first, _ in links or ())
            return crossing + _SHARE_OF_LENGTH * len(places) * abs(gap / size - place / total)

        chosen.append(min(open_gaps, key=cost))
    return [translation[begin:end].strip() for begin, end in pairwise([*chosen, len(translation)])]


def _in_lines(text: str, most: int) -> str:
    """A text in lines of about equal length, at most so many."""
    num = min(most, -(-len(text) // _LONGEST_LINE))
    for number in range(1, num):
        gaps = [each.start() for each in re.finditer(" ", text)]
        if gaps:
            gap = min(gaps, key=lambda each: abs(each - number * len(text) / num))
            text = f"{text[:gap]}\n{text[gap + 1 :]}"
    return text
