"""Every pair that has come before is found, and memory is bounded."""

import random

import pytest

from allyouneed.preparation.part_writer import SeenPairs


def test_repeats_are_found_within_a_call_and_between_calls_whatever_the_size() -> None:
    draw, seen, known = random.Random(1), SeenPairs(), set[tuple[str, str]]()
    for size in (0, 1, 3_000, 100_000, 50, 60_000):  # which makes room more than once
        pairs = [(str(draw.randrange(60_000)), str(draw.randrange(2))) for _ in range(size)]
        expected = []
        for pair in pairs:
            expected.append(pair not in known)
            known.add(pair)
        assert seen.add(pairs).tolist() == expected


def test_both_sides_must_be_the_same() -> None:
    seen = SeenPairs()
    assert seen.add([("a", "b"), ("b", "a"), ("ab", ""), ("", "ab"), ("a ", "b"), ("a", "b")]).tolist() == [
        *(True, True, True, True, True),
        False,
    ]


@pytest.mark.parametrize("at_once", [1, 7, 40])
def test_a_corpus_with_more_pairs_than_there_is_room_for_is_forgotten_in_time(at_once: int) -> None:
    seen = SeenPairs(most_slots=64)
    first = [(str(number), "") for number in range(20)]
    assert seen.add(first).all()
    assert not seen.add(first).any()
    others = [(str(number), "") for number in range(1_000, 1_200)]
    for start in range(0, len(others), at_once):
        assert seen.add(others[start : start + at_once]).all()
    assert seen.add(first).any()
