"""The language codes of DeepL, which asks for variants of some target languages."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from allyouneed.interfaces.server.directions import Direction
from allyouneed.interfaces.server.refusal import Refusal

_NAMED_OTHERWISE: Final = {
    **{"no": "nb", "iw": "he", "pb": "pt-br", "zt": "zh-hant"},
    **{"zh-cn": "zh-hans", "zh-sg": "zh-hans", "zh-hk": "zh-hant", "zh-tw": "zh-hant"},
}
_VARIANTS: Final = frozenset(
    {"de-at", "de-ch", "en-gb", "en-us", "es-419", "fr-ca", "pt-br", "pt-pt", "zh-hans"}
)
"""Variants that a model of the language stands in for; traditional Chinese is none, as its script differs."""
_SHOWN: Final[Mapping[str, Mapping[str, str]]] = {
    "en": {"EN-GB": "English (British)", "EN-US": "English (American)"},
    "en-gb": {"EN-GB": "English (British)"},
    "en-us": {"EN-US": "English (American)"},
    "nb": {"NB": "Norwegian (bokmål)"},
    "pt": {"PT-BR": "Portuguese (Brazilian)", "PT-PT": "Portuguese (European)"},
    "pt-br": {"PT-BR": "Portuguese (Brazilian)"},
    "pt-pt": {"PT-PT": "Portuguese (European)"},
    "zh": {"ZH": "Chinese (simplified)", "ZH-HANS": "Chinese (simplified)"},
    "zh-hans": {"ZH": "Chinese (simplified)", "ZH-HANS": "Chinese (simplified)"},
    "zh-hant": {"ZH-HANT": "Chinese (traditional)"},
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
        self._sources = _by_normal_code(each.source for each in directions)
        self._targets = _by_normal_code(each.target for each in directions)
        self._pairs = {(each.source, each.target) for each in directions}

    def source(self, code: str) -> str:
        """Return the models' code of a source language.

        Raises:
            Refusal: The language is not served.
        """
        return _found(code, self._sources, "source_lang")

    def target(self, code: str) -> str:
        """Return the models' code of a target language or of the language that it is a variant of.

        Raises:
            Refusal: The language is not served.
        """
        return _found(code, self._targets, "target_lang")

    def require_direction(self, source: str, target: str) -> None:
        """Check that texts can be translated between two languages, given by the models' codes.

        Raises:
            Refusal: No model does.
        """
        if source != target and (source, target) not in self._pairs:
            pair = f"'{shown(source)}' => '{_normal(target).upper()}'"
            raise Refusal(400, "no_direction", f"Unsupported language pair: {pair}.")

    def likeliest_source(self, detected: Sequence[tuple[str, float]], target: str) -> str:
        """Return the most probable detected language that is the target or is translated to it."""
        fitting = (code for code, _ in detected if code == target or (code, target) in self._pairs)
        return next(fitting, target)

    def sources(self) -> list[dict[str, Any]]:
        """Return the source languages, as DeepL lists them."""
        listed = {shown(code): self._names[code].partition(" (")[0] for code in self._sources.values()}
        return [{"language": code, "name": name} for code, name in sorted(listed.items())]

    def targets(self) -> list[dict[str, Any]]:
        """Return the target languages, as DeepL lists them."""
        listed: dict[str, str] = {}
        for normal, code in self._targets.items():
            listed |= _SHOWN.get(normal, {normal.upper(): self._names[code]})
        return [
            {"language": code, "name": name, "supports_formality": False}
            for code, name in sorted(listed.items())
        ]


def shown(source: str) -> str:
    """DeepL's code for a source language."""
    return _normal(source).partition("-")[0].upper()


def _by_normal_code(codes: Iterable[str]) -> dict[str, str]:
    return {_normal(code): code for code in codes}


def _normal(code: str) -> str:
    lower = code.lower().replace("_", "-")
    return _NAMED_OTHERWISE.get(lower, lower)


def _found(code: str, served: Mapping[str, str], field: str) -> str:
    """The served code for a language, or for one that differs from it in the variant."""
    normal = _normal(code)
    base = normal.partition("-")[0]
    if normal in served:
        return served[normal]
    if normal in _VARIANTS and base in served:
        return served[base]
    for each in served:
        if normal == each.partition("-")[0]:
            return served[each]
    raise Refusal(400, "no_language", f"Value for '{field}' not supported.")
