"""Detecting the language of a text."""

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from allyouneed.data.languages import Detector

SENTENCES = {
    "en": "Two dogs are running on the beach with a ball.",
    "de": "Zwei Hunde rennen mit einem Ball über den Strand.",
    "fr": "Deux chiens courent sur la plage avec un ballon.",
    "ru": "Две собаки бегут по пляжу с мячом.",
}


@pytest.mark.parametrize(("code", "text"), SENTENCES.items())
def test_a_sentence_of_each_language_is_recognised_with_certainty(code: str, text: str) -> None:
    (found, probability), *others = Detector(SENTENCES).detect(text)
    assert found == code
    assert probability > 0.95
    assert {code, *(other for other, _ in others)} == set(SENTENCES)
    assert 0.99 < probability + sum(p for _, p in others) <= 1 + 1e-6


def test_a_short_text_is_less_certain_than_a_long_one() -> None:
    detector = Detector(["de", "en"])
    assert detector.detect("Hund")[0][1] < detector.detect(SENTENCES["de"])[0][1]


def test_a_text_without_letters_says_nothing_about_its_language() -> None:
    for text in ("", "123", "😀"):
        (first, certain), (second, likewise) = Detector(["en", "de"]).detect(text)
        assert (first, second) == ("en", "de")  # the order given
        assert certain == likewise < 0.5


def test_a_language_that_is_not_served_is_taken_for_none_that_is() -> None:
    assert Detector(["en"]).detect(SENTENCES["de"])[0][1] < 0.05
    assert Detector(["en", "fr"]).detect(SENTENCES["ru"])[0][1] < 0.05


def test_variants_share_the_probability_of_their_language() -> None:
    text = "Dois cachorros correm na praia com uma bola."
    alone = dict(Detector(["pt"]).detect(text))["pt"]
    found = dict(Detector(["pt-BR", "pt_PT"]).detect(text))
    assert found["pt-BR"] == found["pt_PT"] == pytest.approx(alone / 2)


def test_an_unknown_language_has_no_probability() -> None:
    assert Detector(["toy"]).detect("sun moon") == [("toy", 0.0)]
    assert Detector(["toy", "en"]).detect(SENTENCES["en"])[0][0] == "en"
    assert Detector([]).detect("sun") == []


def test_threads_that_share_a_detector_get_the_answers_of_one() -> None:
    detector = Detector(SENTENCES)
    texts = list(SENTENCES.values()) * 50
    with ThreadPoolExecutor(8) as threads:
        assert list(threads.map(detector.detect, texts)) == [detector.detect(text) for text in texts]


def test_the_model_is_loaded_at_the_first_detection_and_not_before() -> None:
    program = (
        "import sys; from allyouneed.data.languages import Detector; d = Detector(['en', 'de']);"
        "assert 'py3langid' not in sys.modules; d.load(); assert 'py3langid' in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
