"""Which served language a client's code means: the closest of its variants (scripts, regions)."""

from collections.abc import Iterable
from typing import Final

from allyouneed.language_codes import primary_language

_OTHER_NAMES: Final = {
    **{"pb": "pt-br", "zt": "zh-hant"},  # Argos Translate's
    **{"zh-cn": "zh-hans", "zh-sg": "zh-hans", "zh-hk": "zh-hant", "zh-mo": "zh-hant", "zh-tw": "zh-hant"},
}
_USUAL_SCRIPTS: Final = {"zh": "hans"}
"""Script of a language whose code names none, where texts in another script are as usual."""
_FAR: Final = 100
"""Distance between scripts, more than any number of variants."""


def language_parts(code: str) -> list[str]:
    """The parts of a language code in lower case: the language as in ISO 639-1, then its variants."""
    lower = code.strip().lower().replace("_", "-")
    _, *variants = (named := _OTHER_NAMES.get(lower, lower)).split("-")
    spelled = "-".join([primary_language(named), *variants])
    return _OTHER_NAMES.get(spelled, spelled).split("-")


def standard_code(code: str) -> str:
    """The code of a language as BCP 47 spells it, such as "pt-BR" and "zh-Hant"."""
    language, *variants = language_parts(code)
    return "-".join([language, *(each.title() if _is_script(each) else each.upper() for each in variants)])


def distance(asked: str, served: str, *, is_source: bool = False) -> int | None:
    """How far a served language is from the one that a code asks for.

    Args:
        asked: A client's code.
        served: A model's code.
        is_source: Whether it is the source language. A model may read another script than it was trained on,
            but will not write another one than its own.

    Returns:
        The number of variants that only one of the codes names, so 0 if they are the same; None if they are
        different languages, or a target of which the code names another script.
    """
    wanted, found = language_parts(asked), language_parts(served)
    other_script = len({_script(wanted), _script(found)} - {""}) > 1
    if _spoken(wanted) != _spoken(found) or (other_script and len(wanted) > 1 and not is_source):
        return None
    return len({*wanted[1:]} ^ {*found[1:]}) + _FAR * other_script


def closest_code(asked: str, served: Iterable[str], *, is_source: bool = False) -> str | None:
    """The served code that is closest to a client's, the first of several; None if there is none."""
    apart = {
        each: found for each in served if (found := distance(asked, each, is_source=is_source)) is not None
    }
    return asked if asked in apart else min(apart, key=apart.__getitem__, default=None)


def are_same(one: str, other: str) -> bool:
    """Whether two codes are of the same language in the same script."""
    return None not in (distance(one, other), distance(other, one))


def _spoken(parts: list[str]) -> str:
    return "no" if parts[0] == "nb" else parts[0]


def _script(parts: list[str]) -> str:
    return next(filter(_is_script, parts[1:]), _USUAL_SCRIPTS.get(parts[0], ""))


def _is_script(part: str) -> bool:
    return len(part) == 4 and part.isalpha()
