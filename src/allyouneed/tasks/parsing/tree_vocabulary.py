"""The target vocabulary of a parser: symbols of trees to ids and back (paper 6.3)."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Self, get_args

from allyouneed.data.vocabulary_file import SymbolVocabulary, VocabularyFile
from allyouneed.errors import DataError
from allyouneed.symbols import CONTROL_SYMBOLS, UNKNOWN
from allyouneed.tasks.parsing.linearisation import (
    ENDINGS,
    WORD,
    Brackets,
    BuiltTree,
    Tags,
    build_tree,
    is_word,
    linearise,
    symbols_per_word,
    unjoined,
)
from allyouneed.tasks.parsing.treebank import without_unary_cycles
from allyouneed.tasks.parsing.trees import tree_of
from allyouneed.tasks.parsing.word_features import UNKNOWN_WORD_CLASSES, word_symbol


@dataclass(frozen=True)
class TreeVocabulary(SymbolVocabulary):
    """Converts tree symbols, control symbols first, to ids and back, as `Tokenizer` does for text.

    Made by `learn` or `load`. `linearise` explains `tags` and `brackets`.
    """

    file = VocabularyFile("allyouneed tree symbols", 1, "vocabulary of trees", ("tags", "brackets"))
    tags: Tags
    brackets: Brackets

    @classmethod
    def learn(
        cls, texts: Iterable[str], tags: Tags, brackets: Brackets, max_tokens: int | None = None
    ) -> Self:
        """Learn the symbols of trees in brackets, the most frequent first; for words, see `with_words`.

        Trees of more than `max_tokens` symbols are passed over, as `prepare` drops them.

        Raises:
            DataError: A text is not a tree, or has a tag with the name of a control symbol.
        """
        assert tags != "words" or brackets == "joined"
        counts: Counter[str] = Counter()
        for text in texts:
            symbols = linearise(without_unary_cycles(tree_of(text)), tags, brackets)
            if max_tokens is None or len(symbols) <= max_tokens:
                counts.update(symbol for symbol in symbols if not is_word(symbol))
        if reserved := [symbol for symbol in CONTROL_SYMBOLS if symbol in counts]:
            raise DataError(f"{reserved[0]} is the tag of a word, but reserved here; rename it in the trees")
        if tags == "endings":
            counts.update(dict.fromkeys(ENDINGS, 0))  # no word ends in what is unknown
        if brackets == "joined":
            counts.update(dict.fromkeys(_all_joined(counts), 0))
        in_order = sorted(counts, key=lambda symbol: (-counts[symbol], symbol))
        return cls((*CONTROL_SYMBOLS, *in_order), tags, brackets)

    def with_words(self, words: Sequence[str]) -> Self:
        """The same symbols and those of words, `WordFeatures.word_symbols`, as the tags `words` need."""
        return replace(self, symbols=(*self.symbols, *words))

    def encode(self, text: str) -> list[int]:
        """The ids of a tree in brackets, without unary cycles; symbols that were not learned are unknown.

        Raises:
            DataError: The text is not a tree.
        """
        tree = without_unary_cycles(tree_of(text))
        ids = [self.ids.get(symbol, UNKNOWN) for symbol in linearise(tree, self.tags, self.brackets)]
        if self.tags == "words":
            ids[:: symbols_per_word(self.tags)] = self._word_ids(tree.words)
        return ids

    def decode(self, ids: Sequence[int], words: Sequence[str]) -> BuiltTree:
        """The tree that ids build over words, without unary cycles, which are never learned.

        Control symbols are left out, and make the tree ill-formed. Written words are left out, and make it
        ill-formed unless they are these words, in their places.
        """
        symbols = [self.symbols[token] for token in ids if token > UNKNOWN]
        built = build_tree(unjoined(symbols, self.tags) if self.brackets == "joined" else symbols, words)
        tree = without_unary_cycles(built.tree)
        if self.tags == "endings":
            tree = replace(tree, tags=(WORD,) * len(words))
        is_sound = all(token > UNKNOWN for token in ids)
        if self.tags == "words":
            per_word = symbols_per_word(self.tags)
            is_sound &= [*ids[::per_word]] == self._word_ids(words) and len(ids) == per_word * len(words)
        return BuiltTree(tree, built.well_formed and is_sound)

    def _word_ids(self, words: Sequence[str]) -> list[int]:
        return [self.ids[word_symbol(word, self.ids)] for word in words]

    @staticmethod
    def is_sound(symbols: list[str], tags: object, brackets: object) -> bool:
        """Whether these are the symbols and settings of a file."""
        return (
            tags in get_args(Tags)
            and brackets in get_args(Brackets)
            and (brackets != "joined" or _are_joined(symbols))
            and (tags != "words" or (brackets == "joined" and {*UNKNOWN_WORD_CLASSES} <= {*symbols}))
            and (tags != "endings" or {*ENDINGS} <= {*symbols})
        )


def _are_joined(symbols: list[str]) -> bool:
    """Whether the closing brackets are all numbers of ends up to the largest, as `_all_joined` gives them."""
    ends = {symbol for symbol in symbols if symbol.startswith(")")}
    return "" not in symbols and ends == {f"){number}" for number in range(len(ends))}


def _all_joined(seen: Iterable[str]) -> Iterator[str]:
    """Symbols for every tree of at most the seen depth: no label, each label alone, each number of ends."""
    yield "("
    most = 0
    for symbol in seen:
        if symbol.startswith("("):
            yield from unjoined([symbol], "predicted")
        elif symbol.startswith(")"):
            most = max(most, int(symbol[1:]))
    yield from (f"){number}" for number in range(most + 1))
