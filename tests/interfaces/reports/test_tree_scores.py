"""Scores of a file of trees: it is read once, and its empty lines are trees that are missing."""

import os
import threading
from pathlib import Path

import pytest

from allyouneed.errors import DataError
from allyouneed.interfaces.reports.tree_scores import score_tree_file

GOLD = ["(TOP (S (NP (DT the) (NN sun)) (VP (VBZ shines))))", "(TOP (NP (NN rain)))"]


def scores_of(folder: Path, hypotheses: str) -> dict[str, float]:
    (folder / "gold.mrg").write_bytes("".join(f"{tree}\n" for tree in GOLD).encode())
    (folder / "found.mrg").write_bytes(hypotheses.encode())
    _, scores = score_tree_file(folder / "found.mrg", folder / "gold.mrg")
    return {score.name: score.value for score in scores}


@pytest.mark.parametrize(
    ("hypotheses", "recall", "well_formed"),
    [
        ("\n".join([*GOLD, ""]), 100, 100),
        (f"{GOLD[0]}{GOLD[1]}\n\n", 100, 100),  # not one tree a line: an empty line says nothing
        (f"{GOLD[0]}\n\n", 75, 50),
        (f"\n{GOLD[1]}\n", 25, 50),
        ("\n\n", 0, 0),
    ],
)
def test_an_empty_line_is_a_tree_without_constituents(
    tmp_path: Path, hypotheses: str, recall: float, well_formed: float
) -> None:
    scores = scores_of(tmp_path, hypotheses)
    assert (scores["bracket_recall"], scores["well_formed"]) == (recall, well_formed)
    assert scores["exact_match"] == well_formed


@pytest.mark.parametrize(
    ("hypotheses", "fault"),
    [
        ("\n", "holds no tree; give a file of trees"),
        (f"{GOLD[0]}\n", "2 gold trees but 1"),
        (
            f"{GOLD[0]}\n\n\n",
            "2 gold trees but 1 on 3 lines of .*; give one for each, or a line for each, empty",
        ),
        (f"{GOLD[0]}{GOLD[0]}{GOLD[1]}\n\n", "2 gold trees but 3"),
    ],
)
def test_what_is_not_one_tree_for_each_is_refused(tmp_path: Path, hypotheses: str, fault: str) -> None:
    with pytest.raises(DataError, match=fault):
        scores_of(tmp_path, hypotheses)


def test_a_pipe_will_do(tmp_path: Path) -> None:
    expected = scores_of(tmp_path, f"{GOLD[0]}\n\n")
    os.mkfifo(tmp_path / "pipe")
    writer = threading.Thread(target=(tmp_path / "pipe").write_bytes, args=[f"{GOLD[0]}\n\n".encode()])
    writer.start()
    _, scores = score_tree_file(tmp_path / "pipe", tmp_path / "gold.mrg")
    writer.join()
    assert {score.name: score.value for score in scores} == expected
