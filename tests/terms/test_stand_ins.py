"""Whatever a model writes, each span is in the translation exactly once, as it was."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.terms.ui_strings import ui_strings

from allyouneed.data.spans import Spans
from allyouneed.terms.stand_ins import POOLS, Masked, word_pairs

UI_STRINGS = ui_strings()


def masked(text: str, pool: int = 0) -> Masked:
    return Masked.of(text, Spans().find(text), POOLS[pool])


def test_a_translation_with_all_stand_ins_gets_its_spans_back() -> None:
    for text, _ in UI_STRINGS:
        for pool in range(len(POOLS)):
            each = masked(text, pool)
            assert Spans().find(each.text) == []
            assert each.is_whole(each.text)
            assert each.restored(each.text).replace(" ", "") == text.replace(" ", "")


@given(st.integers(0, len(UI_STRINGS) - 1), st.randoms(use_true_random=False))
def test_spans_that_are_lost_or_doubled_are_there_once(number: int, draw: object) -> None:
    text, spans = UI_STRINGS[number]
    each = masked(text)
    words = [word for word in each.text.split() if draw.random() < 0.7]  # type: ignore[attr-defined]
    words += [word for word in each.text.split() if draw.random() < 0.3]  # type: ignore[attr-defined]
    restored = each.restored(" ".join(words))
    for span in each.spans.values():
        assert restored.count(span) >= [*each.spans.values()].count(span)
    assert sum(map(len, each.spans.values())) <= sum(map(len, spans))
    again = Spans().find(restored)
    assert sum(span.end - span.begin for span in again) >= sum(map(len, spans))


@pytest.mark.parametrize(
    ("translation", "restored"),
    [
        ("Hallo Boston, ein Mann", "Hallo {x}, ein Mann"),
        ("Hallo, ein Mann", "Hallo, {x} ein Mann"),
        ("Boston, Boston ein Mann Boston", "{x}, ein Mann"),
        ("Bostons Mann wartet", "Bostons {x} Mann wartet"),
        ("", "{x}"),
    ],
)
def test_a_missing_span_comes_in_where_the_text_has_it(translation: str, restored: str) -> None:
    assert masked("Hello {x}, a man").restored(translation) == restored


def test_words_of_the_text_do_not_stand_in() -> None:
    each = masked("Anna flew from Boston with {x} and {y}")
    assert not {"Anna", "Boston"} & each.spans.keys()
    assert [*each.spans.values()] == ["{x}", "{y}"]


def test_links_are_moved_to_the_text_with_spans() -> None:
    text = "{user}: Press {key} to see 5 GB"
    each = masked(text)
    words = [*each.spans]
    assert each.text == f"Press {words[0]} to see {words[1]}"
    translation = f"Mit {words[1]} {words[0]}"
    places = {word: (each.text.index(word), translation.index(word)) for word in words}
    links = [(a, a + len(word), c, c + len(word)) for word, (a, c) in places.items()]
    restored = each.restored(translation)
    assert restored == "{user}: Mit 5 GB {key}"
    moved = each.links(links, translation)
    assert moved is not None
    assert [(text[a:b], restored[c:d]) for a, b, c, d in moved] == [("{key}", "{key}"), ("5 GB", "5 GB")]
    assert each.links(links, "Mit") is None
    assert word_pairs(moved, text, restored) == [(2, 4), (5, 2)]
