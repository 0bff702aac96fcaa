"""Reads JSON as RFC 8259 defines it, without the extensions that Python accepts."""

import json
from collections.abc import Sequence
from typing import Any, NoReturn

from allyouneed.errors import DataError


def parse_object(text: str) -> dict[str, Any]:
    """Parse a JSON object.

    Raises:
        DataError: The text is not a JSON object, a key occurs twice, a number is NaN, infinite or out of
            range for a float, a string contains half a surrogate pair, or the nesting is too deep.
    """
    try:
        value = json.loads(text, object_pairs_hook=_unique, parse_constant=_not_a_number, parse_float=_finite)
        json.dumps(value, ensure_ascii=False).encode()
    except json.JSONDecodeError as error:
        raise _error(f"{error.msg.removesuffix(' at')} at character {error.pos + 1}") from None
    except UnicodeEncodeError:
        raise _error("a string has half a surrogate pair") from None
    except ValueError as error:  # of the hooks, and of integers with thousands of digits
        raise _error(str(error)) from None
    except RecursionError:
        raise _error("it is nested too deep") from None
    if not isinstance(value, dict):
        raise _error("an object is wanted")
    return value


def _error(reason: str) -> DataError:
    return DataError(f'no JSON object ({reason}); write {{"text": "..."}}', label="E-JSON")


def _unique(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise ValueError(f"the key {key!r} occurs twice")
        found[key] = value
    return found


def _not_a_number(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no JSON")


def _finite(number: str) -> float:
    value = float(number)
    if value in (float("inf"), float("-inf")):
        raise ValueError(f"{number[:20]} is too large")
    return value
