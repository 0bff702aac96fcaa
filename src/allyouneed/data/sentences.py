"""Splits texts into sentences, and sentences that are too long for a model into pieces."""

import re
from collections.abc import Iterator
from itertools import accumulate, pairwise
from typing import NamedTuple

import sentencex

from allyouneed.data.lines import is_blank
from allyouneed.data.sentence_ends import correct_ends
from allyouneed.data.tokenizer import Tokenizer
from allyouneed.errors import DataError
from allyouneed.language_codes import primary_language

_BLOCK_CHARACTERS = 4_096
"""Longest sentence to look for; a longer one is cut at white space, as time grows quadratically."""

_SPACE = re.compile(r"[^\S\n]")

_SEEMS_TO_END = re.compile(r"[.!?…؟।۔][^\w\s]{0,4}\s\s?\S|[。！？｡].")
"""A possible end of a sentence. Finding these takes a tenth of the time that a tokeniser takes.

Repetitions are bounded, so time grows in proportion to the text.
"""

Piece = tuple[int, int, list[int]]
"""Where a piece of a text begins, its number of characters, and its token ids; none if it has no letters."""


class TextPart(NamedTuple):
    """A part of a text, translated separately from the others."""

    ids: list[int]
    """Token ids; none if the part is blank or stays as it is."""
    before: str = ""
    """White space between the part before, or the beginning of the text, and this one."""
    kept: str = ""
    """The part, with the symbol for its language, if it has no letters and so is its own translation."""
    repeats_symbol: bool = False
    """Whether it begins with a symbol for a language only because the part before it does."""
    num_added: int = 0
    """Number of ids at the beginning that are not of the text: the symbol for a language."""
    text: str = ""
    """The part as the text has it, without a symbol for its language."""


class Divided(NamedTuple):
    """A text, divided into the parts that are translated separately."""

    parts: list[TextPart]
    """The parts, at least one; a blank text has one empty part."""
    after: str = ""
    """White space after the last part."""
    notices: tuple[str, ...] = ()
    """Messages about sentences that were cut because they are too long."""

    @property
    def first(self) -> int:
        """Number of the first part that is searched, from 0, or 0 if none is."""
        return next((number for number, part in enumerate(self.parts) if part.ids), 0)

    def separators(self, space: str) -> list[str]:
        """Separators before the translation of each part, and after the last: the white space of the text.

        `space` separates two sentences of the translation where the text has a single space or none.
        """
        inner = [
            space if not part.before or (part.before == " " and part.ids and previous.ids) else part.before
            for previous, part in pairwise(self.parts)
        ]
        return [self.parts[0].before, *inner, self.after]


def lost_sentences(text: str, translation: str, source_language: str, target_language: str) -> str | None:
    """A message if a translation has fewer sentences than its text but is not empty; otherwise None.

    A model trained on single sentences often translates only one of several. `text` was translated in one
    piece.
    """
    if not translation or _SEEMS_TO_END.search(text) is None:
        return None
    num_in = len(split_sentences(text, source_language))
    num_out = len(split_sentences(translation, target_language)) if num_in > 1 else 1
    if num_out >= num_in:
        return None
    counts = f"has {num_in:,} sentences, its translation {num_out:,}"
    return f"{counts}; split_sentences translates each of them separately"


def too_long_error(num_tokens: int, max_tokens: int) -> DataError:
    """The error for a sentence that is too long if sentences are not cut."""
    return DataError(
        f"the sentence has {num_tokens:,} tokens, more than the maximum of {max_tokens:,}; split it",
        label="E-TOO-LONG",
    )


def split_sentences(text: str, language: str) -> list[str]:
    """The sentences of a text; arguments and exceptions are those of `sentence_spans`."""
    return [text[begin:end] for begin, end in sentence_spans(text, language)]


def sentence_spans(text: str, language: str) -> list[tuple[int, int]]:
    """Begin and end of each sentence of a text, in characters, without surrounding white space.

    [sentencex](https://github.com/wikimedia/sentencex) proposes the ends, `correct_ends` corrects them.
    Time grows in proportion to the text. Languages, codes such as "de-AT" or "deu", without rules use those
    of English.

    Raises:
        DataError: The text contains half a surrogate pair.
    """
    # One character for one: sentencex 1.0 fails on initials before white space of more than one byte.
    plain, language = _SPACE.sub(" ", text), primary_language(language) or "en"
    begin, spans = 0, []
    while begin < len(text):
        for end in _ends(plain, begin, language):
            sentence = text[begin:end]
            if not is_blank(sentence):
                spans.append((end - len(sentence.lstrip()), begin + len(sentence.rstrip())))
            begin = end
    return spans


def _ends(text: str, begin: int, language: str) -> list[int]:
    """The ends of the next sentences that are certain, with the white space behind them."""
    block = text[begin : begin + _BLOCK_CHARACTERS]
    try:
        lengths = [len(sentence) for sentence in sentencex.segment(language, block)]
    except UnicodeEncodeError as error:
        place = f"half a surrogate pair at character {begin + error.start + 1}"
        raise DataError(f"{place}; remove it", label="E-UTF8") from None
    end = begin + len(block)
    ends = correct_ends(text, begin, end, set(accumulate(lengths, initial=begin)) - {begin}, language)
    if end == len(text):
        return ends
    return ends[:-1] or [begin + (block.rfind(" ") + 1 or len(block))]


def encode_parts(text: str, tokenizer: Tokenizer, max_tokens: int) -> Iterator[Piece]:
    """A text in pieces of at most `max_tokens`, each as long as possible, that end at white space, else
    between tokens. The text has no white space at its ends.

    Raises:
        DataError: A single character has more than `max_tokens` tokens, or the text is not Unicode.
    """
    begin = 0
    while len(ids := tokenizer.encode(text)) > max_tokens:
        offsets, num_tokens = tokenizer.offsets(text), max_tokens
        end = _last_space(text, offsets[num_tokens][0])
        # A word that is cut may be written with more tokens than it had there as a part of the whole.
        while len(ids := tokenizer.encode(text[:end].rstrip())) > max_tokens:
            num_tokens -= len(ids) - max_tokens
            if num_tokens <= 0:
                raise DataError(
                    f"a character has more than the {max_tokens} tokens that the model can read; remove it",
                    label="E-TOO-LONG",
                )
            end = _last_space(text, offsets[num_tokens][0])
        yield begin, len(text[:end].rstrip()), ids
        rest = text[end:].lstrip()
        begin, text = begin + len(text) - len(rest), rest
    yield begin, len(text), ids


def _last_space(text: str, end: int) -> int:
    """The end of the last whole word before `end`; if there is none, `end`, but at least 1."""
    head = text[:end]
    if text[end : end + 1].isspace() or head[-1:].isspace():
        return end
    return end - len(head.rsplit(maxsplit=1)[-1]) or end if head else 1
