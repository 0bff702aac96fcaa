"""A glossary: terms of a source language and how they are to be translated."""

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Final, NamedTuple

from allyouneed.data.lines import Line, is_blank, read_each_line
from allyouneed.errors import DataError
from allyouneed.tasks.requests import RequiredTerm

MOST_ENTRIES: Final = 100_000
MOST_CHARACTERS: Final = 1_024
"""Maximum number of characters of a term or a form."""
MOST_WORDS: Final = 64
"""Maximum number of words and signs of a term."""
_WORD: Final = re.compile(r"\w+|[^\w\s]")
_FORMAT: Final = "write SOURCE TAB TARGET, with other forms of the target behind |, and perhaps TAB NOTE"


class GlossaryEntry(NamedTuple):
    """A term."""

    source: str
    forms: tuple[str, ...]
    """Its translation, and other forms of it that will do."""


class Term(NamedTuple):
    """An occurrence of a term in a text."""

    begin: int
    end: int
    forms: tuple[str, ...]

    def required(self, text: str, before: str | None = None) -> RequiredTerm:
        """The term of `text` as what a translation must have, behind `before` if that is given."""
        return RequiredTerm(text[self.begin : self.end], self.forms, before)

    def moved(self, num_characters: int) -> "Term":
        """The same term that many characters further on."""
        return self._replace(begin=self.begin + num_characters, end=self.end + num_characters)

    def count_in(self, translation: str) -> int:
        """How often a translation has one of the forms, as whole words."""
        forms = "|".join(map(re.escape, sorted(self.forms, key=len, reverse=True)))
        return len(re.findall(rf"(?<!\w)(?:{forms})(?!\w)", translation))


@dataclass(frozen=True)
class Glossary:
    """Terms by their words. A term without capital letters fits texts in any case; others fit as they are."""

    entries: dict[tuple[str, ...], GlossaryEntry]

    @classmethod
    def read(cls, path: Path) -> "Glossary":
        """Read a file with lines of `SOURCE TAB TARGET|FORM|FORM TAB NOTE`; blank lines are passed over.

        Raises:
            DataError: A line is not of that format, or contradicts another, or the file cannot be read.
        """
        return cls.of_lines(read_each_line(path), str(path))

    @classmethod
    def of_lines(cls, lines: Iterable[Line], name: str, *, has_forms: bool = True) -> "Glossary":
        """Make a glossary of lines as `read` does.

        Args:
            lines: The lines.
            name: Names them in messages.
            has_forms: Whether `|` separates forms of a translation, or is a sign in it.

        Raises:
            DataError: See `read`.
        """
        entries, numbers = dict[tuple[str, ...], GlossaryEntry](), dict[tuple[str, ...], int]()
        for line in lines:
            if line.error:
                raise line.error
            if is_blank(line.text):
                continue
            place = f"{name}:{line.number}"
            entry = _entry(line.text, place, has_forms)
            words = tuple(_WORD.findall(entry.source))
            if len(words) > MOST_WORDS:
                raise DataError(f"{place}: a term has more than {MOST_WORDS} words; shorten it")
            if entries.setdefault(words, entry) != entry:
                raise DataError(
                    f"{place}: {entry.source!r} has another translation in line {numbers[words]}; "
                    "keep one, and write other forms behind |"
                )
            numbers.setdefault(words, line.number)
            if len(entries) > MOST_ENTRIES:
                raise DataError(f"{place}: more than {MOST_ENTRIES:,} terms; divide the glossary")
        if not entries:
            raise DataError(f"{name}: has no terms; {_FORMAT}")
        return cls(entries)

    def terms(self, text: str) -> list[Term]:
        """The terms of a text, in order, the longest where several begin; none overlap."""
        words, found, place = [*_WORD.finditer(text)], list[Term](), 0
        written = [word[0] for word in words]
        while place < len(words):
            num, entry = self._longest(written, place)
            if entry:
                begin, end = words[place].start(), words[place + num - 1].end()
                found.append(Term(begin, end, _cased(entry, text[begin:end], is_first=not place)))
            place += num
        return found

    def _longest(self, words: Sequence[str], place: int) -> tuple[int, GlossaryEntry | None]:
        """The number of words of the longest term that begins there, and the term; 1 if there is none."""
        for num in self._sizes.get(words[place].lower(), ()):
            exact = tuple(words[place : place + num])
            if entry := self.entries.get(exact) or self.entries.get(tuple(map(str.lower, exact))):
                return num, entry
        return 1, None

    @cached_property
    def _sizes(self) -> Mapping[str, Sequence[int]]:
        """First word of terms, in small letters -> their numbers of words, falling."""
        found = defaultdict[str, set[int]](set)
        for words in self.entries:
            found[words[0].lower()].add(len(words))
        return {word: sorted(sizes, reverse=True) for word, sizes in found.items()}


def _cased(entry: GlossaryEntry, text: str, *, is_first: bool) -> tuple[str, ...]:
    """The forms of a term in the case of the text; those of a term with capitals stay as they are.

    A term that is not capitalised in the text may be at the beginning of the translation, and the first word
    of a text may be capitalised for its place alone.
    """
    if entry.source != entry.source.lower():
        return entry.forms
    capitalised = tuple(form[:1].upper() + form[1:] for form in entry.forms)
    if text[:1].isupper() and not is_first:
        return tuple(dict.fromkeys(capitalised))
    return tuple(dict.fromkeys((*entry.forms, *capitalised)))


def _entry(line: str, place: str, has_forms: bool) -> GlossaryEntry:
    columns = [column.strip() for column in line.split("\t")]
    if not 2 <= len(columns) <= 3:
        raise DataError(f"{place}: has {len(columns)} columns; {_FORMAT}")
    source, written = columns[0], columns[1].split("|") if has_forms else columns[1:2]
    forms = tuple(form.strip() for form in written)
    if not source or not all(forms):
        raise DataError(f"{place}: a term or a form is empty; {_FORMAT}")
    if max(map(len, (source, *forms))) > MOST_CHARACTERS:
        raise DataError(f"{place}: a term has more than {MOST_CHARACTERS:,} characters; shorten it")
    return GlossaryEntry(source, forms)
