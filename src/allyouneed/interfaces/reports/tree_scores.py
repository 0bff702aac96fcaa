"""Scores of trees, from a parser or a file, against gold trees."""

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Unpack

from allyouneed.data.lines import is_blank, read_lines
from allyouneed.errors import DataError
from allyouneed.evaluation import Score, format_scores, scores_to_json
from allyouneed.interfaces.console import notice
from allyouneed.interfaces.device import Device, torch_device
from allyouneed.tasks.parsing.bracket_f1 import BracketScores, score_trees, words_of
from allyouneed.tasks.parsing.linearisation import WORD
from allyouneed.tasks.parsing.tree_cleaning import clean_trees
from allyouneed.tasks.parsing.trees import PlacedTree, Tree, trees_in
from allyouneed.tasks.requests import Failure, results

if TYPE_CHECKING:
    from allyouneed.tasks.parsing.parser import ParseOptions


def score_parser(
    model: Path, trees: Path, device: Device, **options: "Unpack[ParseOptions]"
) -> tuple[BracketScores, list[Score]]:
    """Parse the words of the gold trees with a model, and score; `options` are those of `Parser.parse`."""
    from allyouneed.tasks.loading import load_parser
    from allyouneed.tasks.parsing.parser import NO_PARSE
    from allyouneed.tasks.parsing.scores import parse_words, score_parses

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

    `parse` leaves an empty line for a sentence that it cannot parse. In a file with one tree per line, such a
    line is scored as a tree without constituents.
    """
    gold = _trees_of(trees)
    lines = list(read_lines(hypotheses, allow_nul=False))
    placed = _cleaned(hypotheses, lines)
    tree_of_line = {line_number: tree for tree, line_number in placed}
    written = [number for number, line in enumerate(lines, start=1) if not is_blank(line)]
    found: Sequence[Tree | None] = [tree for tree, _ in placed]
    if len(lines) == len(gold) and written == [line_number for _, line_number in placed]:
        found = [tree_of_line.get(number) for number in range(1, len(lines) + 1)]
    elif not placed:
        raise _no_tree(hypotheses)
    elif len(placed) != len(gold):
        raise DataError(
            f"{len(gold):,} gold trees but {len(placed):,} on {len(lines):,} lines of {hypotheses}; "
            "give one for each, or a line for each, empty where there is no tree"
        )
    sums = score_trees(gold, found)
    scores = sums.scores(tagged=any(tag != WORD for tree, _ in placed for tag in tree.tags))
    share_found = 100 * len(placed) / len(gold)
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
    texts = [format_scores(scores), sums.label_table() * labels, sums.length_table() * lengths]
    print("\n\n".join(filter(None, texts)))


def _trees_of(path: Path) -> list[Tree]:
    if trees := _cleaned(path, read_lines(path, allow_nul=False)):
        return [tree for tree, _ in trees]
    raise _no_tree(path)


def _no_tree(path: Path) -> DataError:
    return DataError(f"{path}: holds no tree; give a file of trees in brackets")


def _cleaned(path: Path, lines: Iterable[str]) -> list[PlacedTree]:
    """The cleaned trees in the lines of a file; a notice tells what was removed."""
    notes = Counter[str]()
    trees = list(clean_trees(trees_in(lines, str(path), notes), notes))
    for what, number in notes.items():
        if number:
            notice(f"{path}: {number:,} {what}")
    return trees
