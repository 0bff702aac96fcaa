"""Typographic text is split as the Treebank has it."""

import pytest
from tests.packages import require_packages

from allyouneed.tasks.parsing.penn_words import penn_words

require_packages("nltk")


@pytest.mark.parametrize(
    ("sentence", "words"),
    [
        ("“Oh,” he said.", "`` Oh , '' he said ."),
        ("He said “no.”", "He said `` no . ''"),
        ("(“Well…”)", "( `` Well ... '' )"),
        ("‘Oh,’ he said.", "` Oh , ' he said ."),
        ("She can’t – it’s Bob’s.", "She ca n't -- it 's Bob 's ."),
        ("The dogs’ owner—you know—left.", "The dogs ' owner -- you know -- left ."),
        ('"Oh," he said.', "`` Oh , '' he said ."),
    ],
)
def test_quotes_dashes_and_dots_are_those_of_the_treebank(sentence: str, words: str) -> None:
    assert penn_words(sentence) == words.split(" ")
