"""What every group of settings is: frozen, and checked with messages that name the nearest known key."""

import difflib
import re
import tomllib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self

from pydantic import BaseModel, ConfigDict, ValidationError

from allyouneed.errors import MAX_REPORTED, UsageError

LONGEST_TEXT = 1 << 20
"""Characters of TOML."""
_DEEPEST_KEY = 64
"""Dots of a key of TOML; reading one takes time by the square of its parts."""
_QUOTED_OR_COMMENT = re.compile(
    r"""
      \"""(?:[^"\\]|\\.|"(?!""))*+"{0,5}
    | '''(?:[^']|'(?!''))*+'{0,5}
    | "(?:[^"\\\n]|\\[^\n])*+"?
    | '[^'\n]*+'?
    | \#[^\n]*+
    """,
    re.VERBOSE | re.DOTALL,
)
_LONG_KEY = re.compile(rf"(?<![\w-])[\w-]++(?:[ \t]*+\.[ \t]*+[\w-]++){{{_DEEPEST_KEY + 1}}}")


class Config(BaseModel):
    """A frozen group of settings; unknown keys, numbers out of range and wrong types are errors."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", strict=True, allow_inf_nan=False, use_attribute_docstrings=True
    )

    def replace(self, **changes: Any) -> Self:
        """A copy with `changes`; a mapping given for a group of settings changes only the keys it names.

        Raises:
            UsageError: One is out of range, of a wrong type or unknown; all such are named.
        """
        return self.changed(changes, ".".join)

    def changed(self, changes: Mapping[str, Any], place: Callable[[Sequence[str]], str]) -> Self:
        """As `replace`; `place` says where a key was given."""
        try:
            return type(self).model_validate(_merged(self.model_dump(), changes))
        except ValidationError as error:
            raise UsageError(_messages(type(self), error, place)) from None

    @classmethod
    def checked(cls, **settings: Any) -> Self:
        """The settings as a configuration.

        Raises:
            UsageError: One is out of range, of a wrong type or unknown; all such are named.
        """
        try:
            return cls(**settings)
        except ValidationError as error:
            at_fault = [str(part) for detail in error.errors() for part in detail["loc"][:1]]
            raise UsageError(_messages(cls, error, lambda key: ""), settings=at_fault) from None


def _merged(old: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(old)
    for key, value in changes.items():
        nested = isinstance(value, Mapping) and isinstance(old.get(key), Mapping)
        merged[key] = _merged(old[key], value) if nested else value
    return merged


def _messages(
    config: type[Config], error: ValidationError, place: Callable[[Sequence[str]], str]
) -> list[str]:
    """What is wrong, each with its place; what is only counted is not looked for."""
    details = error.errors(include_url=False)
    told = [_message(config, detail, place) for detail in details[:MAX_REPORTED]]
    return [*told, *(detail["msg"] for detail in details[MAX_REPORTED:])]


def _message(config: type[Config], detail: Any, place: Callable[[Sequence[str]], str]) -> str:
    key = tuple(str(part) for part in detail["loc"])
    name = ".".join(key)
    if detail["type"] != "extra_forbidden":
        reason = detail["msg"].removeprefix("Value error, ")
        given = "" if detail["type"] == "value_error" else f", not {_shown(detail['input'])}"
        return ": ".join(filter(None, [place(key), name, f"{reason}{given}"]))
    known = sorted(_fields(config, key[:-1]))
    nearest = difflib.get_close_matches(key[-1], known, n=1)
    remedy = (
        f"did you mean {'.'.join((*key[:-1], nearest[0]))}?" if nearest else f"known here: {', '.join(known)}"
    )
    return ": ".join(filter(None, [place(key), f"unknown setting {name}; {remedy}"]))


def _shown(value: object) -> str:
    try:
        return repr(value)
    except ValueError:  # Python writes no number of more than 4,300 digits
        return "a number of thousands of digits"


def _fields(config: type[Config], path: Sequence[str]) -> list[str]:
    for name in path:
        config = config.model_fields[name].annotation  # type: ignore[assignment]
    return list(config.model_fields)


def parse_toml(text: str) -> dict[str, Any]:
    """What a TOML text holds, in a time that its length bounds.

    Raises:
        ValueError: It is no TOML, or too long or too deep to be settings; says what to do.
    """
    if len(text) > LONGEST_TEXT:
        raise ValueError(f"more than {LONGEST_TEXT:,} characters; leave out what is no setting")
    plain = _QUOTED_OR_COMMENT.sub(lambda found: "q" + "\n" * found[0].count("\n"), text)
    if key := _LONG_KEY.search(plain):
        line = plain.count("\n", 0, key.start()) + 1
        raise ValueError(
            f"a key with more than {_DEEPEST_KEY} dots (at line {line}); write group.key = value"
        )
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise ValueError("values too deep in one another; write group.key = value") from None
    except tomllib.TOMLDecodeError as error:
        raise ValueError(f"{error}; correct it there") from None
    except ValueError:
        raise ValueError("a number of more than 4,300 digits; write a smaller one") from None


def toml_value(setting: str, value: str) -> Any:
    """A `--set` value as TOML; a bare word is taken as a string, as a shell has eaten its quotes."""
    try:
        found, _ = parse_toml(f"value = [{value}, 0]")["value"]  # nothing of it may be a comment
        if "\n" not in value:
            return found
    except ValueError:
        if value.replace("-", "_").isidentifier():
            return value
    raise UsageError(
        f"setting {setting}: {value!r} is not a TOML value; give a number, true, false, or a text in quotes"
    ) from None


def line_of(key: Sequence[str], text: str) -> int:
    """The line of `key` in a TOML text, from 1: that of its table where the key itself is not found."""
    found, table = 1, ""
    for number, line in enumerate(text.split("\n"), start=1):
        name = line.partition("=")[0].strip()
        if name.startswith("["):
            table = name.strip("[] \t")
            found = number if key and table == key[0] else found
        elif (f"{table}.{name}" if table else name) == ".".join(key):
            return number
    return found
