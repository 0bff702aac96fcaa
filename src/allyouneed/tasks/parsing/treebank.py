"""Treebanks to train parsers on (paper 6.3): cleaned gold and silver trees, and trees made by exchange."""

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from typing import ClassVar, Final

from allyouneed.data.corpus import CleaningLimits, CleaningReport, Pair, require_rereadable
from allyouneed.data.corpus_files import Files, paths
from allyouneed.data.lines import LineCounts
from allyouneed.errors import DataError
from allyouneed.language_codes import Direction
from allyouneed.tasks.parsing.linearisation import WORD
from allyouneed.tasks.parsing.trees import (
    CODE,
    NO_WORDS,
    TRACE,
    Constituent,
    PlacedTree,
    Tree,
    one_word,
    read_trees,
    tree_of,
    without_function,
)

ONLY_TRACES: Final = "trees of nothing but traces, left out"
"""Note of a report on trees without a word."""

ONLY_CODES: Final = "trees of nothing but IDs, codes or metadata, left out"
"""Note of a report on trees that are no sentences."""

UNPARSED: Final = "sentences without a tree, left out"
"""Note of a report on sentences whose parser failed."""

_CODES: Final = "IDs, codes, metadata, comments and marks of disfluencies removed"


def clean(tree: Tree, notes: Counter[str] | None = None) -> Tree | None:
    """Remove traces, codes, and function tags such as `-SBJ`; parsers are trained and scored on such trees.

    Returns None if no word is left. `notes` counts what was removed.
    """
    notes = Counter() if notes is None else notes
    kept = [place for place, tag in enumerate(tree.tags) if tag not in NO_WORDS]
    if not kept:
        return None
    place_of = [0]  # index of each word among the kept ones
    for tag in tree.tags:
        place_of.append(place_of[-1] + (tag not in NO_WORDS))
    constituents = []
    for label, start, end in tree.constituents:
        bare = without_function(label)
        notes["function tags removed"] += bare != label
        if place_of[start] < place_of[end]:
            constituents.append(Constituent(bare, place_of[start], place_of[end]))
    notes["traces removed"] += tree.tags.count(TRACE)
    notes.update([_CODES] * tree.tags.count(CODE))
    return Tree(tuple(tree.words[i] for i in kept), tuple(tree.tags[i] for i in kept), tuple(constituents))


def without_unary_cycles(tree: Tree) -> Tree:
    """The tree without repeated labels over the same words: one `NP`, the outermost, for NP over NP over NP.

    Cleaning creates such chains where a trace stood next to an inner constituent. Training drops them;
    scoring keeps them, as EVALB does.
    """
    return replace(tree, constituents=tuple(dict.fromkeys(tree.constituents)))


def clean_trees(trees: Iterable[PlacedTree], notes: Counter[str] | None = None) -> Iterator[PlacedTree]:
    """Clean each tree; those without words are left out and counted, by the reason."""
    for tree, line_number in trees:
        if cleaned := clean(tree, notes):
            yield PlacedTree(cleaned, line_number)
        elif notes is not None:
            notes[ONLY_CODES if CODE in tree.tags else ONLY_TRACES if tree.tags else UNPARSED] += 1


def exchange_constituents(trees: Sequence[Tree], number: int, seed: int = 1) -> Iterator[tuple[int, Tree]]:
    """Make trees by replacing a random constituent with another of its label; reproducible by seed.

    No new tree is longer than the longest given tree, or has the same words as its original. Fewer than
    `number` result if hardly any constituents can be exchanged.

    Returns:
        The index of the original tree, and the new tree.
    """
    draw = Random(seed)
    longest = max((len(tree.words) for tree in trees), default=0)
    by_label: dict[str, list[tuple[int, int]]] = {}
    for place, tree in enumerate(trees):
        for inside, constituent in enumerate(tree.constituents):
            if constituent.end - constituent.start < len(tree.words):
                by_label.setdefault(constituent.label, []).append((place, inside))
    everywhere = [item for items in by_label.values() for item in items]
    made = 0
    for _ in range(10 * number if everywhere else 0):
        if made == number:
            return
        place, inside = draw.choice(everywhere)
        tree = trees[place]
        other, other_inside = draw.choice(by_label[tree.constituents[inside].label])
        new = replace_constituent(tree, inside, trees[other], other_inside)
        if new.words != tree.words and len(new.words) <= longest:
            made += 1
            yield place, new


def replace_constituent(tree: Tree, place: int, other: Tree, other_place: int) -> Tree:
    """Replace a constituent of a tree, with everything inside it, by a constituent of another tree."""
    _, start, end = tree.constituents[place]
    _, other_start, other_end = other.constituents[other_place]
    longer = (other_end - other_start) - (end - start)
    before = [
        constituent._replace(end=constituent.end + longer) if constituent.end >= end else constituent
        for constituent in tree.constituents[:place]
    ]
    inside = [
        Constituent(label, s - other_start + start, e - other_start + start)
        for label, s, e in _with_all_inside(other, other_place)
    ]
    after = [
        Constituent(label, s + longer, e + longer)
        for label, s, e in tree.constituents[place + len(_with_all_inside(tree, place)) :]
    ]
    return Tree(
        tree.words[:start] + other.words[other_start:other_end] + tree.words[end:],
        tree.tags[:start] + other.tags[other_start:other_end] + tree.tags[end:],
        (*before, *inside, *after),
    )


def _with_all_inside(tree: Tree, place: int) -> Sequence[Constituent]:
    """A constituent and those inside it, which directly follow it."""
    end = tree.constituents[place].end
    last = place + 1
    while last < len(tree.constituents) and tree.constituents[last].start < end:
        last += 1
    return tree.constituents[place:last]


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
    """Number of new trees made from `files` by exchange of constituents; see `exchange_constituents`."""

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

    @property
    def directions(self) -> Sequence[Direction]:
        """None."""
        return ()

    def weights_by_file(self) -> Mapping[tuple[str, Direction | None], float]:
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
