"""Finds the spans of a text that translations contain as they are: placeholders, addresses, code, emoji."""

import re
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from allyouneed.errors import UsageError

_UNITS: Final = (
    "%%|%|‰|°C|°F|°|€|$|£|¥|px|pt|em|rem|dpi|fps|bit|Bit|B|kB|KB|MB|GB|TB|KiB|MiB|GiB|TiB|kbit/s|Mbit/s|Gbit/s|MB/s|"
    "mm|cm|dm|m|km|km²|m²|cm²|m³|km/h|m/s|mph|mg|g|kg|t|ml|cl|l|L|ms|s|min|h|W|kW|MW|kWh|V|mV|A|mA|Ah|mAh|"
    "Hz|kHz|MHz|GHz|Pa|hPa|bar|K|J|kJ|kcal|Nm|dB|USD|EUR|GBP|CHF"
)
_NUMBER: Final = r"\d+(?:[.,\u00a0\u202f'’]\d+)*+"
_UNIT: Final = "|".join(re.escape(unit) for unit in sorted(_UNITS.split("|"), key=len, reverse=True))
_BRACES: Final = r"\{(?:[^{}]++|\{(?:[^{}]++|\{(?:[^{}]++|\{[^{}]*+\})*+\})*+\})*+\}"
_PICTURE: Final = (
    "\U0001f1e6-\U0001f1ff\U0001f300-\U0001faff\u2190-\u21ff\u2300-\u23ff\u2600-\u27bf\u2b00-\u2bff"
)
KINDS: Final = {
    "code": r"(?<!`)`++[^`\n]++`++",
    "address": r"""\b[A-Za-z][A-Za-z\d+.-]{1,9}://[^\s<>"`]*[^\s<>"`.,;:!?)\]}'’»”]
        | \bwww\.[^\s<>"`]*[^\s<>"`.,;:!?)\]}'’»”]
        | (?<![\w.+-])[\w.+-]++@[\w-]+(?:\.[\w-]+)+""",
    "braces": rf"[$\#%@]?{_BRACES}",  # `{name}`, `${{x}}`, `{{{{x}}}}`, and plurals of ICU as a whole
    "percent": r"""%%
        | (?<![\d%])%(?:\d+\$|\(\w+\))?[-+\#0]*+\d*(?:\.\d+)?(?:hh?|ll?|[zjtL])?[diouxXeEfFgGcsSpan@](?!\w)
        | (?<![\w%])%[A-Za-z_]\w*%""",
    "brackets": r"""\[\[[^][\n]{1,100}\]\] | <%[^%\n]{1,100}%>
        | (?<!\w)__[A-Za-z]\w*?__(?!\w) | (?<![\w$])\$[A-Za-z_]\w+""",
    "tag": r"</?\d+\s?/?> | <[A-Za-z][\w.-]*\s?/> | \[X\d+X\]",  # the last one is Weblate's for anything
    "entity": r"&(?:\#\d+|\#[xX][\da-fA-F]+|[A-Za-z][A-Za-z\d]{1,31});",
    "escape": r"\\[nrt](?![a-z])",
    "hashtag": r"(?<![\w&/])\#\w*[^\W\d]\w*+",
    "mention": r"(?<![\w.@/])@\w[\w.-]*\w",
    "amount": rf"""(?<![\w.,])[-+±−]?{_NUMBER}[ \u00a0\u202f]?(?:{_UNIT})(?!\w)
        | (?<![\w.,])[$€£¥][ \u00a0]?{_NUMBER}""",
    "emoji": rf"(?:[\d\#*]\ufe0f?\u20e3|[{_PICTURE}][\ufe0f\u200d\u20e3\U000e0020-\U000e007f{_PICTURE}]*+)",
}
"""Kind of span -> regular expression."""
_LOOSE: Final = frozenset({"emoji", "hashtag"})
"""Kinds of spans that are no part of a sentence at the ends of a text."""
_APART: Final = frozenset({"emoji", "tag"})
"""Kinds of spans that letters may touch without belonging to them."""
_ENDS_SENTENCE: Final = re.compile(r"[.!?:;…。！？]\s*\Z")
_LEADS: Final = re.compile(r"\s*[:：]\s*|\s+[-–—|]\s+")


class Span(NamedTuple):
    """A part of a text."""

    begin: int
    end: int
    kind: str
    """Name in `KINDS`; empty if it fits a pattern of the user, or several spans that touch."""


class Spans:
    """Finds spans that are not translated.

    Args:
        patterns: Regular expressions of further spans.
        kinds: Kind of span -> regular expression, as in `KINDS`.

    Raises:
        UsageError: A pattern is no regular expression, or fits the empty text.
    """

    def __init__(self, patterns: Sequence[str] = (), kinds: Mapping[str, str] = KINDS) -> None:
        self._patterns = patterns
        self._own = [_usable(pattern) for pattern in patterns]
        named = (f"(?P<{kind}>{pattern}\n)" for kind, pattern in kinds.items())
        self._pattern = re.compile("|".join(named) or r"(?!)", re.VERBOSE)

    def of_all_kinds(self) -> "Spans":
        """The same, and spans of every kind of `KINDS`."""
        return Spans(self._patterns)

    def find(self, text: str) -> list[Span]:
        """The spans of a text, in order; those that touch are one; letters may belong to one."""
        of_own = (found for pattern in self._own for found in pattern.finditer(text))
        own = [Span(*found.span(), "") for found in of_own if found[0]]
        found = [Span(*each.span(), each.lastgroup or "") for each in self._pattern.finditer(text)]
        spans = list[Span]()
        for span in sorted(own + found):
            begin, end = span[:2] if span.kind in _APART else _widened(text, span.begin, span.end)
            if spans and begin <= spans[-1].end:
                spans[-1] = Span(spans[-1].begin, max(end, spans[-1].end), "")
            else:
                spans.append(Span(begin, end, span.kind))
        return spans

    def without(self, text: str) -> str:
        """A text with a space in place of each span."""
        spans = self.find(text)
        ends = [0, *(span.end for span in spans)]
        begins = [*(span.begin for span in spans), len(text)]
        return " ".join(text[begin:end] for begin, end in zip(ends, begins, strict=True))


def at_edges(text: str, spans: Sequence[Span]) -> tuple[int, int]:
    """Begin and end of a text without the spans at its ends that are no part of a sentence."""
    begin, end, left = 0, len(text), [*spans]
    while left and not text[begin : left[0].begin].strip():
        behind = text[left[0].end : end]
        lead = _LEADS.match(behind)
        if left[0].kind not in _LOOSE and not lead and behind.strip():
            break
        begin = left[0].end + (lead.end() if lead else len(behind) - len(behind.lstrip()))
        left.pop(0)
    while left and not text[left[-1].end : end].strip():
        before = text[begin : left[-1].begin]
        if left[-1].kind not in _LOOSE and not _ENDS_SENTENCE.search(before) and before.strip():
            break
        end = begin + len(before.rstrip())
        left.pop()
    return begin, end


def _widened(text: str, begin: int, end: int) -> tuple[int, int]:
    """A span with the letters and digits that touch it, in scripts that have spaces between words."""
    while begin and _is_of_word(text[begin - 1]):
        begin -= 1
    while end < len(text) and _is_of_word(text[end]):
        end += 1
    return begin, end


def _is_of_word(character: str) -> bool:
    return character == "_" or character.isdigit() or character.lower() != character.upper()


def _usable(pattern: str) -> re.Pattern[str]:
    try:
        compiled = re.compile(pattern)
    except re.error as error:
        fault = f"is no regular expression ({error}); correct it"
    else:
        if not compiled.match(""):
            return compiled
        fault = "fits the empty text; let it name at least one character"
    raise UsageError(f"keep_pattern: {pattern!r} {fault}", settings=["keep_pattern"])
