"""Words that translate each other are found in sentence pairs, and where they stand in both."""

import random

from allyouneed.data.corpus import Pair
from allyouneed.data.word_translations import WordTranslations

LEXICON = {f"word{letter}": f"Wort{letter.upper()}" for letter in "abcdefghijklmnop"}


def pairs(number: int = 300) -> list[Pair]:
    """Sentences whose translation has the translations of their words, in another order."""
    draw, found = random.Random(1), list[Pair]()
    for line in range(number):
        words = draw.sample([*LEXICON], 5)
        target = [LEXICON[word] for word in words]
        draw.shuffle(target)
        found.append(Pair(" ".join(words).capitalize() + ".", " ".join(target) + ".", line, "text"))
    return found


def test_the_words_that_translate_each_other_are_found() -> None:
    learned = WordTranslations.learn(pairs())
    assert len(learned) == len(LEXICON)
    assert learned.aligned("A wordc, wordd!", "Ein WortD, WortC!") == [((2, 7), (11, 16)), ((9, 14), (4, 9))]


def test_words_count_in_any_case_of_the_source_and_only_as_written_in_the_target() -> None:
    learned = WordTranslations.learn(pairs())
    assert learned.aligned("WORDA", "WortA") == [((0, 5), (0, 5))]
    assert learned.aligned("worda", "worta") == []


def test_words_that_a_text_has_twice_are_left_out() -> None:
    learned = WordTranslations.learn(pairs())
    assert learned.aligned("worda worda wordb", "WortA WortB") == [((12, 17), (6, 11))]
    assert learned.aligned("worda wordb", "WortA WortB WortB") == [((0, 5), (0, 5))]


def test_the_same_pairs_teach_the_same_and_too_few_nothing() -> None:
    first, second = (WordTranslations.learn(pairs()) for _ in range(2))
    assert first.translations == second.translations
    assert len(WordTranslations.learn(pairs(1))) == 0
    assert len(WordTranslations.learn([])) == 0
