"""The language of a text, among given ones, by the counts of its byte sequences (py3langid)."""

from collections import Counter
from collections.abc import Iterable
from functools import cache
from threading import Lock
from typing import Any, Final

from allyouneed.errors import UsageError
from allyouneed.language_codes import spoken_language

_MOST_CHARACTERS: Final = 2_000
"""Number of characters that are looked at; more would not change the answer."""
_PRIOR: Final = 0.9
"""Probability, before a text is read, that its language is a given one."""
_DOUBTFUL: Final = 0.5
"""Probability of its language below which a text of a corpus is taken for one of another language."""
_LOCK: Final = Lock()


@cache
def _read_model() -> Any:
    try:
        from py3langid.langid import MODEL_FILE, LanguageIdentifier
    except ImportError:
        raise UsageError("detecting languages needs py3langid; pip install 'allyouneed[languages]'") from None
    return LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)


def _loaded_model() -> Any:
    """The detector's model, which is read once per process; UsageError if the detector is not installed."""
    with _LOCK:
        return _read_model()


class Detector:
    """Finds the language of a text among given ones.

    Languages that are not given compete too, with a small prior probability, so that a text in one of them
    gets low probabilities for all the given ones. The probabilities of a text therefore sum to at most 1.

    The first detection of a process loads the detector's model (about 0.8 s and 80 MB); `load` does so
    earlier. Each detection takes less than a millisecond. Any number of threads may share a detector.

    Args:
        codes: Codes of the languages, such as "de" and "pt-BR". Codes that differ only in the variant share
            the probability of their language; a code that the detector does not know always has 0.
    """

    def __init__(self, codes: Iterable[str]) -> None:
        self._languages = {code: spoken_language(code) for code in codes}

    def load(self) -> None:
        """Load the detector's model, if it is not loaded yet."""
        _loaded_model()

    def detect(self, text: str) -> list[tuple[str, float]]:
        """Return each code with its probability, from 0 to 1, the most probable first.

        The best guess for a text of one or two words is often wrong, and its probability says so; for a text
        without letters, all languages are equally probable.
        """
        likelihoods = dict(_loaded_model().rank(text[:_MOST_CHARACTERS]))
        num_codes = Counter(self._languages.values())
        given = num_codes.keys() & likelihoods.keys()
        prior = _PRIOR / max(1, len(given))
        prior_of_others = (1 - _PRIOR) / max(1, len(likelihoods) - len(given))
        weights = {
            language: likelihood * (prior if language in given else prior_of_others)
            for language, likelihood in likelihoods.items()
        }
        total = sum(weights.values())
        found = [
            (code, weights.get(language, 0.0) / num_codes[language] / total)
            for code, language in self._languages.items()
        ]
        return sorted(found, key=lambda pair: -pair[1])


class LanguageFilter:
    """Finds texts of a corpus that are in another language than `code`.

    A text is taken for one of another language if the detector gives its own less than half of the
    probability, before which it was 0.9; so short texts mostly pass. A text takes some 60 microseconds.

    Raises:
        UsageError: The detector is not installed, or does not know the language.
    """

    def __init__(self, code: str) -> None:
        self._model, self._language, self._code = _loaded_model(), spoken_language(code), code
        self._detector = Detector([code])
        if self._language not in {*map(str, self._model.labels)}:
            known = ", ".join(sorted(map(str, self._model.labels)))
            raise UsageError(
                f"languages: {code} is not known to the detector; it knows {known}", settings=["languages"]
            )

    def passes(self, text: str) -> bool:
        """Whether a text may be in the language."""
        if self._model.classify(text[:_MOST_CHARACTERS])[0] == self._language:
            return True
        return self._detector.detect(text)[0][1] >= _DOUBTFUL
