"""The served languages as DeepL lists them: with variants of some target languages."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from allyouneed.language_codes import closest_code, spoken_language, standard_code
from allyouneed.serve.directions import Direction, between
from allyouneed.serve.refusal import Refusal

_SHOWN: Final[Mapping[str, Mapping[str, str]]] = {
    "EN": {"EN-GB": "English (British)", "EN-US": "English (American)"},
    "EN-GB": {"EN-GB": "English (British)"},
    "EN-US": {"EN-US": "English (American)"},
    "NB": {"NB": "Norwegian (bokmål)"},
    "PT": {"PT-BR": "Portuguese (Brazilian)", "PT-PT": "Portuguese (European)"},
    "PT-BR": {"PT-BR": "Portuguese (Brazilian)"},
    "PT-PT": {"PT-PT": "Portuguese (European)"},
    "ZH": {"ZH": "Chinese (simplified)", "ZH-HANS": "Chinese (simplified)"},
    "ZH-HANS": {"ZH": "Chinese (simplified)", "ZH-HANS": "Chinese (simplified)"},
    "ZH-HANT": {"ZH-HANT": "Chinese (traditional)"},
}
"""Target languages that DeepL lists under other codes or names than ours."""


class Languages:
    """The served languages by DeepL's codes, which are read in any case.

    Args:
        names: Code -> English name of each language.
        directions: What the models translate.
    """

    def __init__(self, names: Mapping[str, str], directions: Sequence[Direction]) -> None:
        self._names = names
        self._directions = directions
        self._sources = list(dict.fromkeys(each.source for each in directions))
        self._targets = list(dict.fromkeys(each.target for each in directions))

    def target(self, code: str) -> str:
        """Return the models' code of a target language or of the closest variant.

        Raises:
            Refusal: The language is not served.
        """
        return _served(closest_code(code, self._targets), "target_lang")

    def direction(self, source: str, target: str) -> Direction:
        """Return the direction between two languages; between one and itself, it has no models.

        Raises:
            Refusal: A language is not served, or no model translates in this direction.
        """
        to = self.target(target)
        origin = _served(closest_code(source, [*self._sources, to], is_source=True), "source_lang")
        if found := between(self._directions, source, target):
            return found
        pair = f"'{shown(origin)}' => '{_code(to)}'"
        raise Refusal(400, "no_direction", f"Unsupported language pair: {pair}.")

    def sources(self) -> list[dict[str, Any]]:
        """Return the source languages, as DeepL lists them."""
        listed = {shown(code): self._names[code].partition(" (")[0] for code in self._sources}
        return [{"language": code, "name": name} for code, name in sorted(listed.items())]

    def targets(self) -> list[dict[str, Any]]:
        """Return the target languages, as DeepL lists them."""
        listed: dict[str, str] = {}
        for code in self._targets:
            listed |= _SHOWN.get(_code(code), {_code(code): self._names[code]})
        return [
            {"language": code, "name": name, "supports_formality": False}
            for code, name in sorted(listed.items())
        ]


def shown(source: str) -> str:
    """DeepL's code for a source language."""
    return _code(source).partition("-")[0]


def _code(code: str) -> str:
    return "NB" if spoken_language(code) == "no" else standard_code(code).upper()


def _served(found: str | None, field: str) -> str:
    if found is None:
        raise Refusal(400, "no_language", f"Value for '{field}' not supported.")
    return found
