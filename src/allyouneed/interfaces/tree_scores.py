"""Scores of trees, of a parser or from a file, beside the gold trees."""

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from allyouneed.data.linearisation import WORD
from allyouneed.data.lines import is_blank, read_lines
from allyouneed.data.trees import PlacedTree, Tree, clean_trees, read_trees
from allyouneed.errors import DataError
from allyouneed.evaluation import BracketScores, Score, format_scores, score_trees, scores_to_json
from allyouneed.evaluation.bracket_f1 import words_of
from allyouneed.interfaces.console import notice
from allyouneed.interfaces.device import Device, torch_device


def score_parser(
    model: Path, trees: Path, device: Device, **options: Any
) -> tuple[BracketScores, list[Score]]:
    """Let a model parse the words of the gold trees; `options` as of `Parser.stream`."""
    from allyouneed.assessment import evaluate_parser
    from allyouneed.loading import load_parser

    gold = _trees_of(trees)
    return evaluate_parser(load_parser(model, device=torch_device(device)), gold, **options)


def score_tree_file(hypotheses: Path, trees: Path) -> tuple[BracketScores, list[Score]]:
    """Compare a file of trees with the gold ones; their tags too, if they have any.

    An empty line of a file with one tree a line, as `parse` leaves for what it cannot parse, is scored as a
    tree without constituents.
    """
    gold, placed = _trees_of(trees), _read(hypotheses)
    found: Sequence[Tree | None] = [tree for tree, _ in placed]
    tree_of_line = {line_number: tree for tree, line_number in placed}
    lines = {number: is_blank(line) for number, line in enumerate(read_lines(hypotheses), start=1)}
    if len(found) < len(gold) == len(lines) and {n for n in lines if not lines[n]} == set(tree_of_line):
        found = [tree_of_line.get(number) for number in lines]
    sums = score_trees(gold, found)
    scores = sums.scores(tagged=any(tag != WORD for tree, _ in placed for tag in tree.tags))
    if len(placed) < len(gold):
        share_found = len(placed) / len(gold)
        scores.append(Score("well_formed", 100 * share_found, "trees:on-lines-that-are-not-empty"))
    return sums, scores


def print_scores(
    sums: BracketScores, scores: list[Score], *, labels: bool, lengths: bool, as_json: bool
) -> None:
    """Print scores as tables or as JSON; if wanted also of each label, and by the length of sentences."""
    if as_json:
        of_labels = {label: vars(brackets) for label, brackets in sums.by_label.items()}
        of_lengths = {
            words_of(tens): vars(brackets) | {"sentences": sums.num_by_length[tens]}
            for tens, brackets in sorted(sums.by_length.items())
        }
        tables = ({"labels": of_labels} if labels else {}) | ({"lengths": of_lengths} if lengths else {})
        print(json.dumps(scores_to_json(scores) | tables))
        return
    texts = [format_scores(scores), sums.label_table() * labels, sums.length_table() * lengths]
    print("\n\n".join(filter(None, texts)))


def _trees_of(path: Path) -> list[Tree]:
    return [tree for tree, _ in _read(path)]


def _read(path: Path) -> list[PlacedTree]:
    """The trees of a file, cleaned; what was taken away is told."""
    notes = Counter[str]()
    trees = list(clean_trees(read_trees(path, notes=notes), notes))
    for what, number in notes.items():
        if number:
            notice(f"{path}: {number:,} {what}")
    if not trees:
        raise DataError(f"{path}: holds no tree; give a file of trees in brackets")
    return trees
