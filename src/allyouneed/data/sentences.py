"""Texts into sentences, and what is longer than a model can read into parts that it can."""

import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from itertools import repeat

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


class Divider:
    """Texts into the ids of the parts in which they are translated: whole, in sentences, or in what fits.

    Args:
        tokenizer: Of the ids.
        max_tokens: The most of a part.
        language: Code of the texts' language, as of `split_sentences`.
        sentences: Whether each sentence is a part.
        cut: Whether what is too long is cut: at the ends of sentences, then at the last white space that
            fits, then between tokens. Otherwise it is an error.
        noticed: Is told what was cut.
    """

    def __init__(
        self,
        tokenizer: Tokenizer,
        max_tokens: int,
        language: str = "",
        *,
        sentences: bool = False,
        cut: bool = True,
        noticed: Callable[[str], None] | None = None,
    ) -> None:
        self._tokenizer, self._max_tokens, self._language = tokenizer, max_tokens, language
        self._sentences, self._cut, self._noticed = sentences, cut, noticed

    def encode_each(
        self, texts: Iterable[str], failed: Callable[[DataError], None] | None = None
    ) -> Iterator[list[list[int]]]:
        """The ids of each part of each text.

        Args:
            texts: Read one by one.
            failed: Is told why a text has none, which is then as good as blank. Without it there is an error.

        Raises:
            DataError: Names the text by its number.
        """
        for number, text in enumerate(texts, start=1):
            try:
                parts = self.encode(text)
            except DataError as error:
                if failed is None:
                    raise DataError(f"text {number}: {error.messages[0]}", label=error.label) from None
                failed(error)
                parts = [[]]
            yield parts

    def encode(self, text: str) -> list[list[int]]:
        """The ids of each part of a text; of one that is blank there is one part, which is empty.

        Raises:
            DataError: It is too long and not to be cut, or no Unicode.
        """
        if is_blank(text):
            return [[]]
        whole = split_sentences(text, self._language) if self._sentences else [text]
        return [part for sentence in whole for part in self._parts(sentence)]

    def _parts(self, text: str) -> list[list[int]]:
        ids = self._tokenizer.encode(text)
        if len(ids) <= self._max_tokens:
            return [ids]
        if not self._cut:
            raise too_long_error(len(ids), self._max_tokens)
        sentences = split_sentences(text, self._language)
        parts = [p for s in sentences for p in encode_parts(s, self._tokenizer, self._max_tokens)]
        if self._noticed is not None:
            limit = f"{len(ids):,} tokens, {self._max_tokens:,} are the most"
            self._noticed(f"{limit}; translated in {len(parts):,} parts")
        return parts


class LostSentences:
    """Tells of the first text that has more sentences than its translation, and then no more.

    A model that was trained on single sentences often translates one of several, and leaves out the rest.

    Args:
        source_language: Code of the texts' language, as of `split_sentences`.
        target_language: Code of the translations' language.
        is_whole: Whether a text is translated in one piece; in parts it loses nothing.
        told: Receives the message; None checks nothing.
    """

    def __init__(
        self,
        source_language: str,
        target_language: str,
        is_whole: Callable[[str], bool],
        told: Callable[[str], None] | None,
    ) -> None:
        self._source_language, self._target_language = source_language, target_language
        self._is_whole, self._told = is_whole, told

    def check(self, place: str, text: str, translation: str) -> None:
        """Compare a text with its translation, unless that is empty.

        Args:
            place: Names the text in the message.
            text: What was translated.
            translation: The translation.
        """
        if self._told is None or not translation or _SEEMS_TO_END.search(text) is None:
            return
        num_in = len(split_sentences(text, self._source_language))
        num_out = len(split_sentences(translation, self._target_language)) if num_in > 1 else 1
        if num_out < num_in and self._is_whole(text):
            self._told(
                f"{place}: has {num_in:,} sentences, its translation {num_out:,}; "
                "with --split-sentences each is translated by itself (later texts are not checked)"
            )
            self._told = None


def each_part(texts: Iterable[list[list[int]]], num_parts: deque[int]) -> Iterator[list[int]]:
    """All parts of all texts; how many each has is noted down."""
    for parts in texts:
        num_parts.append(len(parts))
        yield from parts


def each_prefix(prefixes: Iterable[list[int]], num_parts: deque[int]) -> Iterator[list[int]]:
    """The prefix of each part of all texts, asked for after the part; only the first has one."""
    for prefix in prefixes:
        num_others = num_parts[-1] - 1
        yield prefix
        yield from repeat([], num_others)


def too_long_error(num_tokens: int, max_tokens: int) -> DataError:
    """What is said of a sentence that is not to be cut."""
    return DataError(
        f"the sentence has {num_tokens:,} tokens, {max_tokens:,} are the most; split it", label="E-TOO-LONG"
    )


def split_sentences(text: str, language: str) -> list[str]:
    """The sentences of a text, without the white space around them; none of a blank text.

    By the rules and abbreviations of [sentencex](https://github.com/wikimedia/sentencex).

    Args:
        text: Of any length; the time grows in proportion to it.
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
        tokenizer: Of the ids.
        max_tokens: Of a part. It ends at the last white space that fits, or else between two tokens.

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
