"""The served languages as LibreTranslate lists them."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from allyouneed.language_codes import closest_code, standard_code
from allyouneed.serve.directions import Direction, between
from allyouneed.serve.refusal import Refusal

_MOST_CHARACTERS: Final = 40
UNKNOWN: Final = "en"
"""The language that LibreTranslate names, with confidence 0, for a text that has none."""


class Languages:
    """The served languages by LibreTranslate's codes.

    Every language can also be "translated" to itself.

    Args:
        names: Code -> English name of each language.
        directions: What the models translate.
    """

    def __init__(self, names: Mapping[str, str], directions: Sequence[Direction]) -> None:
        self._names = names
        self._directions = directions

    def direction(self, source: str, target: str) -> Direction:
        """Return the direction between two languages; between one and itself, it has no models.

        Raises:
            Refusal: A language is not served, or no model translates in this direction.
        """
        codes = self.require(source, is_source=True), self.require(target)
        if found := between(self._directions, source, target):
            return found
        origin, to = (f"{self._names[code]} ({shown(code)})" for code in codes)
        message = f"{to} is not available as a target language from {origin}"
        raise Refusal(400, "no_direction", message)

    def require(self, code: str, *, is_source: bool = False) -> str:
        """Return the models' code of a language.

        Raises:
            Refusal: The language is not served.
        """
        if (found := closest_code(code, self._names, is_source=is_source)) is None:
            raise Refusal(400, "no_language", f"{code.lower()[:_MOST_CHARACTERS]} is not supported")
        return found

    def description(self) -> list[dict[str, Any]]:
        """Return the languages, each with its targets, as LibreTranslate describes them."""
        pairs = {(each.source, each.target) for each in self._directions}
        return [
            {
                "code": shown(code),
                "name": name,
                "targets": sorted(shown(to) for to in self._names if to == code or (code, to) in pairs),
            }
            for code, name in self._names.items()
        ]

    def first_target(self) -> dict[str, str]:
        """Return the target language of the first model."""
        code = next((each.target for each in self._directions), UNKNOWN)
        return {"code": shown(code), "name": self._names.get(code, "English")}


def detection(code: str, probability: float) -> dict[str, Any]:
    """A detected language, with its probability in percent, as LibreTranslate describes it."""
    return {"confidence": float(round(100 * probability)), "language": shown(code)}


def shown(code: str) -> str:
    """LibreTranslate's code for a language."""
    return "zh-Hans" if standard_code(code) == "zh" else standard_code(code)
