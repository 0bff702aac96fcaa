import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from allyouneed.inference.attention_measures import agreement, measure, merge_pieces, strongest_links

SELF, PREVIOUS, NEXT, FIRST = (
    torch.eye(4),
    torch.eye(4).roll(-1, 1),
    torch.eye(4).roll(1, 1),
    torch.tensor([[1.0, 0, 0, 0]] * 4),
)
PREVIOUS[0] = torch.tensor([1.0, 0, 0, 0])
NEXT[3] = torch.tensor([0, 0, 0, 1.0])


def measured(weights: torch.Tensor, control: int = -1) -> dict[str, float]:
    return {name: float(value) for name, value in measure(weights, control).items()}


def test_a_head_that_looks_at_the_word_itself() -> None:
    found = measured(SELF)
    assert found == {"entropy": 0, "distance": 0, "diagonal": 1, "previous": 0, "next": 0, "control": 0.25}


def test_heads_that_look_at_neighbours() -> None:
    before, behind = measured(PREVIOUS), measured(NEXT)
    assert (before["previous"], before["next"], before["diagonal"]) == (1, 0, 0.25)
    assert (behind["previous"], behind["next"], behind["diagonal"]) == (0, 1, 0.25)
    assert before["distance"] == behind["distance"] == 0.75  # 0 + 1 + 1 + 1 by 4


def test_a_head_that_looks_at_a_control_symbol() -> None:
    assert measured(FIRST, control=0)["control"] == 1
    assert measured(FIRST)["control"] == 0
    assert measured(FIRST)["distance"] == 1.5  # 0 + 1 + 2 + 3 by 4
    assert measure(FIRST, None).keys() == measured(FIRST).keys() - {"control"}


def test_entropy_is_in_bits() -> None:
    assert measured(torch.full((2, 8), 1 / 8))["entropy"] == pytest.approx(3)
    assert measured(torch.tensor([[0.5, 0.25, 0.25], [1, 0, 0]]))["entropy"] == pytest.approx(0.75)


def test_across_sequences_the_diagonal_runs_from_first_to_last() -> None:
    weights = torch.zeros(3, 7)
    weights[[0, 1, 2], [0, 3, 6]] = 1
    assert measured(weights)["diagonal"] == 1
    assert measured(weights)["distance"] == 0
    assert measured(torch.eye(3)[[0, 0, 1, 1, 1, 2, 2]])["diagonal"] == 1  # a half is rounded up


def test_one_word_has_no_neighbours() -> None:
    found = measured(torch.ones(1, 1))
    assert found == {"entropy": 0, "distance": 0, "diagonal": 1, "previous": 0, "next": 0, "control": 1}


def test_each_head_is_measured_by_itself() -> None:
    together = measure(torch.stack([torch.stack([SELF, NEXT]), torch.stack([FIRST, PREVIOUS])]), -1)
    for place, weights in enumerate((SELF, NEXT, FIRST, PREVIOUS)):
        for name, value in measured(weights).items():
            assert float(together[name][place // 2, place % 2]) == value


@given(st.data())
def test_words_add_up_what_their_pieces_get_and_average_what_they_give(data: st.DataObject) -> None:
    sizes = st.lists(st.integers(1, 3), min_size=1, max_size=4)
    queries, keys = (groups(data.draw(sizes)) for _ in range(2))
    weights = torch.rand(2, 3, queries[-1][1], keys[-1][1]).double().softmax(-1)
    merged = merge_pieces(weights, queries, keys)
    for i, query in enumerate(queries):
        for j, key in enumerate(keys):
            block = weights[1, 2, slice(*query), slice(*key)]
            assert float(merged[1, 2, i, j]) == pytest.approx(float(block.sum()) / len(block))
    torch.testing.assert_close(merged.sum(-1), torch.ones_like(merged.sum(-1)))


def groups(sizes: list[int]) -> list[tuple[int, int]]:
    ends = [sum(sizes[: number + 1]) for number in range(len(sizes))]
    return [(end - size, end) for end, size in zip(ends, sizes, strict=True)]


def test_links_go_from_the_source_word_of_which_a_word_takes_most() -> None:
    weights = torch.tensor([[0.1, 0.7, 0.2], [0.8, 0.1, 0.1]])
    assert strongest_links(weights) == [(0, 1), (1, 0)]
    assert strongest_links(torch.zeros(0, 3)) == []
    assert strongest_links(torch.zeros(3, 0)) == []


def test_agreement_is_one_less_the_alignment_error_rate() -> None:
    gold, found = [(0, 0), (1, 2), (2, 1)], [(0, 0), (1, 1)]
    precision, recall = 1 / 2, 1 / 3
    assert math.isclose(agreement(found, gold), 2 * precision * recall / (precision + recall))
    assert agreement(gold, gold) == 1
    assert agreement([], []) == 0
