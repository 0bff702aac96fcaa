"""Instructions of a chat, such as "Translate to German:", of which only the languages are followed.

A request's text may begin with an instruction, which ends in a colon and is not translated. Otherwise the
system's messages count: they are never translated, and choose the languages if they speak of translating and
name one target, as in "from English to German", "English-German", "into German", or `en-de`.
"""

import re
from collections.abc import Sequence
from typing import Final

from allyouneed.serve.directions import NAMED, Direction, language_code

Languages = tuple[str | None, str]
"""Codes of the source language, if it is named, and of the target language."""

_MOST_CHARACTERS: Final = 4_000
"""Number of characters of the system's messages that are looked at: all of a long one would take seconds."""
_NAME: Final = rf"\b(?:{'|'.join(sorted(NAMED, key=len, reverse=True)).replace(' ', '[ ]')})\b"
_LANGUAGE: Final = rf"(?:{_NAME}|\b[a-z]{{2,3}}(?:[-_][a-z0-9]{{2,8}})*\b)"
_PREFIX: Final = re.compile(
    rf"""\s*(?:please\s+)?translate\b(?P<before>[^:.!?\n]{{0,80}}?)
    \b(?:in)?to\s+(?P<target>{_LANGUAGE})(?:\s+language\b)?
    (?:\s+from\s+(?P<source>{_LANGUAGE}))?
    (?:\s+(?:\(|the\b|this\b|these\b)[^:.!?\n]{{0,40}})?
    (?:\s*,\s*please)?\s*:\s*(?P<text>\S.*)""",
    re.IGNORECASE | re.DOTALL | re.VERBOSE,
)
_FROM: Final = re.compile(rf"\bfrom\s+({_LANGUAGE})\s*$|({_NAME})", re.IGNORECASE)
_NAMING: Final = re.compile(
    rf"(?:({_NAME})(?:\s+text)?[\s-]+)?\b(?:in)?to[\s-]+({_NAME})"
    rf"|({_NAME})\s*(?:-|–|→|->)\s*({_NAME})|\bfrom\s+({_NAME})",
    re.IGNORECASE,
)


def read_instruction(text: str) -> tuple[Languages | None, str]:
    """The languages of the instruction that a text begins with, and the rest; None and the text without."""
    found = _PREFIX.fullmatch(text)
    target = found and language_code(found["target"])
    if not found or not target:
        return None, text
    sources = {found["source"]} if found["source"] else {a or b for a, b in _FROM.findall(found["before"])}
    source = language_code(sources.pop()) if len(sources) == 1 else None
    return (source, target), found["text"]


def languages_of(prompt: str, directions: Sequence[Direction]) -> Languages | None:
    """The languages that the system's messages name; None if they name none, or several.

    Args:
        prompt: The text of the messages.
        directions: The directions that are served, which the messages may name as in "en-de".
    """
    prompt = prompt[:_MOST_CHARACTERS]
    if "translat" not in prompt.lower():
        return None
    words = set(re.findall(r"[\w-]+", prompt))
    named = [each for each in directions if f"{each.source}-{each.target}" in words]
    sources, targets = {each.source for each in named}, {each.target for each in named}
    for before, to, one, other, origin in _NAMING.findall(prompt):
        sources |= {NAMED[name.lower()] for name in (before, one, origin) if name}
        targets |= {NAMED[name.lower()] for name in (to, other) if name}
    if len(targets) != 1 or len(sources) > 1:
        return None
    return next(iter(sources), None), targets.pop()
