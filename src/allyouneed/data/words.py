"""Finds the words of a text, and the pieces, characters and bytes of each word."""

import re
import unicodedata
from collections.abc import Iterator, Sequence
from itertools import pairwise, repeat

Span = tuple[int, int]
"""Begin and end, as in `text[begin:end]`."""

_APOSTROPHES = "'’"
_JOINERS = "\u200c\u200d"
"""Joiners, which choose how the characters around them are drawn; the only invisible characters of a word."""


_WITHOUT_SPACES = {"CJK", "HIRAGANA", "KATAKANA", "KATAKANA-HIRAGANA", "THAI", "LAO", "KHMER", "MYANMAR"}
"""Scripts without spaces between words, as prefixes of the names of their characters."""


def has_letters(text: str) -> bool:
    """Whether `text` has a letter of any script; the ordinal indicators of "1.º" and "1.ª" do not count."""
    return any(character.isalpha() and character not in "ªº" for character in text)


def split_words(text: str) -> list[Span]:
    """The words of a text: runs of letters, accents and digits, or runs of other signs.

    An apostrophe between letters is part of the word. In a script without spaces, each letter is a word.
    """
    kinds: list[str] = []
    for place in range(len(text)):
        kinds.append(_kind(text, place, kinds[-1] if kinds else ""))
    bounds = [place for place in range(1, len(text)) if kinds[place] != kinds[place - 1]]
    return [(begin, end) for begin, end in pairwise([0, *bounds, len(text)]) if any(kinds[begin:end])]


def split_at_spaces(text: str) -> list[Span]:
    """The words of a text that is already split by spaces."""
    return [found.span() for found in re.finditer("[^ ]+", text)]


def group_pieces(words: Sequence[Span], spans: Sequence[Span]) -> list[Span]:
    """For each word, the range of its pieces; every piece belongs to a word.

    A piece belongs to the word of its first character that is not a space. A piece of spaces belongs to the
    next word, or at the end to the last. A word that begins within a piece is merged with the previous one.
    The spans of both are ascending.
    """
    word_of: list[int | None] = [None] * max((end for _, end in (*words, *spans)), default=0)
    for number, (begin, end) in enumerate(words):
        word_of[begin:end] = [number] * (end - begin)
    begins: list[int] = []
    last, num_taken = None, 0
    for piece, (begin, end) in enumerate(spans):
        word = next((number for number in word_of[begin:end] if number is not None), None)
        if word is not None:
            if word != last:
                begins.append(num_taken)
            last, num_taken = word, piece + 1
    if not begins:
        return [(0, len(spans))] if spans else []
    return list(pairwise([*begins, len(spans)]))


def in_print(word: str) -> str:
    """The word in printable form: invisible characters, such as control characters, as code points."""
    return "".join(c if c.isprintable() or c in _JOINERS else f"<U+{ord(c):04X}>" for c in word)


def _kind(text: str, place: int, kind_before: str) -> str:
    character = text[place]
    if character.isspace():
        return ""
    if unicodedata.category(character)[0] == "M" and kind_before.isdigit():
        return kind_before
    if character.isalpha() and unicodedata.name(character, "").split(" ")[0] in _WITHOUT_SPACES:
        return str(place)  # of no other character
    if _is_of_letters(character):
        return "letters"
    around = text[max(0, place - 1)], text[min(place + 1, len(text) - 1)]
    inside = 0 < place < len(text) - 1 and all(map(_is_of_letters, around))
    return "letters" if character in _APOSTROPHES and inside else "signs"


def _is_of_letters(character: str) -> bool:
    return character.isalnum() or unicodedata.category(character)[0] == "M" or character in _JOINERS


def words_of_bytes(content: bytes) -> Iterator[int | None]:
    """For each byte, the index of its word; see `Tokenizer.words`."""
    num_words = 0
    for part in re.findall(r"\s+|\S+", content.decode(errors="surrogateescape")):
        only_marks = not any(map(str.isalnum, part))
        for character in part:
            is_of_it = character.isalnum() or (only_marks and not part.isspace())
            width = len(character.encode(errors="surrogateescape"))
            yield from repeat(num_words if is_of_it else None, width)
        num_words += not part.isspace()


def characters_of_bytes(content: bytes) -> Iterator[int]:
    """For each byte, the index of its character; invalid UTF-8 counts as U+FFFD."""
    number = 0
    while content:
        valid, num_invalid = content, 0
        try:
            valid.decode()
        except UnicodeDecodeError as error:
            valid, num_invalid = content[: error.start], error.end - error.start
        widths = [len(character.encode()) for character in valid.decode()]
        for width in [*widths, num_invalid] if num_invalid else widths:
            yield from repeat(number, width)
            number += 1
        content = content[len(valid) + num_invalid :]
