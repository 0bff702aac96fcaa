"""Scores of a file of trees: it is read once, and its empty lines are trees that are missing."""

import os
import threading
from pathlib import Path

import pytest

from allyouneed.cli.commands.evaluate import score_tree_file
from allyouneed.errors import DataError

GOLD = ["(TOP (S (NP (DT the) (NN sun)) (VP (VBZ shines))))", "(TOP (NP (NN rain)))"]


def scores_of(folder: Path, hypotheses: str, gold: str = "\n".join([*GOLD, ""])) -> dict[str, float]:
    (folder / "gold.mrg").write_bytes(gold.encode())
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
        (f"{GOLD[0]}\n(())\n", 75, 50),
        (f"{GOLD[0]}(TOP (S))", 75, 50),
        ("(ROOT\n)\n\n(ROOT\n  (NP (NN rain)))\n", 25, 50),
        (f"( (CODE <P_1>))\n{GOLD[0]}\n\n(ROOT )\n", 75, 50),  # nothing but codes is no sentence
        ("()\n(TOP)\n", 0, 0),
    ],
)
def test_an_empty_line_is_a_tree_without_constituents(
    tmp_path: Path, hypotheses: str, recall: float, well_formed: float
) -> None:
    scores = scores_of(tmp_path, hypotheses)
    assert (scores["bracket_recall"], scores["well_formed"]) == (recall, well_formed)
    assert scores["exact_match"] == well_formed


FOUR = f"{GOLD[0]}\n(())\n( (CODE <P_1>))\n{GOLD[1]}\n"  # three sentences, two of which have trees


@pytest.mark.parametrize(
    ("gold", "hypotheses"),
    [
        (FOUR, f"{GOLD[0]}\n{GOLD[0]}\n\n{GOLD[1]}\n"),  # a line for each line
        (FOUR, f"{GOLD[0]}\n{GOLD[0]}\n{GOLD[1]}\n"),  # one for each sentence
        (FOUR, f"{GOLD[0]}\n\n{GOLD[1]}\n"),
        (FOUR, f"{GOLD[0]}(){GOLD[1]}"),
        (FOUR, "\n".join(GOLD)),  # only for those with a gold tree
        (FOUR, FOUR),
        (f"{GOLD[0]}\n\n{GOLD[1]}(TOP)", f"{GOLD[0]}{GOLD[1]}()"),
        (f"{GOLD[0]}\n\n{GOLD[1]}\n(TOP)", f"{GOLD[0]}\n{GOLD[0]}\n{GOLD[1]}\n{GOLD[0]}"),  # as empty lines
    ],
)
def test_a_gold_sentence_without_a_tree_is_left_out_with_its_hypothesis_and_counted(
    tmp_path: Path, gold: str, hypotheses: str, capsys: pytest.CaptureFixture[str]
) -> None:
    scores = scores_of(tmp_path, hypotheses, gold)
    assert (scores["bracket_f1"], scores["exact_match"], scores["well_formed"]) == (100, 100, 100)
    notices = [line for line in capsys.readouterr().err.split("\n") if "without a tree" in line]
    assert notices == [f"allyouneed: {tmp_path}/gold.mrg: 1 sentences without a tree, left out"]


def test_a_fault_names_the_number_of_a_sentence_among_all(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="sentence 3: word 1 is 'rain'"):
        scores_of(tmp_path, f"{GOLD[0]}\n()\n{GOLD[0]}\n", FOUR)
    with pytest.raises(DataError, match=r"gold\.mrg: holds no tree; give a file"):
        scores_of(tmp_path, "()\n", "()\n")


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
