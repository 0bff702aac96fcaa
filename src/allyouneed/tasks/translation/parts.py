"""Makes translations from the hypotheses of a search."""

from collections.abc import Iterable, Iterator, Sequence

from allyouneed.config.run import SearchConfig
from allyouneed.data.sentences import TextPart, split_symbol
from allyouneed.data.tokenizer import Tokenizer
from allyouneed.inference.alignment import align_words
from allyouneed.inference.beams import Hypothesis
from allyouneed.tasks.translation.outputs import END_PIECE, Part, Translation, least_risk


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
    """Makes the translations of a part of a text.

    Args:
        source_tokenizer: Tokeniser of the texts.
        target_tokenizer: Tokeniser of the translations.
        search: Settings of the search: `alignments` and `mbr`.
        n_best: Maximum number of translations.
    """

    def __init__(
        self, source_tokenizer: Tokenizer, target_tokenizer: Tokenizer, search: SearchConfig, n_best: int
    ) -> None:
        self._source_tokenizer, self._target_tokenizer = source_tokenizer, target_tokenizer
        self._search, self._n_best = search, n_best

    def part(self, part: TextPart, hypotheses: Sequence[Hypothesis]) -> Part:
        """The translations of a part, best first, or samples as drawn.

        Args:
            part: The part of the text.
            hypotheses: What was found for its ids.
        """
        source = part.kept or self._source_tokenizer.decode(part.ids)
        num_repeated = len(self._source_tokenizer.language_of(source).split())
        if part.kept:
            return Part([self._kept(self.kept_text(part), num_repeated)], source, num_repeated)
        translations = [self._translation(part.ids, each) for each in hypotheses]
        if self._search.mbr is not None:
            translations = least_risk(translations)[: self._n_best]
        return Part(translations, source, num_repeated)

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
