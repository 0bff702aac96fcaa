"""Where a model looks (paper, figures 3 to 5): the weights of all heads, and the words between them."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final, NamedTuple, Self

import torch

from allyouneed.config.run import RunConfig
from allyouneed.data.tokenizer import Tokenizer
from allyouneed.data.words import Span, group_pieces, in_print, split_at_spaces, split_words
from allyouneed.explorer import attention_frame
from allyouneed.inference.alignment import Links, align, align_words, alignment_heads
from allyouneed.inference.attention_capture import AttentionWeights
from allyouneed.inference.attention_measures import agreement, measure, merge_pieces, strongest_links
from allyouneed.symbols import CONTROL_SYMBOLS, END, START

FORMAT: Final = "allyouneed attention 1"


class Kind(NamedTuple):
    """One of the three uses of attention in the model (paper 3.2.3)."""

    queries: str
    """The name of the sequence whose positions look."""
    keys: str
    """That of the sequence that they look at."""
    control: int
    """Where a control symbol stands in it: the source's end symbol, or the start symbol of the target."""


KINDS: Final = {
    "encoder": Kind("source", "source", -1),
    "decoder": Kind("target", "target", 0),
    "cross": Kind("written", "source", -1),
}
"""By the name of their weights in `AttentionWeights`."""


@dataclass(frozen=True)
class Pieces:
    """A text as the model has it, without control symbols."""

    text: str
    pieces: list[str]
    """In print."""
    offsets: list[Span]
    """Where each piece begins and ends in the text, in characters."""
    groups: list[Span]
    """The pieces of each word, from the first to behind the last."""

    @classmethod
    def of(cls, tokenizer: Tokenizer, ids: Sequence[int], *, is_split: bool = False) -> Self:
        """Those that the ids stand for.

        Args:
            tokenizer: Whose ids they are.
            ids: Of a text.
            is_split: Whether spaces stand between all its words; else these are found by `split_words`.
        """
        text, spans = tokenizer.decode(ids), tokenizer.spans(ids)
        words = split_at_spaces(text) if is_split else split_words(text)
        return cls(text, tokenizer.pieces(ids), spans, group_pieces(words, spans))

    @classmethod
    def of_words(cls, words: Sequence[str], pieces: Sequence[str]) -> Self:
        """Words with spaces between, with as many pieces each, all of the whole word."""
        text, per_word = " ".join(words), len(pieces) // max(1, len(words))
        offsets = [span for span in split_at_spaces(text) for _ in range(per_word)]
        groups = [(first, first + per_word) for first in range(0, len(pieces), per_word or 1)]
        return cls(text, list(pieces), offsets, groups)

    @classmethod
    def of_symbols(cls, symbols: Sequence[str]) -> Self:
        """Each of which, such as a bracket of a tree, is a piece and a word."""
        return cls.of_words(symbols, symbols)


@dataclass(frozen=True)
class Word:
    """A word, a sign, or a control symbol."""

    text: str
    """In print: what cannot be seen is named, as `<U+200B>`."""
    begin: int
    """The place of its first character in the text."""
    end: int
    """Behind its last character; equal to `begin` for a control symbol."""
    pieces: Span
    """Of it, from the first to behind the last."""


@dataclass(frozen=True)
class Tokens:
    """A text as the model has it: pieces with a control symbol, and the words that they make up."""

    text: str
    pieces: list[str]
    """In print, the control symbol as `<s>` or `</s>`."""
    offsets: list[Span]
    """Where each piece begins and ends in the text, in characters."""
    words: list[Word]

    @property
    def word_of_piece(self) -> list[int]:
        """The number of the word that each piece is of."""
        return [number for number, word in enumerate(self.words) for _ in range(*word.pieces)]


@dataclass(frozen=True)
class Attention:
    """The weights with which a model has read a source and written a target; see `AttentionWeights`.

    In a notebook it shows itself as the page that `allyouneed attend` makes.
    """

    weights: AttentionWeights
    """Of pieces."""
    source: Tokens
    """The source and its end symbol."""
    target: Tokens
    """What the decoder reads: the start symbol and the target."""
    written: Tokens
    """What it writes meanwhile: the target and its end symbol. Row i of `weights.cross` is that of writing
    piece i."""
    alignment: Links
    """The words (source, written) that belong together, as `translate --alignments` finds them; but there
    white space parts words, and here marks are words, too."""
    alignment_layer: int
    """From 1; where they were found."""

    def in_words(self) -> AttentionWeights:
        """The weights of words: sums over the pieces that are attended to, means over those that attend."""
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
        """Of each kind, by name, what `measure` says of the words, (layers, heads) each.

        Attention to the source also has `agreement`: the F-measure of its `strongest_links` and `alignment`.
        """
        weights = self.in_words()
        measures = {name: measure(getattr(weights, name), kind.control) for name, kind in KINDS.items()}
        agreements = [
            [agreement(strongest_links(head[:-1, :-1]), self.alignment) for head in layer]
            for layer in weights.cross
        ]
        measures["cross"]["agreement"] = torch.tensor(agreements)
        return measures

    def document(self) -> dict[str, Any]:
        """All of it, as the page wants it: the weights of each kind as one array, the rest as in JSON."""
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
            },
        }

    def to_json(self) -> dict[str, Any]:
        """All of it as JSON can hold it; docs/attention.md describes the format."""
        document = self.document()
        for name, kind in document["kinds"].items():
            kind["weights"] = _rounded(getattr(self.weights, name))
        return document

    def _repr_html_(self) -> str:
        """For notebooks."""
        return attention_frame(self.document())


@dataclass(frozen=True)
class Selection:
    """What a figure shows of an attention."""

    kind: str
    """A name in `KINDS`."""
    layer: int
    """From 0."""
    heads: Sequence[int]
    """From 0."""
    words: Sequence[str] = ()
    """Whose lines are drawn; all if there are none."""


def look_into(
    weights: AttentionWeights,
    source: Pieces,
    target: Pieces,
    config: RunConfig,
) -> Attention:
    """Weights with the words that they stand between.

    Args:
        weights: Of the model.
        source: What was read.
        target: What was written.
        config: Of the model; says which layer, and which head of it, links words.

    Raises:
        UsageError: The model has no such layer or head.
    """
    read, written = _tokens(source, start=False), _tokens(target, start=False)
    search = config.search
    layer, heads = alignment_heads(config.model, search.alignment_layer, search.alignment_head)
    links = align(weights.cross[layer, heads].mean(dim=0)[:, :-1])
    alignment = align_words(links, read.word_of_piece, written.word_of_piece)
    return Attention(weights, read, _tokens(target, start=True), written, alignment, layer + 1)


def _tokens(of_text: Pieces, *, start: bool) -> Tokens:
    """The text with the start symbol in front or the end symbol behind."""
    text, pieces, spans, size = of_text.text, of_text.pieces, of_text.offsets, len(of_text.text)
    words = [_word(text, spans, group, start) for group in of_text.groups]
    if start:
        first = Word(CONTROL_SYMBOLS[START], 0, 0, (0, 1))
        return Tokens(text, [first.text, *pieces], [(0, 0), *spans], [first, *words])
    last = Word(CONTROL_SYMBOLS[END], size, size, (len(pieces), len(pieces) + 1))
    return Tokens(text, [*pieces, last.text], [*spans, (size, size)], [*words, last])


def _word(text: str, spans: Sequence[Span], group: Span, shift: int) -> Word:
    begin, end = spans[group[0]][0], spans[group[1] - 1][1]
    shown = text[begin:end].strip()
    begin += len(text[begin:end]) - len(text[begin:end].lstrip()) if shown else 0
    end = begin + len(shown) if shown else end
    return Word(in_print(text[begin:end]), begin, end, (group[0] + shift, group[1] + shift))


def _rounded(weights: torch.Tensor) -> list[Any]:
    """With seven decimals: more says nothing, as weights are computed in float32."""
    rounded: list[Any] = weights.double().round(decimals=7).tolist()
    return rounded
