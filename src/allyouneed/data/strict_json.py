"""Reads JSON as RFC 8259 defines it, without the extensions that Python accepts."""

import json
from collections.abc import Sequence
from typing import Any, NoReturn

from allyouneed.errors import DataError


class JSONFault(ValueError):  # noqa: N818 - a fault of the text
    """The fault of a text that is not JSON; `reason`, unlike the message, quotes nothing of the text."""

    def __init__(self, message: str, reason: str | None = None) -> None:
        super().__init__(message)
        self.reason = reason or message


def parse_value(text: str, max_keys: int | None = None) -> Any:
    """Parse a JSON value whose objects have at most `max_keys` keys.

    Raises:
        JSONFault: The text is not JSON, a key occurs twice, an object has too many, a number is NaN, infinite
            or out of range for a float, a string contains half a surrogate pair, or the nesting is too deep.
    """

    def unique(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
        if max_keys is not None and len(pairs) > max_keys:
            raise JSONFault(f"an object has more than {max_keys:,} keys")
        found: dict[str, Any] = {}
        for key, value in pairs:
            if key in found:
                raise JSONFault(f"the key {key!r} occurs twice", "a key occurs twice")
            found[key] = value
        return found

    try:
        value = json.loads(text, object_pairs_hook=unique, parse_constant=_not_a_number, parse_float=_finite)
        json.dumps(value, ensure_ascii=False).encode()
    except JSONFault:
        raise
    except json.JSONDecodeError as error:
        raise JSONFault(f"{error.msg.removesuffix(' at')} at character {error.pos + 1}") from None
    except UnicodeEncodeError:
        raise JSONFault("a string has half a surrogate pair") from None
    except ValueError as error:  # of integers with thousands of digits
        raise JSONFault(str(error), "an integer has too many digits") from None
    except RecursionError:
        raise JSONFault("it is nested too deep") from None
    return value


def parse_object(text: str, max_keys: int | None = None) -> dict[str, Any]:
    """Parse a JSON object; see `parse_value`.

    Raises:
        DataError: The text is not JSON, or not an object.
    """
    try:
        value = parse_value(text, max_keys)
    except JSONFault as fault:
        raise _error(str(fault)) from None
    if not isinstance(value, dict):
        raise _error("an object is wanted")
    return value


def _error(reason: str) -> DataError:
    return DataError(f'no JSON object ({reason}); write {{"text": "..."}}', label="E-JSON")


def _not_a_number(constant: str) -> NoReturn:
    raise JSONFault(f"{constant} is no JSON")


def _finite(number: str) -> float:
    value = float(number)
    if value in (float("inf"), float("-inf")):
        raise JSONFault(f"{number[:20]} is too large", "a number is too large")
    return value
