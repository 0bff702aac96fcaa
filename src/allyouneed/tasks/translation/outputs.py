"""Translations, made from the hypotheses of a search: texts with scores, samples and parts."""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import NamedTuple

from allyouneed.config.run import SearchConfig
from allyouneed.data.sentences import TextPart, split_symbol
from allyouneed.data.tokenizer import Tokenizer
from allyouneed.inference.alignment import align_words
from allyouneed.inference.beams import Hypothesis
from allyouneed.inference.sampling import rank_by_expected_utility
from allyouneed.language_codes import WITHOUT_SPACES_BETWEEN_SENTENCES, primary_language

CUT = "its translation did not end within the maximum length and was cut"
"""The message about a translation that was cut."""

END_PIECE = "</s>"
"""Printable form of the end symbol."""


@dataclass(frozen=True)
class Translation:
    """A translation of a text."""

    text: str
    score: float
    """Log-probability divided by the length penalty; with `mbr`, expected chrF from 0 to 100. For a text in
    parts, the mean of the scores of the parts, weighted by tokens including the end symbol."""
    tokens: list[str] = field(default_factory=list, repr=False)
    """Printable sub-word pieces, with the end symbol `</s>` after each part. A translation that was cut at
    the maximum length has no end symbol; that of a blank text has no tokens."""
    token_log_probs: list[float] = field(default_factory=list, repr=False)
    """Natural logarithm of the probability of each token."""
    alignment: list[tuple[int, int]] | None = field(default=None, repr=False)
    """Pairs of aligned words (source, target), from 0, if requested; words are separated by white space, in
    sources also where a text was divided."""

    is_cut: bool = field(default=False, repr=False)
    """Whether the translation, or that of a part of the text, did not end within the maximum length."""


class TranslatedPart(NamedTuple):
    """A part of a text and its translations, best first."""

    translations: list[Translation]
    source: str
    num_repeated: int = 0
    """Number of words at the beginning that every part of the text has: the symbol for its language."""


def least_risk(drawn: Sequence[Translation]) -> list[Translation]:
    """The distinct samples, in order of expected risk, lowest first."""
    from allyouneed.evaluation.pairwise_chrf import pairwise_chrf

    ranked = rank_by_expected_utility([translation.text for translation in drawn], pairwise_chrf)
    return [replace(drawn[index], score=utility) for index, utility in ranked]


def join_parts(parts: Sequence[TranslatedPart], separators: Sequence[str]) -> list[Translation]:
    """Join the translations of the parts of a text.

    The n-th best joins the n-th best of each part, or the last one if a part has fewer. `separators` stand
    before each part, and after the last.
    """
    if len(parts) == 1 and not any(separators):
        return parts[0].translations
    ranks = range(max(len(part.translations) for part in parts))
    return [
        _join(parts, [part.translations[min(rank, len(part.translations) - 1)] for part in parts], separators)
        for rank in ranks
    ]


def join_lines(
    lines: Sequence[Sequence[TranslatedPart]], separators: Sequence[Sequence[str]]
) -> list[Translation]:
    """Join the translations of the parts of each line, at least one, and those of the lines by line breaks.

    `separators` stand before each part of a line, and after its last.
    """
    whole = []
    for parts, around in zip(lines, separators, strict=True):
        words = [part.source.split()[part.num_repeated if place else 0 :] for place, part in enumerate(parts)]
        whole.append(TranslatedPart(join_parts(parts, around), " ".join(chain(*words))))
    return join_parts(whole, ["", *["\n"] * (len(lines) - 1), ""])


def space_between_sentences(language: str) -> str:
    """The separator of sentences in a language, by its code, such as "zh-Hans": a space, or nothing."""
    return "" if primary_language(language) in WITHOUT_SPACES_BETWEEN_SENTENCES else " "


def _join(
    parts: Sequence[TranslatedPart], found: Sequence[Translation], separators: Sequence[str]
) -> Translation:
    num_tokens = [len(each.tokens) for each in found]
    scores = [translation.score for translation in found]
    total = sum(score * num for score, num in zip(scores, num_tokens, strict=True) if num)
    return Translation(
        "".join(chain(*zip(separators, (each.text for each in found), strict=False), separators[-1:])),
        -math.inf if -math.inf in scores else total / max(1, sum(num_tokens)),
        [token for translation in found for token in translation.tokens],
        [log_prob for translation in found for log_prob in translation.token_log_probs],
        _join_alignments(parts, found, separators),
        any(translation.is_cut for translation in found),
    )


def _join_alignments(
    parts: Sequence[TranslatedPart], found: Sequence[Translation], separators: Sequence[str]
) -> list[tuple[int, int]] | None:
    alignment: list[tuple[int, int]] = []
    num_source_words = num_target_words = 0
    before = ""
    for number, (part, translation) in enumerate(zip(parts, found, strict=True)):
        if translation.alignment is None:
            return None
        if text := translation.text:
            meet = before + separators[number] + text[0]
            if before and len(meet) == len("".join(meet.split())):  # one word goes on
                num_target_words -= 1
            before = text[-1]
        repeated = part.num_repeated if number else 0
        shift = num_source_words - repeated
        alignment += [
            (i if i < repeated else i + shift, j + num_target_words) for i, j in translation.alignment
        ]
        num_source_words += len(part.source.split()) - repeated
        num_target_words += len(text.split())
    return alignment


def certain_text(tokenizer: Tokenizer, ids: Sequence[int]) -> str:
    """The text of the first ids of an output, without a character of which bytes are missing."""
    return tokenizer.decode(ids).rstrip("\N{REPLACEMENT CHARACTER}")


def growing_texts(tokenizer: Tokenizer, prefixes: Iterable[list[int]]) -> Iterator[str]:
    """The texts of growing prefixes of an output, each longer than the one before; finally the whole."""
    told, ids = "", list[int]()
    for ids in prefixes:
        text = certain_text(tokenizer, ids)
        if len(text) > len(told):
            told = text
            yield told
    if (whole := tokenizer.decode(ids)) != told or not whole:
        yield whole


class PartMaker:
    """Makes up to `n_best` translations of each part of a text, aligned or ranked as `search` says."""

    def __init__(
        self, source_tokenizer: Tokenizer, target_tokenizer: Tokenizer, search: SearchConfig, n_best: int
    ) -> None:
        self._source_tokenizer, self._target_tokenizer = source_tokenizer, target_tokenizer
        self._search, self._n_best = search, n_best

    def part(self, part: TextPart, hypotheses: Sequence[Hypothesis]) -> TranslatedPart:
        """The translations of a part, best first, or samples as drawn, from the hypotheses for its ids."""
        source = part.kept or self._source_tokenizer.decode(part.ids)
        num_repeated = len(self._source_tokenizer.language_of(source).split())
        if part.kept:
            return TranslatedPart([self._kept(self.kept_text(part), num_repeated)], source, num_repeated)
        translations = [self._translation(part.ids, each) for each in hypotheses]
        if self._search.mbr is not None:
            translations = least_risk(translations)[: self._n_best]
        return TranslatedPart(translations, source, num_repeated)

    def certain_text(self, ids: Sequence[int]) -> str:
        """The text of the first ids of a translation; see `certain_text`."""
        return certain_text(self._target_tokenizer, ids)

    def kept_text(self, part: TextPart) -> str:
        """The text of a part that stays as it is; empty for another."""
        return split_symbol(self._source_tokenizer, part.kept)[1]

    def _kept(self, text: str, num_before: int) -> Translation:
        words = range(len(text.split()))
        links = [(word + num_before, word) for word in words] if self._search.alignments else None
        return Translation(text, 0.0, alignment=links)

    def _translation(self, source: Sequence[int], hypothesis: Hypothesis) -> Translation:
        tokenizer, ids, alignment = self._target_tokenizer, hypothesis.ids, None
        if self._search.alignments:
            words = self._source_tokenizer.words(source), tokenizer.words(ids)
            alignment = align_words(hypothesis.alignment, *words)
        pieces = [*tokenizer.pieces(ids), END_PIECE][: len(hypothesis.token_log_probs)]
        return Translation(
            tokenizer.decode(ids),
            hypothesis.score,
            pieces,
            hypothesis.token_log_probs,
            alignment,
            is_cut=pieces[-1:] not in ([], [END_PIECE]),
        )
