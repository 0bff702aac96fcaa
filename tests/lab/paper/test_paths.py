"""Tasks have the answers that they ask for, and networks see as far back as the paper's Table 1 says."""

from pathlib import Path

import pytest
import torch

from allyouneed.lab.paper.experiment import Results
from allyouneed.lab.paper.pages.results_page import write_report
from allyouneed.lab.paper.pages.results_table import results_table
from allyouneed.lab.paper.paths import (
    KINDS,
    NOT_ASKED,
    NUM_ANSWERS,
    PATHS,
    TASKS,
    Labeller,
    Sequences,
    accuracy_after_training,
    accuracy_of,
    longest,
)

CPU = torch.device("cpu")


def draw(task: str, n: int, batch: int = 64) -> Sequences:
    return TASKS[task].draw(n, batch, torch.Generator().manual_seed(n))


@pytest.mark.parametrize("n", [4, 9, 70])
def test_what_was_n_positions_back_is_asked(n: int) -> None:
    symbols, answers = draw("back", n)
    assert symbols.shape == (64, 2 * n, 1)
    for sequence, asked in zip(symbols[..., 0].tolist(), answers.tolist(), strict=True):
        assert asked == [NOT_ASKED] * n + sequence[:n]


@pytest.mark.parametrize("n", [4, 9, 70])
def test_each_key_is_asked_once_for_its_value(n: int) -> None:
    symbols, answers = draw("recall", n)
    for sequence, asked in zip(symbols.tolist(), answers.tolist(), strict=True):
        values = dict(sequence[:n])
        assert len(values) == n, "keys are different"
        assert sorted(key for key, _ in sequence[n:]) == sorted(values)
        assert {value for _, value in sequence[n:]} == {NUM_ANSWERS}, "a query has no value"
        assert asked == [NOT_ASKED] * n + [values[key] for key, _ in sequence[n:]]


@pytest.mark.parametrize("n", [4, 9, 70])
def test_four_different_keys_are_asked_at_once_in_their_order(n: int) -> None:
    symbols, answers = draw("joint", n)
    for sequence, asked in zip(symbols.tolist(), answers.tolist(), strict=True):
        values = {pair[0]: pair[-1] for pair in sequence[:n]}
        for query, answer in zip(sequence[n:], asked[n:], strict=True):
            assert len(set(query[:4])) == 4
            assert answer == sum(values[key] << place for place, key in enumerate(query[:4]))
        assert asked[:n] == [NOT_ASKED] * n


@pytest.mark.parametrize("task", TASKS)
def test_all_answers_are_equally_probable(task: str) -> None:
    answers = draw(task, 8, 4_000).answers
    shares = torch.bincount(answers[answers >= 0], minlength=NUM_ANSWERS) / (answers >= 0).sum()
    assert len(shares) == NUM_ANSWERS
    assert shares.tolist() == pytest.approx([1 / NUM_ANSWERS] * NUM_ANSWERS, abs=0.005)
    for size, column in zip(TASKS[task].vocabularies(8), draw(task, 8).symbols.unbind(-1), strict=True):
        assert 0 <= int(column.min()) <= int(column.max()) < size


@pytest.mark.parametrize("kind", KINDS)
def test_two_blocks_reach_as_far_back_as_the_page_says(kind: str) -> None:
    length = 40
    torch.manual_seed(1)
    network = Labeller(KINDS[kind], 2, [NUM_ANSWERS]).double()
    embedded = torch.randn(1, length, 64, dtype=torch.float64, requires_grad=True)
    (network.layers(embedded)[0, -1] @ torch.randn(64, dtype=torch.float64)).backward()
    assert embedded.grad is not None
    reached = embedded.grad[0].abs().sum(-1) > 0
    back = length - 1 - int(reached.nonzero()[0])
    reach = KINDS[kind].reach
    assert back == (length - 1 if reach is None else min(reach, length - 1))


def test_a_network_learns_what_is_in_reach_and_guesses_what_is_not() -> None:
    within = accuracy_after_training(KINDS["convolutional"], TASKS["back"], 4, 1, CPU)
    beyond = accuracy_after_training(KINDS["convolutional"], TASKS["back"], 5, 1, CPU)
    assert within > 99
    assert beyond == pytest.approx(100 / NUM_ANSWERS, abs=2)


def test_the_longest_is_the_one_before_the_first_that_is_not_learned() -> None:
    assert longest({4: 100.0, 8: 95.0, 16: 89.9, 32: 99.0}) == 8
    assert longest({4: 50.0, 8: 99.0}) == 0


def test_the_verdict_is_how_far_the_worst_seed_gets(tmp_path: Path) -> None:
    scale = PATHS.scale("quick")
    outcomes = {
        "self_attention": {1: {"longest_back": 64, "longest_joint": 8}, 2: {"longest_back": 32}},
        "recurrent": {1: {"longest_back": 8}},
        "dilated": {1: {"longest_back": 8}},
    }
    results = Results(PATHS, scale, PATHS.rows(scale), outcomes, tmp_path)
    assert results_table(results).verdict == (
        "Solved by every seed: back up to n = 32 (self_attention), 8 (recurrent, dilated); "
        "joint up to n = 8 (self_attention)."
    )


def test_the_page_draws_every_task(tmp_path: Path) -> None:
    scale = PATHS.scale("quick")
    figures = {accuracy_of(task, n): 50.0 for task in TASKS for n in (4, 16)}
    results = Results(PATHS, scale, PATHS.rows(scale), {"self_attention": {1: figures}}, tmp_path)
    page = next(file for file in write_report(results) if file.suffix == ".html").read_bytes().decode()
    assert "accuracy of each kind of network against the size of three tasks" in page
    assert {row.name: row.paper for row in PATHS.rows(scale)}["convolutional"] == {"longest_back": 4}
