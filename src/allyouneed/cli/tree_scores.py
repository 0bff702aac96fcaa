"""Scores of trees, from a parser or a file, against gold trees."""

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Unpack

from allyouneed.cli.options import Device, torch_device
from allyouneed.data.lines import is_blank, read_lines
from allyouneed.errors import DataError, notice
from allyouneed.evaluation import Score, format_scores, headline, scores_to_json
from allyouneed.tasks.parsing.bracket_f1 import BracketScores, score_trees, words_of
from allyouneed.tasks.parsing.linearisation import WORD
from allyouneed.tasks.parsing.treebank import UNPARSED, clean_trees
from allyouneed.tasks.parsing.trees import Tree, trees_in
from allyouneed.tasks.requests import Failure, results

if TYPE_CHECKING:
    from allyouneed.tasks.parsing.parser import ParseOptions


def score_parser(
    model: Path, trees: Path, device: Device, **options: "Unpack[ParseOptions]"
) -> tuple[BracketScores, list[Score]]:
    """Parse the words of the gold trees with a model, and score; `options` are those of `Parser.parse`."""
    from allyouneed.runs.loading import load_parser
    from allyouneed.tasks.parsing.parser import NO_PARSE
    from allyouneed.tasks.parsing.task import parse_words, score_parses

    gold = _trees_of(trees)
    parser = load_parser(model, device=torch_device(device))
    answers = list(parse_words(parser, gold, **options))
    errors = [answer.error for answer in answers if isinstance(answer, Failure)]
    if errors:
        notice(
            f"{trees}: {len(errors):,} of {len(gold):,} sentences are not parsed, and count as trees without "
            f"constituents; the first: {errors[0].messages[0]}"
        )
    return score_parses(parser, gold, list(results(answers, NO_PARSE)))


def score_tree_file(hypotheses: Path, trees: Path) -> tuple[BracketScores, list[Score]]:
    """Compare a file of trees with the gold trees; score their tags too, if they have any.

    A sentence without a tree is an empty line, if each tree is on one line, or a tree without words, such as
    `(())`. It is scored as a tree without constituents. A gold sentence without a tree is not scored.
    """
    gold, found = _read(trees), _read(hypotheses, left_out=False)
    if not gold.trees:
        raise _no_tree(trees)
    numberings = ((wanted, given) for given in found.numberings() for wanted in gold.numberings())
    pairs = next((pair for pair in numberings if len(pair[0]) == len(pair[1])), None)
    if pairs is None and not found.entries:
        raise _no_tree(hypotheses)
    if pairs is None:
        raise DataError(
            f"{len(gold.sentences):,} gold trees but {len(found.sentences):,} on {found.num_lines:,} lines "
            f"of {hypotheses}; give one for each, or a line for each, empty where there is no tree"
        )
    sums = score_trees(*pairs)
    scored = [tree for wanted, tree in zip(*pairs, strict=True) if wanted]
    scores = sums.scores(tagged=any(tag != WORD for tree in scored if tree for tag in tree.tags))
    share_found = 100 * sum(tree is not None for tree in scored) / len(scored)
    return sums, [*scores, Score("well_formed", share_found, "trees:on-lines-that-are-not-empty")]


def print_scores(
    sums: BracketScores, scores: list[Score], *, labels: bool, lengths: bool, as_json: bool
) -> None:
    """Print scores as tables or JSON, optionally also by label and by sentence length."""
    if as_json:
        of_labels = {label: vars(brackets) for label, brackets in sums.by_label.items()}
        of_lengths = {
            words_of(tens): vars(brackets) | {"sentences": sums.num_by_length[tens]}
            for tens, brackets in sorted(sums.by_length.items())
        }
        tables = ({"labels": of_labels} if labels else {}) | ({"lengths": of_lengths} if lengths else {})
        print(json.dumps(scores_to_json(scores) | tables))
        return
    print(headline(scores[0]))
    texts = [format_scores(scores), sums.label_table() * labels, sums.length_table() * lengths]
    print("\n\n".join(filter(None, texts)))


def _trees_of(path: Path) -> list[Tree]:
    if trees := _read(path).trees:
        return trees
    raise _no_tree(path)


def _no_tree(path: Path) -> DataError:
    return DataError(f"{path}: holds no tree; give a file of trees in brackets")


@dataclass
class _TreeFile:
    """The trees of a file, cleaned; None for each that has no word."""

    entries: list[Tree | None] = field(default_factory=list)
    """All trees, also those that are no sentence: codes or traces alone."""
    sentences: list[Tree | None] = field(default_factory=list)
    """The trees of sentences; None if the parser failed."""
    starts: list[int] = field(default_factory=list)
    """Number of the line where each of `entries` begins."""
    num_lines: int = 0
    written: list[int] = field(default_factory=list)
    """Numbers of the lines that are not blank."""

    @property
    def trees(self) -> list[Tree]:
        """The trees that have words."""
        return [tree for tree in self.entries if tree]

    def numberings(self) -> Iterator[Sequence[Tree | None]]:
        """The trees by line, if each has its own; then as numbered in files that lack some of them."""
        if self.starts == self.written:
            tree_of_line = dict(zip(self.starts, self.entries, strict=True))
            yield [tree_of_line.get(number) for number in range(1, self.num_lines + 1)]
        yield from (self.entries, self.sentences, self.trees)


def _read(path: Path, *, left_out: bool = True) -> _TreeFile:
    """The trees of a file; notices tell what was removed.

    Args:
        path: The file.
        left_out: Whether sentences without a tree are left out, which is told.
    """
    notes, lines = Counter[str](), list(read_lines(path, allow_nul=False))
    written = [number for number, line in enumerate(lines, start=1) if not is_blank(line)]
    file = _TreeFile(num_lines=len(lines), written=written)
    for placed in trees_in(lines, str(path), notes):
        tree = next((cleaned for cleaned, _ in clean_trees([placed], notes)), None)
        file.entries.append(tree)
        file.starts.append(placed.line_number)
        file.sentences += [tree] if tree or not placed.tree.words else []
    for what, number in notes.items():
        if number and (left_out or what != UNPARSED):
            notice(f"{path}: {number:,} {what}")
    return file
