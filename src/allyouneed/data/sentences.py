"""Splits texts into sentences, and texts that are too long for a model into parts."""

import re
from collections.abc import Iterator
from typing import NamedTuple

import sentencex

from allyouneed.data.lines import is_blank
from allyouneed.data.tokenizer import Tokenizer
from allyouneed.errors import DataError

_BLOCK_CHARACTERS = 4_096
"""Longest sentence to look for; a longer one is cut at white space, as time grows quadratically."""

_SPACE = re.compile(r"[^\S\n]")

_SEEMS_TO_END = re.compile(r"[.!?…؟।۔][^\w\s]{0,4}\s\s?\S|[。！？｡].")
"""A possible end of a sentence. Finding these takes a tenth of the time that a tokeniser takes.

Repetitions are bounded, so time grows in proportion to the text.
"""


class Divided(NamedTuple):
    """A text, divided into the parts that are translated separately."""

    parts: list[list[int]]
    """Token ids of each part. There is at least one part; a blank text has one empty part."""
    notices: tuple[str, ...] = ()
    """Messages about sentences that were cut because they are too long."""


class Divider:
    """Divides texts into parts that are translated separately, as token ids.

    Args:
        tokenizer: Tokeniser of the texts.
        max_tokens: Maximum number of tokens of a part.
        language: Language code of the texts, as in `split_sentences`.
        preferred_tokens: Number of tokens above which texts are cut, too, but only at the ends of sentences;
            by default `max_tokens`.
        sentences: Whether each sentence is a part of its own.
        cut: Whether to cut texts that are too long: at the ends of sentences, else at the last white space
            that fits, else between tokens. If false, texts of more than `max_tokens` are errors.
    """

    def __init__(
        self,
        tokenizer: Tokenizer,
        max_tokens: int,
        language: str = "",
        *,
        preferred_tokens: int | None = None,
        sentences: bool = False,
        cut: bool = True,
    ) -> None:
        self._tokenizer, self._max_tokens, self._language = tokenizer, max_tokens, language
        self._preferred_tokens = min(preferred_tokens or max_tokens, max_tokens)
        self._sentences, self._cut = sentences, cut

    def divide(self, text: str) -> Divided:
        """The parts of a text. Each begins with the symbol for a language that the text begins with.

        Raises:
            DataError: The text is too long and `cut` is false, or it is not Unicode.
        """
        symbol = self._tokenizer.language_of(text)
        text = text[len(symbol) :]
        if is_blank(text):
            return Divided([[]])
        first = self._tokenizer.encode(symbol) if symbol else []
        whole = split_sentences(text, self._language) if self._sentences else [text]
        divided = [self._fitting(sentence, len(first)) for sentence in whole]
        parts = [[*first, *part] for each in divided for part in each.parts]
        return Divided(parts, tuple(notice for each in divided for notice in each.notices))

    def _fitting(self, text: str, num_before: int) -> Divided:
        ids, max_tokens = self._tokenizer.encode(text), self._max_tokens - num_before
        is_too_long = len(ids) > max_tokens
        if is_too_long and not self._cut:
            raise too_long_error(len(ids), max_tokens)
        preferred_tokens = self._preferred_tokens - num_before
        if len(ids) <= (preferred_tokens if self._cut else max_tokens):
            return Divided([ids])
        sentences = split_sentences(text, self._language)
        if len(sentences) == 1 and not is_too_long:
            return Divided([ids])
        parts = [p for s in sentences for p in encode_parts(s, self._tokenizer, max_tokens)]
        limit = f"data.max_tokens = {self._preferred_tokens:,}"
        if is_too_long:
            limit = f"the maximum of {self._max_tokens:,}"
        told = f"{num_before + len(ids):,} tokens, more than {limit}; translated in {len(parts):,} parts"
        return Divided(parts, (told,))


def lost_sentences(text: str, translation: str, source_language: str, target_language: str) -> str | None:
    """A message if a translation has fewer sentences than its text but is not empty; otherwise None.

    A model trained on single sentences often translates only one of several.

    Args:
        text: A text that was translated in one piece.
        translation: The translation of the text.
        source_language: Language code of the text, as in `split_sentences`.
        target_language: Language code of the translation.
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
    """The sentences of a text, without surrounding white space; a blank text has none.

    Uses the rules and abbreviations of [sentencex](https://github.com/wikimedia/sentencex).

    Args:
        text: A text of any length; time grows in proportion to it.
        language: Language code, such as "de". Languages without rules, and "", use those of English.

    Raises:
        DataError: The text contains half a surrogate pair.
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
    """The lengths of the next sentences whose ends are certain."""
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
    """The ids of a text in parts, each as long as possible.

    Args:
        text: A text without white space at its ends.
        tokenizer: The tokeniser that made the ids.
        max_tokens: Maximum number of tokens of a part. Parts end at white space, else between tokens.

    Raises:
        DataError: A single character has more than `max_tokens` tokens, or the text is not Unicode.
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
    """The end of the last whole word before `end`; if there is none, `end`, but at least 1."""
    head = text[:end]
    if text[end : end + 1].isspace() or head[-1:].isspace():
        return end
    return end - len(head.rsplit(maxsplit=1)[-1]) or end if head else 1
