"""Encodes texts as token ids, part by part, within the limits of a model."""

import copy
from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Self

import numpy as np
from numpy.typing import NDArray

from allyouneed.config.run import DataConfig
from allyouneed.data.lines import is_blank
from allyouneed.data.sentences import (
    Divided,
    Piece,
    TextPart,
    encode_parts,
    sentence_spans,
    too_long_error,
)
from allyouneed.data.tokenizer import Tokenizer, split_symbol
from allyouneed.data.words import has_letters
from allyouneed.errors import DataError, UsageError
from allyouneed.inference.required_phrases import RequiredPhrases
from allyouneed.inference.scheduler import Source
from allyouneed.language_codes import distance, listed
from allyouneed.tasks.requests import RequiredTerm, TranslateConfig

NO_LANGUAGE = "E-LANGUAGE"
"""Label of the error for a text that does not say which language to write, or another than the model's."""
MAX_TOKENS = 1_024
"""Longest text in one piece, as the cost grows with the square of the length; others are split or refused."""


class TextEncoder:
    """Encodes texts for a model, and their translations.

    `data` has their languages. `max_positions` is the number of positions of the model; None if it has no
    limit. Texts for a model of several languages begin with the symbol of the one to write; see `into`.
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
        self.data, self._takes_prefixes = data, takes_prefixes
        self._symbol: list[int] = []
        self.begin: list[int] = []
        """Ids that each translation begins with: the symbol of its language, if the model has it there."""
        self.max_tokens = MAX_TOKENS if max_positions is None else min(MAX_TOKENS, max_positions - 1)
        """Maximum number of tokens of a sentence; learned positions must leave one for a control symbol."""

    def into(self, language: str, source: str = "") -> Self:
        """This encoder, with the symbol for a language before every text, in which symbols are then text.

        `source` is the code of the source language, if it is known; see `Translator.into`.
        """
        told, tokenizer = copy.copy(self), self.source_tokenizer
        if self._has_both:
            return self._between(source or self.data.source_language, language)
        if symbol := tokenizer.symbol_of(language):
            codes = {"target_language": symbol[2:-2], "source_language": source or self.data.source_language}
            told._symbol, told.data = [tokenizer.languages[symbol]], self.data.replace(**codes)
        elif not (own := self.data.target_language) or distance(language, own) is None:
            written = own or "one language, which is not recorded"
            raise UsageError(f"language {language!r}: the model writes {written}; leave this out")
        return told

    @property
    def _has_both(self) -> bool:
        """Whether sources and translations begin with the symbols of their own languages."""
        return self.data.language_symbols == "both"

    def _between(self, source: str, target: str) -> Self:
        """This encoder for one direction of a model that has to be told both languages."""
        if not source:
            raise UsageError(
                f"language {target!r}: this model must be told the language of the texts, too; name it "
                "(option `from`)"
            )
        if not self._takes_prefixes:
            raise UsageError(
                "a shortlist cannot be used with this model, as it is told the language to write"
            )
        told, tokenizer = copy.copy(self), self.source_tokenizer
        symbols = tokenizer.symbol_of(source), tokenizer.symbol_of(target)
        told._symbol, told.begin = ([tokenizer.languages[symbol]] for symbol in symbols)
        one, other = (symbol[2:-2] for symbol in symbols)
        told.data = self.data.replace(source_language=one, target_language=other)
        return told

    def source(self, text: str) -> list[int]:
        """The ids of a source, none of a blank one.

        Raises:
            DataError: The text is too long, or not Unicode, or does not say which language to write.
        """
        first, _, text = self._split(text)
        return [] if is_blank(text) else self._fits([*first, *self.source_tokenizer.encode(text)])

    def own_text(self, text: str) -> str:
        """A text without the symbol for its language."""
        return self._split(text)[2]

    def target(self, text: str) -> list[int]:
        """The ids of a translation, `begin` included; raises DataError as `source`."""
        return self._fits([*self.begin, *self.target_tokenizer.encode(text)])

    def prefix(self, text: str) -> list[int]:
        """The ids after `begin` of the beginning of a translation.

        Raises DataError as `source`, or if none is taken.
        """
        ids = self.target(text)[len(self.begin) :]
        if ids and not self._takes_prefixes:
            raise DataError("a target prefix cannot be used with a shortlist; leave out one")
        return ids

    def sources(
        self, divided: Divided, prefix: Sequence[int] = (), required: Sequence[RequiredTerm] = ()
    ) -> list[Source]:
        """The parts of a text to search: the first with the prefix of its translation, each with its terms.

        A term that is in no part is not required. Raises DataError if the prefix is too long.
        """
        sources, left, encode = list[Source](), [*required], self.target_tokenizer.encode
        for number, part in enumerate(divided.parts):
            begun = self._fits([*self.begin, *(prefix if number == divided.first else ())])
            if terms := [term for term in self._taken_out(part, left) if any(map(encode, term.forms))]:
                if not self._takes_prefixes:
                    raise DataError("terms cannot be required with a shortlist; leave out one")
                terms.sort(key=lambda term: term.before is not None)
                forms = [[*filter(None, map(encode, term.forms))] for term in terms]
                before, place = terms[-1].before, None
                if before is not None:
                    placed = [*self.begin, *encode(before)]
                    is_after = placed[: len(begun)] == begun  # not before a given prefix
                    begun = placed if is_after and len(placed) <= self.max_tokens else begun
                    place = len(begun)
                phrases = RequiredPhrases(forms, self._continuing, place)
                sources.append(Source(part.ids, begun, len(self.begin), phrases))
            else:
                sources.append(Source(part.ids, begun, len(self.begin)))
        return sources

    def _taken_out(self, part: TextPart, terms: list[RequiredTerm]) -> list[RequiredTerm]:
        """The terms that are in a part, taken out of the list."""
        text, found = self.source_tokenizer.decode(part.ids) if terms else "", []
        for term in [*terms]:
            if term.source in text:
                text = text.replace(term.source, "", 1)
                terms.remove(term)
                found.append(term)
        return found

    @cached_property
    def _continuing(self) -> NDArray[np.bool_]:
        """Whether each token of the target's vocabulary begins with a letter or digit, and no space."""
        tokenizer = self.target_tokenizer
        heads = (tokenizer.content(token)[:1] for token in range(tokenizer.vocab_size))
        return np.array([head.isalnum() or head > b"\x7f" for head in heads])

    def divide(self, text: str, config: TranslateConfig) -> Divided:
        """The parts of a text that are translated separately, as `config` says.

        Texts that are too long are cut at the ends of sentences, else at the last white space that fits, else
        between tokens; those of more than `data.max_tokens` only at the ends of sentences. Each part begins
        with the symbol for the language to write. A sentence without letters is a part that stays as it is.

        Raises:
            DataError: The text is too long and not to be split, or it is not Unicode, or does not say which
                language to write.
        """
        first, symbol, text = self._split(text)
        if is_blank(text):
            return Divided([TextPart([])], text if config.split_sentences else "")
        spans = [(0, len(text))]
        if config.split_sentences:
            spans = sentence_spans(text, self.data.source_language)
        parts, notices, end = list[TextPart](), list[str](), 0
        for start, stop in spans:
            pieces, told = self._fitting(text[start:stop], len(first), cut=config.too_long == "split")
            notices += told
            for begin, length, ids in pieces:
                before, end = text[end : start + begin], start + begin + length
                own = text[start + begin : end]
                kept = "" if ids else symbol + own
                encoded, repeats = [*first, *ids] if ids else [], bool(symbol and parts)
                parts.append(TextPart(encoded, before, kept, repeats, len(self._symbol), own))
        if not config.split_sentences:  # white space around a text is the model's to write
            return Divided([parts[0]._replace(before=""), *parts[1:]], "", tuple(notices))
        return Divided(parts, text[end:], tuple(notices))

    def divide_lines(self, text: str, config: TranslateConfig) -> Divided:
        """The parts of a text of any number of lines, each divided as by `divide`; line breaks are kept."""
        parts, notices, before = list[TextPart](), list[str](), ""
        for line in text.split("\n"):
            divided = self.divide(line, config)
            first, *others = divided.parts
            parts += [first._replace(before=before + first.before), *others]
            notices += divided.notices
            before = divided.after + "\n"
        return Divided(parts, before[:-1], tuple(notices))

    def _fitting(self, text: str, num_before: int, *, cut: bool) -> tuple[list[Piece], list[str]]:
        """The pieces of a sentence, or of a whole text, that fit, and messages about a cut."""
        ids, max_tokens = self.source_tokenizer.encode(text), self.max_tokens - num_before
        if not has_letters(text):
            return [(0, len(text), [])], []
        is_too_long = len(ids) > max_tokens
        if is_too_long and not cut:
            raise too_long_error(len(ids), max_tokens)
        preferred_tokens = min(self.data.max_tokens, self.max_tokens)
        if len(ids) <= (preferred_tokens - num_before if cut else max_tokens):
            return [(0, len(text), ids)], []
        sentences = sentence_spans(text, self.data.source_language)
        if len(sentences) == 1 and not is_too_long:
            return [(0, len(text), ids)], []
        pieces: list[Piece] = []
        for start, end in sentences:
            fitting: Iterable[Piece] = [(0, end - start, [])]
            if has_letters(text[start:end]):
                fitting = encode_parts(text[start:end], self.source_tokenizer, max_tokens)
            pieces += [(start + begin, length, ids) for begin, length, ids in fitting]
        limit = f"data.max_tokens = {preferred_tokens:,}"
        if is_too_long:
            limit = f"the maximum of {self.max_tokens:,}"
        told = f"{num_before + len(ids):,} tokens, more than {limit}; translated in {len(pieces):,} parts"
        return pieces, [told]

    def _split(self, text: str) -> tuple[list[int], str, str]:
        """The ids of the symbol for the language to write, if any, the symbol as the text has it, with the
        white space behind it, and the rest of the text."""
        if self._symbol:
            return self._symbol, "", text
        symbols = self.source_tokenizer.languages
        if self._has_both:
            if not is_blank(text):
                raise DataError(
                    "the languages are not given: name that of the text and the one to write (options `from` "
                    f"and `to`), such as {next(iter(symbols))[2:-2]}",
                    label=NO_LANGUAGE,
                )
            return [], "", text
        symbol, rest = split_symbol(text, symbols)
        if symbol:
            return [symbols[symbol.rstrip()]], symbol, rest
        if len(symbols) > 1 and not is_blank(text):
            codes = listed(each[2:-2] for each in symbols)
            raise DataError(
                f"the language to write is not given: choose one of {codes} (option `to`), or begin the text "
                f"with its symbol, such as {next(iter(symbols))}",
                label=NO_LANGUAGE,
            )
        return [], "", text

    def _fits(self, ids: list[int]) -> list[int]:
        if len(ids) > self.max_tokens:
            raise too_long_error(len(ids), self.max_tokens)
        return ids
