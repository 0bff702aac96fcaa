"""The language of a text, among those that are served, by the counts of its byte sequences (py3langid)."""

from collections import Counter
from collections.abc import Iterable
from threading import Lock
from typing import Any, Final

_MOST_CHARACTERS: Final = 2_000
"""Number of characters that are looked at; more would not change the answer."""
_PRIOR_OF_SERVED: Final = 0.9
"""Probability, before a text is read, that its language is a served one."""
_NAMED_OTHERWISE: Final = {
    **{"nb": "no", "iw": "he", "in": "id", "fil": "tl", "sh": "sr", "cmn": "zh", "pb": "pt", "zt": "zh"},
    **{
        "deu": "de",
        "ger": "de",
        "eng": "en",
        "fra": "fr",
        "fre": "fr",
        "spa": "es",
        "ces": "cs",
        "cze": "cs",
    },
    **{
        "ita": "it",
        "nld": "nl",
        "por": "pt",
        "ron": "ro",
        "rus": "ru",
        "zho": "zh",
        "jpn": "ja",
        "ara": "ar",
    },
}


class _Identifier:
    """The detector's model, which is loaded once per process, when it is first used."""

    def __init__(self) -> None:
        self._lock, self._model = Lock(), None

    def load(self) -> Any:
        """Return the model."""
        with self._lock:
            if self._model is None:
                from py3langid.langid import MODEL_FILE, LanguageIdentifier

                self._model = LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)
            return self._model


_identifier: Final = _Identifier()


class Detector:
    """Finds the language of a text among given ones.

    Languages that are not given compete too, with a small prior probability, so that a text in one of them
    gets low probabilities for all the given ones, instead of a high one for the one it resembles most. The
    probabilities of a text therefore sum to at most 1.

    The first detection of a process loads the detector's model (about 0.8 s and 80 MB); `load` does so
    earlier. Each detection takes less than a millisecond. Any number of threads may share a detector.

    Args:
        codes: Codes of the languages, such as "de" and "pt-BR". Codes that differ only in the variant share
            the probability of their language; a code that the detector does not know always has 0.
    """

    def __init__(self, codes: Iterable[str]) -> None:
        self._languages = {code: _language(code) for code in codes}

    def load(self) -> None:
        """Load the detector's model, if it is not loaded yet."""
        _identifier.load()

    def detect(self, text: str) -> list[tuple[str, float]]:
        """Return each code with its probability, from 0 to 1, the most probable first.

        The best guess for a text of one or two words is often wrong, and its probability says so; for a text
        without letters, all languages are equally probable.
        """
        likelihoods = dict(_identifier.load().rank(text[:_MOST_CHARACTERS]))
        num_codes = Counter(self._languages.values())
        served = num_codes.keys() & likelihoods.keys()
        prior = _PRIOR_OF_SERVED / max(1, len(served))
        prior_of_others = (1 - _PRIOR_OF_SERVED) / max(1, len(likelihoods) - len(served))
        weights = {
            language: likelihood * (prior if language in served else prior_of_others)
            for language, likelihood in likelihoods.items()
        }
        total = sum(weights.values())
        found = [
            (code, weights.get(language, 0.0) / num_codes[language] / total)
            for code, language in self._languages.items()
        ]
        return sorted(found, key=lambda pair: -pair[1])


def _language(code: str) -> str:
    """Return the detector's code for the language of a code."""
    language = code.lower().replace("_", "-").split("-")[0]
    return _NAMED_OTHERWISE.get(language, language)
