"""Texts as token ids within the limits of a model, part by part, and the translations of the parts joined."""

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import NamedTuple

from allyouneed.config.run import DataConfig
from allyouneed.data.lines import is_blank
from allyouneed.data.sentences import Divided, Divider, TextPart, lost_sentences, split_symbol, too_long_error
from allyouneed.data.tokenizer import Tokenizer
from allyouneed.errors import DataError
from allyouneed.tasks.requests import Answer, Failure, Id, TranslateConfig
from allyouneed.tasks.translation.outputs import (
    TranslatedPart,
    Translation,
    join_parts,
    space_between_sentences,
)

MAX_TOKENS = 1_024
"""Longest text in one piece, as the cost grows with the square of the length; others are split or refused."""


class TextEncoder:
    """Encodes texts for a model, and their translations.

    `data` has their languages. `max_positions` is the number of positions of the model; None if it has no
    limit.
    """

    def __init__(
        self,
        source_tokenizer: Tokenizer,
        target_tokenizer: Tokenizer,
        data: DataConfig,
        max_positions: int | None,
        *,
        takes_prefixes: bool,
    ) -> None:
        self.source_tokenizer, self.target_tokenizer = source_tokenizer, target_tokenizer
        self._data, self._takes_prefixes = data, takes_prefixes
        self.max_tokens = MAX_TOKENS if max_positions is None else min(MAX_TOKENS, max_positions - 1)
        """Maximum number of tokens of a sentence; learned positions must leave one for a control symbol."""

    def source(self, text: str) -> list[int]:
        """The ids of a source, none of a blank one; raises DataError if it is too long, or not Unicode."""
        return [] if is_blank(text) else self._encode(self.source_tokenizer, text)

    def own_text(self, text: str) -> str:
        """A text without the symbol for its language."""
        return split_symbol(self.source_tokenizer, text)[1]

    def target(self, text: str) -> list[int]:
        """The ids of a translation; raises DataError as `source`."""
        return self._encode(self.target_tokenizer, text)

    def prefix(self, text: str) -> list[int]:
        """The ids of the beginning of a translation; raises DataError as `source`, or if the model takes
        none.
        """
        ids = self.target(text)
        if ids and not self._takes_prefixes:
            raise DataError("a target prefix cannot be used with a shortlist; leave out one")
        return ids

    def divider(self, config: TranslateConfig) -> Divider:
        """The divider of texts into parts."""
        return Divider(
            self.source_tokenizer,
            self.max_tokens,
            self._data.source_language,
            preferred_tokens=self._data.max_tokens,
            sentences=config.split_sentences,
            cut=config.too_long == "split",
        )

    def lost_sentences(self, text: str, translation: str, *, is_divided: bool) -> str | None:
        """See `Translator.lost_sentences`; `is_divided`: whether texts that are too long are divided."""
        message = lost_sentences(text, translation, self._data.source_language, self._data.target_language)
        most = min(self.max_tokens, self._data.max_tokens) if is_divided else self.max_tokens
        fits = message and len(self.source_tokenizer.encode(text)) <= most
        return message if fits else None

    def _encode(self, tokenizer: Tokenizer, text: str) -> list[int]:
        ids = tokenizer.encode(text)
        if len(ids) > self.max_tokens:
            raise too_long_error(len(ids), self.max_tokens)
        return ids


class EncodedText(NamedTuple):
    """A request as token ids, without end symbols."""

    id: Id
    divided: Divided
    prefix: list[int]
    """Prefix of the translation of the first part that is searched."""


def parts_of(encoded: Iterable[EncodedText | Failure]) -> Iterator[tuple[TextPart, list[int]]]:
    """Each part of each text, with the prefix of its translation; a failure has an empty part."""
    for text in encoded:
        if isinstance(text, Failure):
            yield TextPart([]), []
            continue
        first = text.divided.first
        for number, part in enumerate(text.divided.parts):
            yield part, text.prefix if number == first else []


def joined_answers(
    encoded: Iterable[EncodedText | Failure], translated: Iterator[TranslatedPart], language: str
) -> Iterator[Answer[list[Translation]] | Failure]:
    """The answer to each text, from the translations of its parts in the order of `parts_of`."""
    space = space_between_sentences(language)
    for text in encoded:
        if isinstance(text, Failure):
            next(translated)
            yield text
        else:
            parts = list(islice(translated, len(text.divided.parts)))
            yield Answer(text.id, join_parts(parts, text.divided.separators(space)), text.divided.notices)
