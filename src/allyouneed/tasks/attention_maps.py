"""Attention of a model on a text (paper, figures 3 to 5): the weights of all heads, with pieces and words."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Final, NamedTuple, Self

import torch

from allyouneed.config.model import ModelConfig
from allyouneed.config.run import RunConfig
from allyouneed.data.tokenizer import Tokenizer
from allyouneed.data.words import Span, group_pieces, in_print, split_at_spaces, split_words
from allyouneed.explorer.page import MOST_WEIGHTS, attention_frame, too_many_weights
from allyouneed.inference.alignment import Links, align, align_words, alignment_heads
from allyouneed.inference.attention_weights import (
    AttentionWeights,
    agreement,
    capture_attention,
    measure,
    merge_pieces,
    strongest_links,
)
from allyouneed.model.encoder_decoder import EncoderDecoder
from allyouneed.symbols import CONTROL_SYMBOLS, END, START

FORMAT: Final = "allyouneed attention 1"


class AttentionKind(NamedTuple):
    """One of the three uses of attention in the model (paper 3.2.3)."""

    queries: str
    """Name of the sequence that attends."""
    keys: str
    """Name of the sequence that is attended to."""


KINDS: Final = {
    "encoder": AttentionKind("source", "source"),
    "decoder": AttentionKind("target", "target"),
    "cross": AttentionKind("written", "source"),
}
"""Name of the weights in `AttentionWeights` -> kind."""


@dataclass(frozen=True)
class Pieces:
    """A text as the model sees it, without control symbols."""

    text: str
    pieces: list[str]
    """Printable text of each piece."""
    offsets: list[Span]
    """Begin and end of each piece in the text, in characters."""
    groups: list[Span]
    """For each word, the range of its pieces; the end is exclusive."""

    @classmethod
    def of(cls, tokenizer: Tokenizer, ids: Sequence[int], *, is_split: bool = False) -> Self:
        """The pieces of ids; spaces separate all words if the text `is_split`, else `split_words` does."""
        text, spans = tokenizer.decode(ids), tokenizer.spans(ids)
        words = split_at_spaces(text) if is_split else split_words(text)
        return cls(text, tokenizer.pieces(ids), spans, group_pieces(words, spans))

    @classmethod
    def of_words(cls, words: Sequence[str], pieces: Sequence[str]) -> Self:
        """Words joined by spaces, all with the same number of pieces; each piece spans its whole word."""
        text, per_word = " ".join(words), len(pieces) // max(1, len(words))
        offsets = [span for span in split_at_spaces(text) for _ in range(per_word)]
        groups = [(first, first + per_word) for first in range(0, len(pieces), per_word or 1)]
        return cls(text, list(pieces), offsets, groups)


@dataclass(frozen=True)
class Word:
    """A word, a punctuation mark, or a control symbol."""

    text: str
    """Printable text: invisible characters are named, as `<U+200B>`."""
    begin: int
    """Index of its first character in the text."""
    end: int
    """Index after its last character; equal to `begin` for a control symbol."""
    pieces: Span
    """Range of its pieces; the end is exclusive."""


@dataclass(frozen=True)
class AttendedText:
    """A text as the model sees it: its pieces, the control symbol among them, and their words."""

    text: str
    pieces: list[str]
    """Printable text of each piece; the control symbol is `<s>` or `</s>`."""
    offsets: list[Span]
    """Begin and end of each piece in the text, in characters."""
    words: list[Word]
    control: int | None = field(kw_only=True)
    """Index of the control symbol among the words, the first or the last; None if there is none."""

    @property
    def word_of_piece(self) -> list[int]:
        """For each piece, the index of its word."""
        return [number for number, word in enumerate(self.words) for _ in range(*word.pieces)]


@dataclass(frozen=True)
class Attention:
    """Attention weights of a model that read a source and wrote a target; see `AttentionWeights`.

    A notebook displays it as the page that `allyouneed attend` makes.
    """

    weights: AttentionWeights
    """Weights between pieces."""
    source: AttendedText
    """The source and its end symbol; without it if the model reads none (`source_end = false`)."""
    target: AttendedText
    """Input of the decoder: the start symbol and the target."""
    written: AttendedText
    """Output of the decoder: the target and its end symbol. Row i of `weights.cross` belongs to the writing
    of piece i."""
    alignment: Links
    """Pairs of linked words (source, written), found as by `translate --alignments`; but that command splits
    words at white space only, and here punctuation marks are words too."""
    alignment_layer: int
    """Layer, from 1, that the links were found in."""
    strip: Mapping[str, Any] | None = None
    """A picture of a source that is no text; see `frame_attention.strip_of`."""

    def in_words(self) -> AttentionWeights:
        """Weights between words: sums over the pieces of a key, means over the pieces of a query."""
        return AttentionWeights(
            **{
                name: merge_pieces(
                    getattr(self.weights, name),
                    [word.pieces for word in getattr(self, kind.queries).words],
                    [word.pieces for word in getattr(self, kind.keys).words],
                )
                for name, kind in KINDS.items()
            }
        )

    def measures(self) -> dict[str, dict[str, torch.Tensor]]:
        """Kind -> name of a measure -> its values on word weights (layers, heads); see `measure`.

        A decoder with recurrent units has no attention to itself, so that "decoder" is missing. If the source
        has no end symbol, "encoder" and "cross" have no measure `control`.

        "cross" also has `agreement`: the F-measure of its `strongest_links` against `alignment`.
        """
        weights = self.in_words()
        measures = {
            name: measure(getattr(weights, name), getattr(self, kind.keys).control)
            for name, kind in KINDS.items()
            if len(getattr(weights, name))
        }
        agreements = [
            [agreement(strongest_links(head[:-1, : self.source.control]), self.alignment) for head in layer]
            for layer in weights.cross
        ]
        measures["cross"]["agreement"] = torch.tensor(agreements)
        return measures

    def document(self) -> dict[str, Any]:
        """Everything, as the page needs it: the weights of each kind as one array, the rest as in JSON."""
        measures = self.measures()
        return {
            "format": FORMAT,
            "sequences": {name: asdict(getattr(self, name)) for name in ("source", "target", "written")},
            "alignment": self.alignment,
            "alignment_layer": self.alignment_layer,
            "kinds": {
                name: {
                    "queries": kind.queries,
                    "keys": kind.keys,
                    "weights": getattr(self.weights, name).numpy(),
                    "measures": {measure: _rounded(values) for measure, values in measures[name].items()},
                }
                for name, kind in KINDS.items()
                if name in measures
            },
            **({} if self.strip is None else {"strip": self.strip}),
        }

    def to_json(self) -> dict[str, Any]:
        """Everything as JSON values; docs/attention.md describes the format."""
        document = self.document()
        for name, kind in document["kinds"].items():
            kind["weights"] = _rounded(getattr(self.weights, name))
        return document

    def _repr_html_(self) -> str:
        """HTML that notebooks display."""
        return attention_frame(self.document())


@dataclass(frozen=True)
class Selection:
    """The part of an attention that a figure shows."""

    kind: str
    """Name of a kind in `KINDS`."""
    layer: int
    """Layer, from 0."""
    heads: Sequence[int]
    """Heads, from 0."""
    words: Sequence[str] = ()
    """Words whose lines are drawn; if empty, those of all words."""


def look_into(weights: AttentionWeights, source: Pieces, target: Pieces, config: RunConfig) -> Attention:
    """Combine attention weights with the texts that were read and written, and link their words.

    Raises:
        UsageError: The model does not have the layer or head of `config.search` that links words.
    """
    has_end = weights.encoder.size(-1) > len(source.pieces)
    read, written = _tokens(source, end=has_end), _tokens(target, end=True)
    search = config.search
    layer, heads = alignment_heads(config.model, search.alignment_layer, search.alignment_head)
    links = align(weights.cross[layer, heads].mean(dim=0)[:, : len(source.pieces)].numpy())
    alignment = align_words(links, read.word_of_piece, written.word_of_piece)
    return Attention(weights, read, _tokens(target, start=True), written, alignment, layer + 1)


def attentions_of(
    model: EncoderDecoder,
    sources: Sequence[Sequence[int]],
    targets: Sequence[Sequence[int]],
    tokenizers: tuple[Tokenizer, Tokenizer],
    config: RunConfig,
    *,
    for_page: bool,
) -> Iterator[Attention]:
    """Look into the attention of a translation model, one source and target after the other.

    Raises:
        DataError: `for_page`, and there are more weights than a page holds.
    """
    for source, target in zip(sources, targets, strict=True):
        if for_page:
            require_few_weights(model.config, source, target)
        weights = capture_attention(model, source, target)
        read, written = map(Pieces.of, tokenizers, (source, target))
        yield look_into(weights, read, written, config)


def require_few_weights(config: ModelConfig, source: Sequence[int], target: Sequence[int]) -> None:
    """Raise DataError, before attention weights are computed, if they are more than `MOST_WEIGHTS`."""
    read, written = len(source) + (config.source_end or not source), len(target) + 1
    in_decoder = written * (read + (written if config.autoregression == "attention" else 0))
    total = config.num_heads * (config.num_layers * read**2 + config.decoder_layers * in_decoder)
    if total > MOST_WEIGHTS:
        raise too_many_weights(total, read, written)


def _tokens(of_text: Pieces, *, start: bool = False, end: bool = False) -> AttendedText:
    """The text, with the start symbol prepended or the end symbol appended."""
    text, pieces, spans, size = of_text.text, of_text.pieces, of_text.offsets, len(of_text.text)
    words = [_word(text, spans, group, start) for group in of_text.groups]
    if start:
        first = Word(CONTROL_SYMBOLS[START], 0, 0, (0, 1))
        return AttendedText(text, [first.text, *pieces], [(0, 0), *spans], [first, *words], control=0)
    if not end:
        return AttendedText(text, pieces, spans, words, control=None)
    last = Word(CONTROL_SYMBOLS[END], size, size, (len(pieces), len(pieces) + 1))
    return AttendedText(
        text, [*pieces, last.text], [*spans, (size, size)], [*words, last], control=len(words)
    )


def _word(text: str, spans: Sequence[Span], group: Span, shift: int) -> Word:
    begin, end = spans[group[0]][0], spans[group[1] - 1][1]
    shown = text[begin:end].strip()
    begin += len(text[begin:end]) - len(text[begin:end].lstrip()) if shown else 0
    end = begin + len(shown) if shown else end
    return Word(in_print(text[begin:end]), begin, end, (group[0] + shift, group[1] + shift))


def _rounded(weights: torch.Tensor) -> list[Any]:
    """The values with seven decimals; float32 weights hold no more."""
    rounded: list[Any] = weights.double().round(decimals=7).tolist()
    return rounded
