"""Treebanks to train parsers on (paper 6.3): gold trees, silver trees, and trees made by exchange."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar, Final

from allyouneed.data.corpus import CleaningLimits, CleaningReport, Pair, require_rereadable
from allyouneed.data.corpus_files import Files, paths
from allyouneed.data.lines import LineCounts
from allyouneed.errors import DataError
from allyouneed.tasks.parsing.linearisation import WORD
from allyouneed.tasks.parsing.tree_cleaning import ONLY_TRACES, clean_trees, without_unary_cycles
from allyouneed.tasks.parsing.tree_exchange import exchange_constituents
from allyouneed.tasks.parsing.trees import Tree, one_word, read_trees, tree_of

_REPEATED: Final = "repetitions of trees"
_SILVER: Final = "silver trees"
_EXCHANGED: Final = "trees made by exchange of constituents"

_CYCLES: Final = "labels twice over the same words, learned once"

AUGMENTED: Final = {_REPEATED, _SILVER, _EXCHANGED}
"""Notes of a report that show that trees were added to the given ones."""

UNTAGGED: Final = "silver trees without parts of speech"
"""Note of a report on silver trees of a parser that does not predict tags."""


@dataclass(frozen=True)
class TreeFiles:
    """The files of a treebank, read as pairs: words joined by spaces, and their tree."""

    files: Files = ()
    """Files of trees in Penn brackets; a tree may span lines, and a line may hold several trees."""
    silver: Files = ()
    """Files of trees made by a parser from raw text, which are added."""
    repetitions: int = 1
    """Number of copies of each tree of `files`, to set their share relative to silver trees."""
    exchanges: int = 0
    """Number of new trees made from `files` by exchange of constituents; see `tree_exchange.py`."""

    limits: ClassVar[CleaningLimits] = CleaningLimits(
        max_words=1_000_000, max_characters=10_000_000, max_length_ratio=math.inf
    )
    """Loose limits: brackets far outnumber words, and `max_tokens` drops sentences that are too long."""

    def __bool__(self) -> bool:
        return bool(self.files)

    def read(self, report: CleaningReport) -> Iterator[Pair]:
        """All trees, cleaned, on one line each; the call itself checks that all files exist."""
        require_rereadable(self.all_files)
        return self._read(report)

    @property
    def all_files(self) -> list[Path]:
        """All files that are read."""
        return [*paths(self.files), *paths(self.silver)]

    def require_usable(self) -> None:
        """Nothing to check."""

    def weights_by_file(self) -> Mapping[str, float]:
        """Every tree is wanted once; `repetitions` are read again."""
        return {}

    def distinct(self) -> "TreeFiles":
        """The files without repetitions and exchanges, to learn units from the original frequencies."""
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
        num_trees, num_before = 0, report.notes[ONLY_TRACES]
        for tree, line in clean_trees(read_trees(file, counts, report.notes), report.notes):
            num_trees += 1
            report.notes[_CYCLES] += len(tree.constituents) - len(without_unary_cycles(tree).constituents)
            yield Pair(_words(tree), str(tree), line, str(file)), tree
        if not num_trees:
            num_empty = report.notes[ONLY_TRACES] - num_before
            found = f"only trees of traces ({num_empty:,})" if num_empty else "no tree"
            raise DataError(f"{file}: holds {found}; give a file of trees in brackets, with words")


def _words(tree: Tree) -> str:
    return " ".join(map(one_word, tree.words))
