"""The elements of an XML file that have texts, found by one pass over its tags."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from allyouneed.markup.dialect import XML

_TRANSLATED: Final = re.compile(r"(?<![\w.-])translat(?:e|able)\s*=\s*[\"'](?:yes|true|(no|false))[\"']")


@dataclass
class Element:
    """An element of a text, with those of its children that were asked for."""

    start_tag: re.Match[str]
    is_fixed: bool
    """Whether it says, or an element around it, that its text is not to be translated."""
    children: "list[Element]" = field(default_factory=list)
    end_tag: re.Match[str] | None = None
    """None for an empty tag."""

    @property
    def name(self) -> str:
        """Its name, with the prefix."""
        return self.start_tag["name"]

    @property
    def span(self) -> tuple[int, int]:
        """Where it begins and ends in the text."""
        return self.start_tag.start(), (self.end_tag or self.start_tag).end()

    @property
    def inner_span(self) -> tuple[int, int]:
        """Where what is in it begins and ends."""
        begin = self.start_tag.end()
        return begin, self.end_tag.start() if self.end_tag else begin

    @property
    def content(self) -> str:
        """The text between its tags, with the markup in it."""
        return self.start_tag.string[slice(*self.inner_span)]

    def child(self, name: str) -> "Element | None":
        """Its first child of a name."""
        return next((each for each in self.children if each.name == name), None)


def elements(text: str, wanted: Mapping[str, frozenset[str]]) -> Iterator[Element]:
    """The elements of a well-formed text that are named, in the order in which they end.

    Args:
        text: The text.
        wanted: Name of elements -> names of the children that they are to have.
    """
    around = list[Element]()
    for tag in XML.markup.finditer(text):
        if not tag["name"]:
            continue
        if not tag["end"]:
            said = _TRANSLATED.search(tag["attributes"])
            is_fixed = bool(said[1]) if said else bool(around) and around[-1].is_fixed
            around.append(Element(tag, is_fixed))
        if tag["end"] or tag["attributes"].endswith("/"):
            ended = around.pop()
            ended.end_tag = tag if tag["end"] else None
            if around and ended.name in wanted.get(around[-1].name, ()):
                around[-1].children.append(ended)
            if ended.name in wanted:
                yield ended
