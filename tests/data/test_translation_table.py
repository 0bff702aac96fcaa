"""The table equals IBM model 1 as it is written in textbooks: a loop over sentences, and exact by hand."""

from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.stores import write_store

from allyouneed.data.store import PairStore
from allyouneed.data.translation_table import TranslationTable, _linked, learn_translation_table
from allyouneed.symbols import PADDING

VOCAB_SIZE = 12
DAS, HAUS, BUCH, EIN = 5, 6, 7, 8
THE, HOUSE, BOOK, A = 8, 9, 10, 11
PAIRS = [([DAS, HAUS], [THE, HOUSE]), ([DAS, BUCH], [THE, BOOK]), ([EIN, BUCH], [A, BOOK])]
Pairs = list[tuple[list[int], list[int]]]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("stores")


def store_of(folder: Path, pairs: Pairs) -> PairStore:
    directory = folder / str(len(list(folder.iterdir())))
    write_store(directory, [(*pair, 1) for pair in pairs], vocabulary_size=VOCAB_SIZE)
    return PairStore(directory)


def as_dictionary(table: TranslationTable) -> dict[tuple[int, int], float]:
    keys = zip(table.sources.tolist(), table.targets.tolist(), strict=True)
    return dict(zip(keys, table.probabilities.tolist(), strict=True))


def textbook(pairs: Pairs, iterations: int) -> dict[tuple[int, int], float]:
    """Model 1 with the empty word, as in Koehn 2010, figure 4.3."""
    t: dict[tuple[int, int], float] = defaultdict(lambda: 1.0)
    for _ in range(iterations):
        counts: dict[tuple[int, int], float] = defaultdict(float)
        totals: dict[int, float] = defaultdict(float)
        for source, target in pairs:
            for word in target:
                normaliser = sum(t[writer, word] for writer in [PADDING, *source])
                for writer in [PADDING, *source]:
                    counts[writer, word] += t[writer, word] / normaliser
                    totals[writer] += t[writer, word] / normaliser
        t = defaultdict(float, {(s, w): count / totals[s] for (s, w), count in counts.items()})
    return dict(t)


def test_the_first_iteration_by_hand(folder: Path) -> None:
    found = as_dictionary(learn_translation_table(store_of(folder, PAIRS), VOCAB_SIZE, iterations=1))
    # Each target token gives a third to each source token of its pair and to the empty word.
    assert found[DAS, THE] == pytest.approx(2 / 4)
    assert found[DAS, HOUSE] == found[DAS, BOOK] == pytest.approx(1 / 4)
    assert found[HAUS, HOUSE] == pytest.approx(1 / 2)
    assert found[PADDING, BOOK] == pytest.approx(2 / 6)
    assert (DAS, A) not in found


def test_ambiguity_is_resolved_by_other_sentences(folder: Path) -> None:
    table = learn_translation_table(store_of(folder, PAIRS), VOCAB_SIZE, iterations=30)
    assert table.best(1, VOCAB_SIZE)[[DAS, BUCH, EIN], 0].tolist() == [THE, BOOK, A]


sentence = st.lists(st.integers(3, VOCAB_SIZE - 1), max_size=6)


@given(pairs=st.lists(st.tuples(sentence, sentence), max_size=8))
def test_it_equals_the_textbook_loop_and_sums_to_one(folder: Path, pairs: Pairs) -> None:
    table = learn_translation_table(store_of(folder, pairs), VOCAB_SIZE, iterations=3)
    assert as_dictionary(table) == pytest.approx(textbook(pairs, 3))
    totals = np.bincount(table.sources, table.probabilities)
    assert totals[totals > 0] == pytest.approx(1)


def test_chunks_change_nothing_and_of_too_many_links_every_nth_pair_is_read(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pairs = PAIRS * 3
    whole = as_dictionary(learn_translation_table(store_of(folder, pairs), VOCAB_SIZE))
    monkeypatch.setattr("allyouneed.data.translation_table._LINKS_AT_ONCE", 7)
    assert as_dictionary(learn_translation_table(store_of(folder, pairs), VOCAB_SIZE)) == pytest.approx(whole)
    halved = learn_translation_table(store_of(folder, pairs), VOCAB_SIZE, max_links=3 * 2 * len(pairs) // 2)
    assert as_dictionary(halved) == pytest.approx(textbook(pairs[::2], 5))


def test_chunks_are_bounded_with_their_padding(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("allyouneed.data.translation_table._LINKS_AT_ONCE", 100)
    pairs = [([5] * 9, [6] * 3)] + [([5, 6], [6] * 3)] * 30
    chunks = list(_linked(store_of(folder, pairs), VOCAB_SIZE, 10_000))
    assert sum(len(chunk) for chunk in chunks) == 31
    assert max(chunk.size for chunk in chunks) <= 100


def test_the_best_are_in_order_of_probability_then_of_id() -> None:
    table = TranslationTable(
        np.array([0, 2, 2, 2, 3]), np.array([7, 5, 6, 9, 4]), np.array([1.0, 0.25, 0.5, 0.25, 1.0])
    )
    assert table.best(2, 5).tolist() == [[7, 0], [0, 0], [6, 5], [4, 0], [0, 0]]
