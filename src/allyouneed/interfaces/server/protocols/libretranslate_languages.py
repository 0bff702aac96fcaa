"""The language codes of LibreTranslate, which differ from those of models for variants."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from allyouneed.interfaces.server.directions import Direction
from allyouneed.interfaces.server.refusal import Refusal

_SHOWN: Final = {"pb": "pt-BR", "zh": "zh-Hans", "zt": "zh-Hant"}
_READ: Final = {shown.lower(): code for code, shown in _SHOWN.items()}
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
        self._codes = {_normal(code): code for code in names}
        self._directions = {(each.source, each.target): each for each in directions}

    def require(self, code: str) -> str:
        """Return the models' code of a language.

        Raises:
            Refusal: The language is not served.
        """
        normal = _normal(code)
        if normal not in self._codes:
            raise Refusal(400, "no_language", f"{normal[:_MOST_CHARACTERS]} is not supported")
        return self._codes[normal]

    def direction(self, source: str, target: str) -> Direction | None:
        """Return the direction between two languages by the models' codes; None if they are the same.

        Raises:
            Refusal: No model translates in this direction.
        """
        if source == target:
            return None
        if (source, target) not in self._directions:
            to, origin = (f"{self._names[code]} ({_normal(code)})" for code in (target, source))
            message = f"{to} is not available as a target language from {origin}"
            raise Refusal(400, "no_direction", message)
        return self._directions[source, target]

    def likeliest_source(self, detected: Sequence[tuple[str, float]], target: str) -> tuple[str, float]:
        """Return the most probable detected language that is the target or is translated to it."""
        fitting = [each for each in detected if each[0] == target or (each[0], target) in self._directions]
        return (fitting or [*detected, (target, 0.0)])[0]

    def description(self) -> list[dict[str, Any]]:
        """Return the languages, each with its targets, as LibreTranslate describes them."""
        return [
            {
                "code": shown(code),
                "name": name,
                "targets": sorted(
                    shown(to) for to in self._names if to == code or (code, to) in self._directions
                ),
            }
            for code, name in self._names.items()
        ]

    def first_target(self) -> dict[str, str]:
        """Return the target language of the first model."""
        code = next((target for _, target in self._directions), UNKNOWN)
        return {"code": shown(code), "name": self._names.get(code, "English")}


def detection(code: str, probability: float) -> dict[str, Any]:
    """A detected language, with its probability in percent, as LibreTranslate describes it."""
    return {"confidence": float(round(100 * probability)), "language": shown(code)}


def shown(code: str) -> str:
    """LibreTranslate's code for a language."""
    return _SHOWN.get(_normal(code), _normal(code))


def _normal(code: str) -> str:
    lower = code.lower().replace("_", "-")
    return _READ.get(lower, lower)
