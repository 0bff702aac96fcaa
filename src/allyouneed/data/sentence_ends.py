"""Corrects where sentences end by the words around full stops: ordinal numbers, initials, abbreviations."""

import re
import tomllib
from collections.abc import Iterator, Sequence
from functools import cache
from importlib.resources import files
from typing import Final, NamedTuple

from allyouneed.language_codes import spoken_language

_MARK: Final = re.compile(r"(?<![.!?…])([.!?…]++)([^\w\s]{0,4}+)[^\S\n]*+\n?+[^\S\n]*+(?=\S)(?<=\s)")
"""Marks after a word, with closing quotes and brackets and the white space behind, without an empty line."""

_CONTEXT: Final = 40
"""Number of characters to look at on either side of a mark, which bounds the time."""

_SHORT_START: Final = 3
"""Number of words from which on "r." may end a sentence: it does not in "W 1939 r. Niemcy"."""

_NEXT_WORD: Final = re.compile(r"\W{0,4}?(?:(['’])[snt]\s)?(\w+)([.’'-]?)")
"""The next word behind opening quotes; group 1 is the apostrophe of the Dutch "'s Avonds"."""

_LAST_WORD_REVERSED: Final = re.compile(r"[\w:-]+(?:\.[\w:-]+)*(?: ?\.[\w-]{0,3}[^\W\d](?![\w.-])){0,4}")
"""A word, and up to four short ones before it, as in "i. d. R."; read from the end, which takes less time."""

_INITIALS: Final = re.compile(r"(?:^|[.-])(?:(?:[^\W\d_]{1,4}\.-?)+[^\W\d_]{1,4}|[^\W\d_])$")
_BRAND: Final = re.compile(r"[a-z]{1,2}[A-Z]")
_FIRST_LETTER: Final = re.compile(r"[\W\d_]*([^\W\d_])")
_LINE_START: Final = re.compile(r"(?:^|\n)\W*$")
_ITEM: Final = re.compile(r"\W{0,3}(\d{1,3})[.)]\s")
_NUMBER: Final = re.compile(r"(?<![\w.,:/+-])\d{1,3}$")
_ROMAN: Final = re.compile(r"[IVXLC]{2,}")
_AFTER_NUMBER: Final = re.compile(r"(?:\d|\b[IVXLC]+) ?$")
_ADDRESS: Final = re.compile(r"(?:@|www\.|://)\S+$")
_OPENED: Final = re.compile(r"[\"“„«‹‘(\[]")
_OPENING: Final = re.compile(r"(?<=\s)[\"“„«‹‘(\[]")
_ELLIPSES: Final = {"…", "..."}
_PARTICLES: Final = re.compile(
    "al|da|das|de|del|della|den|des|di|do|dos|du|el|la|las|le|les|los|ten|ter|van|von"
)
"""First words of surnames, as in "J. De Vries"."""

_WITHIN: Final = re.compile(
    r"(?<![^\W\d_][^\W\d_])\.(?=\w)|\.(?=-)"  # "O.N.U.", "3.º", "J.-J."; but not "left.She"
    r"|\.(?=\w\b)|['’](?=[snt]\s)"  # "Ph.D.", "'s Avonds"
    r"|[”」』](?:と|って|[^\s“「『”」』，。！？]{0,6}?[说道问喊叫說問])"  # a quotation and "he says"
)
"""A character that a sentence does not end behind."""


class Words(NamedTuple):
    """Words of a language. Abbreviations lack the last full stop; spaces within them are left out.

    A word in lower case also stands for itself with capitals; one with capitals stands for itself only.
    """

    opening: frozenset[str] = frozenset()
    """Abbreviations that a sentence never ends with: titles, "e.g."."""
    numbered: frozenset[str] = frozenset()
    """Abbreviations before a number, such as "p. 12"; without one the word may be another, such as "No."."""
    closing: frozenset[str] = frozenset()
    """Abbreviations after which a capital letter begins a sentence, such as "etc.".

    Those of one or two letters count after numbers only: the Polish "w 1939 r."."""
    either: frozenset[str] = frozenset()
    """Abbreviations that end a sentence only before one of `starters`: "Inc.", "St."."""
    starters: frozenset[str] = frozenset()
    """Words in lower case that, with a capital letter, mostly begin a sentence."""
    whole: frozenset[str] = frozenset()
    """Words that sentencex takes for abbreviations: the English "me" is in its list for Maine."""
    counted: frozenset[str] = frozenset()
    """Words with a capital letter that follow an ordinal number: months, "Weltkrieg"."""
    determiners: frozenset[str] = frozenset()
    """Words in lower case before an ordinal number and a capital letter: "der 2. Sohn"."""


@cache
def words_of(language: str) -> Words:
    """The words of a language (as by `primary_language`); none if they are not listed."""
    listed = _tables().get("no" if language == "nn" else spoken_language(language), {})
    return Words(**{name: frozenset(words.split()) for name, words in listed.items()})


@cache
def _tables() -> dict[str, dict[str, str]]:
    """Language -> name of a list -> its words."""
    return tomllib.loads(files("allyouneed.data").joinpath("sentence_words.toml").read_bytes().decode())


def correct_ends(text: str, begin: int, end: int, ends: set[int], language: str) -> list[int]:
    """The ends of the sentences in a part of a text, corrected where the words around a mark tell.

    `ends` are the proposed ones, with the white space behind the sentences, counted in the whole text, like
    `begin`, where a sentence begins, and `end`. `language` is a code as by `primary_language`.
    """
    words, item = words_of(language), _ITEM.match(text, begin)
    ends = {place - _is_split_from_next(text, begin, place, end) for place in ends}
    corrected = {place for place in ends if place == end or not _WITHIN.match(text, place - 1)}
    for mark in _MARK.finditer(text, begin, end):
        place = mark.end()
        after = _NEXT_WORD.match(text[place : place + _CONTEXT])
        follows = _ITEM.match(text, place) if item else None
        is_end: bool | None = True
        if item and follows and int(follows[1]) == int(item[1]) + 1:
            item = follows
        else:
            is_end = _is_end(mark, text[begin : mark.start()], after, words) if after else None
        if is_end is None:
            is_end = place in ends
        if is_end:
            corrected.add(place)
            begin = place
        else:
            corrected.discard(place)
    return sorted(corrected)


def _is_split_from_next(text: str, begin: int, place: int, end: int) -> bool:
    """Whether an opening quotation mark before a place belongs to what follows, as in "said. “ | It"."""
    return begin < place - 1 and place < end and _OPENING.match(text, place - 1) is not None


def _is_end(mark: re.Match[str], sentence: str, after: re.Match[str], words: Words) -> bool | None:
    """Whether a sentence ends at a mark; None if the words do not tell."""
    marks, closers, word, before = mark[1], mark[2], after[2], sentence[-_CONTEXT:]
    starts = bool(word[0].isupper() and after[3] != "." and (after[1] or word.lower() in words.starters))
    first = _FIRST_LETTER.match(sentence[:_CONTEXT])
    if word[0].islower() and not _BRAND.match(word) and not (first and first[1].islower()):
        return False if closers or not set("!?") & set(marks) else None
    if marks != "." or closers:
        return True if starts and marks in _ELLIPSES else None
    if number := _NUMBER.search(before):
        return _ordinal(before[: number.start()], word, starts, words)
    is_end: bool | None = None
    if _ADDRESS.search(before):
        is_end = word[0].isupper() or None
    elif reverse := _LAST_WORD_REVERSED.match(before[::-1]):
        last = reverse[0][::-1]
        is_end = _abbreviation(last, before[: -reverse.end()], word, starts, words)
        if is_end is None and (starts or (last in words.whole and word[0].isupper())):
            is_end = not _OPENED.search(sentence) or None
    return is_end


def _ordinal(before: str, word: str, starts: bool, words: Words) -> bool | None:
    """Whether a sentence ends after a number with a full stop, as `_is_end`."""
    if _LINE_START.search(before):  # the number of an item of a list
        return False
    if starts:
        return True
    is_ordinal = word in words.counted or before.rsplit(maxsplit=1)[-1].lower() in words.determiners
    return False if is_ordinal else None


def _abbreviation(last: str, before: str, word: str, starts: bool, words: Words) -> bool | None:
    """Whether a sentence ends after a word that may be short for another, as `_is_end`."""
    parts, is_first = last.replace(" ", "").split("."), _LINE_START.search(before) is not None
    is_initial = _INITIALS.search(last.rsplit(" ", 1)[-1]) is not None
    for form in _forms(parts):
        if form in words.closing and (
            _AFTER_NUMBER.search(before) or (form not in words.opening and len(form) > 2)
        ):
            is_long = starts or len(before.split()) >= _SHORT_START
            return is_long if word[0].isupper() else None
        if form in words.opening:
            return False
        if form in words.numbered:
            is_number = word[0].isdigit() or _ROMAN.fullmatch(word) or (len(word) == 1 and not starts)
            return False if is_number else starts or None
        if form in words.either:
            is_initial = True
            break
    if is_initial:
        is_surname = len(parts[-1]) == 1 and _PARTICLES.fullmatch(word.lower()) is not None
        return starts and not is_first and not is_surname
    return _ordinal(before, word, starts, words) if _ROMAN.fullmatch(last) else None


def _forms(parts: Sequence[str]) -> Iterator[str]:
    """Spellings of an abbreviation in the lists, longest first: "z.B", "z.b", "B"."""
    for begin in range(len(parts)):
        form = ".".join(parts[begin:])
        yield form
        if len(form) > 1:
            yield form.capitalize() if form.isupper() else form.lower()
