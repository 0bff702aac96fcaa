"""Translations of sentences are joined as the target language joins sentences."""

import pytest

from allyouneed.tasks.translation.outputs import space_between_sentences


@pytest.mark.parametrize(
    "code",
    ["zh", "zh-Hans", "zh_CN", "ZH", "zho", "chi", "cmn_Hans", "zt", "ja", "jpn", "ja-JP", "yue", "wuu"],
)
def test_nothing_is_between_sentences_that_end_in_wide_marks(code: str) -> None:
    assert space_between_sentences(code) == ""


@pytest.mark.parametrize("code", ["", "de", "ko", "th", "lo", "km", "my", "bo", "th-TH", "vi", "hi"])
def test_a_space_is_between_sentences_also_of_languages_without_spaces_between_words(code: str) -> None:
    assert space_between_sentences(code) == " "
