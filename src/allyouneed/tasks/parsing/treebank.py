"""Treebanks to train parsers on (paper 6.3): gold trees, those of a parser, and those made of others."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar, Final

from allyouneed.data.corpus import CleaningLimits, CleaningReport, Pair, require_rereadable
from allyouneed.data.corpus_files import Files, paths
from allyouneed.data.lines import LineCounts
from allyouneed.errors import DataError
from allyouneed.tasks.parsing.linearisation import WORD
from allyouneed.tasks.parsing.tree_cleaning import clean_trees, without_unary_cycles
from allyouneed.tasks.parsing.tree_exchange import exchange_constituents
from allyouneed.tasks.parsing.trees import Tree, one_word, read_trees, tree_of

_REPEATED: Final = "repetitions of trees"
_SILVER: Final = "silver trees"
_EXCHANGED: Final = "trees made by exchange of constituents"

_CYCLES: Final = "labels twice over the same words, learned once"

AUGMENTED: Final = {_REPEATED, _SILVER, _EXCHANGED}
"""What a report notes where there is more than the trees that were given."""

UNTAGGED: Final = "silver trees without parts of speech"
"""What it notes of trees of a parser that does not predict tags."""


@dataclass(frozen=True)
class TreeFiles:
    """Where the trees of a treebank come from; pairs of the words, with spaces between, and their tree."""

    files: Files = ()
    """Penn brackets, over several lines each or several on a line."""
    silver: Files = ()
    """Trees that a parser has made of raw text, to be mixed in."""
    repetitions: int = 1
    """How often each tree of `files` is there, which sets their share beside silver trees."""
    exchanges: int = 0
    """New trees made of `files` by exchange of constituents; see `tree_exchange.py`."""

    limits: ClassVar[CleaningLimits] = CleaningLimits(
        max_words=1_000_000, max_characters=10_000_000, max_length_ratio=math.inf
    )
    """Brackets are many more than the words in them; of sentences, `max_tokens` drops what is too long."""

    def __bool__(self) -> bool:
        return bool(self.files)

    def read(self, report: CleaningReport) -> Iterator[Pair]:
        """All trees, cleaned, on one line each; that all files are there is checked at the call."""
        require_rereadable([*paths(self.files), *paths(self.silver)])
        return self._read(report)

    def distinct(self) -> "TreeFiles":
        """What sub-words and symbols are learned from: a word that is repeated is no more frequent for it."""
        return replace(self, repetitions=1, exchanges=0)

    def _read(self, report: CleaningReport) -> Iterator[Pair]:
        gold: list[Pair] = []
        for file in paths(self.files):
            for pair, _ in self._read_file(file, report):
                yield pair
                if self.repetitions > 1 or self.exchanges:
                    gold.append(pair)
        for _ in range(self.repetitions - 1):
            yield from gold
            report.notes[_REPEATED] += len(gold)
        for file in paths(self.silver):
            for pair, tree in self._read_file(file, report):
                yield pair
                report.notes[_SILVER] += 1
                if {*tree.tags} == {WORD}:
                    report.notes[UNTAGGED] += 1
        trees = [tree_of(pair.target) for pair in gold] if self.exchanges else []
        for place, tree in exchange_constituents(trees, self.exchanges):
            yield gold[place]._replace(source=_words(tree), target=str(tree))
            report.notes[_EXCHANGED] += 1

    def _read_file(self, file: Path, report: CleaningReport) -> Iterator[tuple[Pair, Tree]]:
        counts = report.files[str(file)] = LineCounts()
        num_trees = 0
        for tree, line in clean_trees(read_trees(file, counts, report.notes), report.notes):
            num_trees += 1
            report.notes[_CYCLES] += len(tree.constituents) - len(without_unary_cycles(tree).constituents)
            yield Pair(_words(tree), str(tree), line, str(file)), tree
        if not num_trees:
            raise DataError(f"{file}: holds no tree; give a file of trees in brackets")


def _words(tree: Tree) -> str:
    return " ".join(map(one_word, tree.words))
