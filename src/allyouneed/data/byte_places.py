"""Tells which word, and which character, each byte of text belongs to."""

import re
from collections.abc import Iterator
from itertools import repeat


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
