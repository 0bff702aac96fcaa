"""Says which values of a request are wrong and why: their paths and bounds, never the values themselves."""

import difflib
from collections.abc import Iterator, Mapping, Sequence, Set
from typing import Any

from pydantic import TypeAdapter

from allyouneed.serve.refusal import Refusal

_WORDS = {
    "missing": "is missing",
    "string_type": "must be a text",
    "string_unicode": "must be Unicode without lone surrogates",
    "string_too_short": "must have at least {min_length} characters",
    "string_too_long": "must have at most {max_length} characters",
    "string_pattern_mismatch": "must be a name of letters, digits, '.', '_' and '-'",
    "int_type": "must be a whole number",
    "float_type": "must be a number",
    "greater_than_equal": "must be at least {ge}",
    "less_than_equal": "must be at most {le}",
    "bool_type": "must be true or false",
    "list_type": "must be a list",
    "too_long": "must have at most {max_length} values",
    "model_attributes_type": "must be an object",
}
"""pydantic's types of errors that requests can provoke -> what is wrong."""
_MOST_DETAILS = 20
_MOST_ERRORS = 100  # that are looked at: a body has room for a hundred thousand


def field_names(body_type: Any) -> frozenset[str]:
    """The names of all fields of a body, nested ones included."""
    return frozenset(_names_in(TypeAdapter(body_type).json_schema()))


def wrong_values(errors: Sequence[Mapping[str, Any]], names: Set[str] = frozenset()) -> Refusal:
    """The refusal of a request whose values pydantic found to be wrong.

    Args:
        errors: What pydantic found.
        names: Names of all fields of the body; paths show no other name, because the user chose it.
    """
    problems: dict[tuple[str | int, ...], list[str]] = {}
    for error in errors[:_MOST_ERRORS]:
        path = _path(error["loc"], names)
        problem = _problem(error, names)
        if problem not in problems.setdefault(path, []):
            problems[path].append(problem)
    details = [
        {"path": list(path), "message": " or ".join(found)}
        for path, found in list(problems.items())[:_MOST_DETAILS]
    ]
    first = max(details, key=lambda each: len(each["path"]))  # a value in a list rather than the list
    place = ".".join(map(str, first["path"])) or "the body"
    return Refusal(422, "values", f"{place} {first['message']}", details=details)


def _path(location: Sequence[str | int], names: Set[str]) -> tuple[str | int, ...]:
    """The place of a value, without the alternatives of a type that pydantic names too."""
    where, *inner = location
    if where != "body":
        return tuple(location)
    return tuple(part for part in inner if isinstance(part, int) or part in names)


def _problem(error: Mapping[str, Any], names: Set[str]) -> str:
    if error["type"] == "extra_forbidden":
        near = difflib.get_close_matches(str(error["loc"][-1])[:64], sorted(names), n=1)
        known = f"did you mean {near[0]!r}?" if near else f"known are {', '.join(sorted(names))}"
        return f"has an unknown field; {known}"
    words = _WORDS.get(error["type"], "has a wrong value")
    return words.format_map(error.get("ctx", {}))


def _names_in(schema: Any) -> Iterator[str]:
    if isinstance(schema, list):
        for each in schema:
            yield from _names_in(each)
    if isinstance(schema, dict):
        yield from schema.get("properties", {})
        for each in schema.values():
            yield from _names_in(each)
