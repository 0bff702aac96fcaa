"""Texts into sentences, and what is longer than a model can read into parts that it can."""

import re
from collections.abc import Iterator
from typing import NamedTuple

import sentencex

from allyouneed.data.lines import is_blank
from allyouneed.data.tokenizer import Tokenizer
from allyouneed.errors import DataError

_BLOCK_CHARACTERS = 4_096
"""A longer sentence is cut at white space: the time that its end takes to be found grows with the square."""

_SPACE = re.compile(r"[^\S\n]")

_SEEMS_TO_END = re.compile(r"[.!?…؟।۔][^\w\s]{0,4}\s\s?\S|[。！？｡].")
"""What is between two sentences, and now and then within one; found in a tenth of a tokeniser's time.

Repetitions are bounded, so that the time grows in proportion to the text.
"""


class Divided(NamedTuple):
    """A text in the parts in which it is translated."""

    parts: list[list[int]]
    """Token ids of each part, at least one; the only part of a blank text is empty."""
    notices: tuple[str, ...] = ()
    """What was cut because it is too long."""


class Divider:
    """Divides texts into token ids of what is translated at once: the whole, a sentence, or what fits.

    Args:
        tokenizer: Tokeniser of the texts.
        max_tokens: Number of tokens of the longest part.
        language: Code of the texts' language, as in `split_sentences`.
        sentences: Whether each sentence is a part.
        cut: Whether texts that are too long are cut: at the ends of sentences, then at the last white space
            that fits, then between tokens. Otherwise they are an error.
    """

    def __init__(
        self,
        tokenizer: Tokenizer,
        max_tokens: int,
        language: str = "",
        *,
        sentences: bool = False,
        cut: bool = True,
    ) -> None:
        self._tokenizer, self._max_tokens, self._language = tokenizer, max_tokens, language
        self._sentences, self._cut = sentences, cut

    def divide(self, text: str) -> Divided:
        """The parts of a text.

        Raises:
            DataError: The text is too long and not to be cut, or it is not Unicode.
        """
        if is_blank(text):
            return Divided([[]])
        whole = split_sentences(text, self._language) if self._sentences else [text]
        divided = [self._fitting(sentence) for sentence in whole]
        parts = [part for each in divided for part in each.parts]
        return Divided(parts, tuple(notice for each in divided for notice in each.notices))

    def _fitting(self, text: str) -> Divided:
        ids = self._tokenizer.encode(text)
        if len(ids) <= self._max_tokens:
            return Divided([ids])
        if not self._cut:
            raise too_long_error(len(ids), self._max_tokens)
        sentences = split_sentences(text, self._language)
        parts = [p for s in sentences for p in encode_parts(s, self._tokenizer, self._max_tokens)]
        limit = f"{len(ids):,} tokens, {self._max_tokens:,} are the most"
        return Divided(parts, (f"{limit}; translated in {len(parts):,} parts",))


def lost_sentences(text: str, translation: str, source_language: str, target_language: str) -> str | None:
    """A message if a text has more sentences than its translation, unless that is empty; otherwise None.

    A model that was trained on single sentences often translates one of several, and leaves out the rest.

    Args:
        text: A text that was translated in one piece; in parts it loses nothing.
        translation: Its translation.
        source_language: Code of the text's language, as in `split_sentences`.
        target_language: Code of the translation's language.
    """
    if not translation or _SEEMS_TO_END.search(text) is None:
        return None
    num_in = len(split_sentences(text, source_language))
    num_out = len(split_sentences(translation, target_language)) if num_in > 1 else 1
    if num_out >= num_in:
        return None
    counts = f"has {num_in:,} sentences, its translation {num_out:,}"
    return f"{counts}; with split_sentences each is translated by itself"


def too_long_error(num_tokens: int, max_tokens: int) -> DataError:
    """What is said of a sentence that is not to be cut."""
    return DataError(
        f"the sentence has {num_tokens:,} tokens, {max_tokens:,} are the most; split it", label="E-TOO-LONG"
    )


def split_sentences(text: str, language: str) -> list[str]:
    """The sentences of a text, without the white space around them; none of a blank text.

    By the rules and abbreviations of [sentencex](https://github.com/wikimedia/sentencex).

    Args:
        text: A text of any length; the time is proportional to it.
        language: Code of its language, such as "de"; one that has no rules, "" too, goes by the English ones.

    Raises:
        DataError: The text has half a surrogate pair.
    """
    # One character for one: sentencex 1.0 fails on initials before white space of more than one byte.
    plain = _SPACE.sub(" ", text)
    begin, sentences = 0, []
    while begin < len(text):
        for length in _lengths(plain, begin, language or "en"):
            sentences.append(text[begin : begin + length].strip())
            begin += length
    return [sentence for sentence in sentences if not is_blank(sentence)]


def _lengths(text: str, begin: int, language: str) -> list[int]:
    """The lengths of the next sentences that are sure to end where they seem to."""
    block = text[begin : begin + _BLOCK_CHARACTERS]
    try:
        lengths = [len(sentence) for sentence in sentencex.segment(language, block)]
    except UnicodeEncodeError as error:
        place = f"half a surrogate pair at character {begin + error.start + 1}"
        raise DataError(f"{place}; remove it", label="E-UTF8") from None
    if begin + len(block) == len(text):
        return lengths
    return lengths[:-1] or [block.rfind(" ") + 1 or len(block)]


def encode_parts(text: str, tokenizer: Tokenizer, max_tokens: int) -> Iterator[list[int]]:
    """The ids of a text in parts, each as long as fits.

    Args:
        text: Without white space at its ends.
        tokenizer: The tokeniser that made the ids.
        max_tokens: Most tokens of a part. It ends at the last white space that fits, or between two tokens.

    Raises:
        DataError: A single character has more tokens than that, or the text is no Unicode.
    """
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
        yield ids
        text = text[end:].lstrip()
    yield ids


def _last_space(text: str, end: int) -> int:
    """The end of the last whole word before `end`; `end` itself, and at least 1, where there is none."""
    head = text[:end]
    if text[end : end + 1].isspace() or head[-1:].isspace():
        return end
    return end - len(head.rsplit(maxsplit=1)[-1]) or end if head else 1
