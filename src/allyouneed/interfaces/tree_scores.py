"""Scores of trees, of a parser or from a file, beside the right trees."""

import json
from pathlib import Path
from typing import Any

from allyouneed.data.linearisation import WORD
from allyouneed.data.lines import read_lines
from allyouneed.data.trees import Tree, clean_trees, read_trees
from allyouneed.errors import DataError
from allyouneed.evaluation import BracketScores, Score, format_scores, score_trees, scores_to_json
from allyouneed.evaluation.bracket_f1 import words_of
from allyouneed.interfaces.device import Device, torch_device


def score_parser(
    model: Path, trees: Path, device: Device, **options: Any
) -> tuple[BracketScores, list[Score]]:
    """Let a model parse the words of the right trees; `options` as of `Parser.stream`."""
    from allyouneed.assessment import evaluate_parser
    from allyouneed.loading import load_parser

    gold = _read(trees)
    return evaluate_parser(load_parser(model, device=torch_device(device)), gold, **options)


def score_tree_file(hypotheses: Path, trees: Path) -> tuple[BracketScores, list[Score]]:
    """Compare a file of trees with the right ones; their tags too, if they have any.

    An empty line of a file with one tree a line, as `parse` leaves for what it cannot parse, is scored as a
    tree without constituents.
    """
    gold = _read(trees)
    placed = list(clean_trees(read_trees(hypotheses)))
    found = [tree for tree, _ in placed]
    share_found = len(found) / len(gold)
    tree_of_line = {line_number: tree for tree, line_number in placed}
    if len(found) < len(gold) == sum(1 for _ in read_lines(hypotheses)) and len(tree_of_line) == len(found):
        found = [tree_of_line.get(number) or _flat(tree) for number, tree in enumerate(gold, start=1)]
    sums = score_trees(gold, _some(hypotheses, found))
    scores = sums.scores(tagged=any(tag != WORD for tree in found for tag in tree.tags))
    if share_found < 1:
        scores.append(Score("well_formed", 100 * share_found, "trees:on-lines-that-are-not-empty"))
    return sums, scores


def _flat(tree: Tree) -> Tree:
    return Tree(tree.words, (WORD,) * len(tree.words), tree.constituents[:1])


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


def _read(path: Path) -> list[Tree]:
    return _some(path, [tree for tree, _ in clean_trees(read_trees(path))])


def _some(path: Path, trees: list[Tree]) -> list[Tree]:
    if not trees:
        raise DataError(f"{path}: holds no tree; give a file of trees in brackets")
    return trees
