"""A translation into capital letters: it shows what is text, and is aligned with the text, or at random."""

import random
from collections.abc import Sequence

from allyouneed.files.formats import format_of
from allyouneed.files.translating import Translate
from allyouneed.markup.marks import Links, MarkedText

SEEN = list[str]()
"""The texts of the last file."""


def shout(texts: Sequence[MarkedText]) -> list[tuple[str, Links]]:
    SEEN.extend(text.text for text in texts)
    return [
        (text.text.upper(), [(n, n + 1, n, n + 1) for n, sign in enumerate(text.text) if not sign.isspace()])
        for text in texts
    ]


def shuffled(seed: int) -> Translate:
    """Words in any order, with that alignment."""
    chance = random.Random(seed)

    def answer(texts: Sequence[MarkedText]) -> list[tuple[str, Links]]:
        found = list[tuple[str, Links]]()
        for text in texts:
            words, links, size = [*enumerate(text.text.split())], list[tuple[int, int, int, int]](), 0
            starts = [0]
            for _, word in words:
                starts.append(text.text.index(word, starts[-1]) + len(word))
            chance.shuffle(words)
            for number, word in words:
                end = starts[number + 1]
                links.append((end - len(word), end, size, size + len(word)))
                size += len(word) + 1
            found.append((" ".join(word for _, word in words), links))
        return found

    return Translate(answer, "en", "de")


def shouted(name: str, content: bytes) -> bytes:
    """A file in capital letters."""
    SEEN.clear()
    return format_of(name).translated(content, Translate(shout, "en", "de"))


def shouted_text(name: str, content: str) -> str:
    return shouted(name, content.encode()).decode()
