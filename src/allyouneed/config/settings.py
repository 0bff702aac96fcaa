"""Base class of all settings: frozen and validated; error messages suggest the nearest known key."""

import ast
import difflib
import inspect
import re
import textwrap
import tomllib
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, Final, Self, TypeVar, get_args, get_type_hints

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from allyouneed.errors import MAX_REPORTED, DiskError, UsageError

MAX_OUTPUTS: Final = 10_000
"""Maximum outputs per input: memory and time grow with them."""
MAX_THREADS: Final = 1_024
"""Maximum threads, or batches computed at once: more than any machine has cores."""
MAX_COUNT: Final = 1_000_000_000
"""Maximum of any other count."""

Batch = Annotated[int, Field(ge=1, le=MAX_COUNT)]
"""Number of tokens or sentences in a batch."""
Workers = Annotated[int, Field(ge=1, le=MAX_THREADS)]
"""Number of batches computed at once."""

_GREATEST = {"n_best": MAX_OUTPUTS, "mbr": MAX_OUTPUTS, "workers": MAX_THREADS, "threads": MAX_THREADS}


def require_counts(**given: int | None) -> None:
    """Raise UsageError for a count below 1 or above its bound."""
    for name, count in given.items():
        greatest = _GREATEST.get(name, MAX_COUNT)
        if count is not None and not 1 <= count <= greatest:
            raise UsageError(f"{name} {count}: give 1 to {greatest:,}", settings=[name])


LONGEST_TEXT = 1 << 20
"""Maximum length of a TOML text, in characters."""
_DEEPEST_KEY = 64
"""Maximum number of dots in a TOML key; parsing time is quadratic in this number."""
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

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)

    def replace(self, **changes: Any) -> Self:
        """Return a copy with `changes`; a mapping for a group of settings changes only the keys it names.

        Raises:
            UsageError: A setting is unknown, out of range or of a wrong type; names all of them.
        """
        return self.changed(changes, ".".join)

    def changed(self, changes: Mapping[str, Any], place: Callable[[Sequence[str]], str]) -> Self:
        """Return a changed copy, like `replace`; `place` tells where the user gave a key, for messages."""
        try:
            return type(self).model_validate(_merged(self.model_dump(), changes))
        except ValidationError as error:
            raise UsageError(_messages(type(self), error, place)) from None

    @classmethod
    def checked(cls, **settings: Any) -> Self:
        """Make a configuration from settings; UsageError names all that are unknown or have wrong values."""
        try:
            return cls(**settings)
        except ValidationError as error:
            at_fault = [str(part) for detail in error.errors() for part in detail["loc"][:1]]
            raise UsageError(_messages(cls, error, lambda key: ""), settings=at_fault) from None


@cache
def descriptions(config: type[Config]) -> Mapping[str, str]:
    """Setting -> its docstring, read from the source only for those who show it, as reading takes a while."""
    tree = ast.parse(Path(inspect.getfile(config)).read_bytes())
    classes = {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}
    return {
        field.target.id: inspect.cleandoc(str(text.value.value))
        for field, text in pairwise(classes[config.__name__].body)
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name)
        if isinstance(text, ast.Expr) and isinstance(text.value, ast.Constant)
    }


def _merged(old: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(old)
    for key, value in changes.items():
        nested = isinstance(value, Mapping) and isinstance(old.get(key), Mapping)
        merged[key] = _merged(old[key], value) if nested else value
    return merged


WORDS: Final = {
    "missing": "is missing",
    "int_type": "must be a whole number",
    "int_from_float": "must be a whole number",
    "float_type": "must be a number",
    "finite_number": "must be a finite number",
    "bool_type": "must be true or false",
    "string_type": "must be a text",
    "string_unicode": "must be Unicode without lone surrogates",
    "list_type": "must be a list",
    "tuple_type": "must be a list",
    "literal_error": "must be {expected}",
    "less_than": "must be less than {lt}",
    "less_than_equal": "must be at most {le}",
    "greater_than": "must be greater than {gt}",
    "greater_than_equal": "must be at least {ge}",
    "model_type": "must be a group of settings",
}
"""pydantic's types of errors -> what is wrong."""


def _messages(
    config: type[Config], error: ValidationError, place: Callable[[Sequence[str]], str]
) -> list[str]:
    """Describe each error with its place; errors beyond `MAX_REPORTED` get no place and no remedy."""
    details = error.errors(include_url=False)
    told = [_message(config, detail, place) for detail in details[:MAX_REPORTED]]
    return [*told, *(_reason(detail) for detail in details[MAX_REPORTED:])]


def _reason(detail: Any) -> str:
    if detail["type"] not in WORDS:
        return str(detail["msg"]).removeprefix("Value error, ")
    limits = detail.get("ctx", {}).items()
    shown = {name: f"{each:.15g}" if isinstance(each, float) else each for name, each in limits}
    return WORDS[detail["type"]].format_map(shown)


def _message(config: type[Config], detail: Any, place: Callable[[Sequence[str]], str]) -> str:
    key = tuple(str(part) for part in detail["loc"])
    name, at = ".".join(key), place(key)
    is_named = at.endswith(name)  # by its place
    if detail["type"] != "extra_forbidden":
        try:
            given = "" if detail["type"] == "value_error" else f", not {detail['input']!r}"
        except ValueError:  # Python refuses to print more than 4,300 digits
            given = ", not a number with thousands of digits"
        return ": ".join(filter(None, [at, "" if is_named else name, f"{_reason(detail)}{given}"]))
    for part in key[:-1]:
        config = config.model_fields[part].annotation  # type: ignore[assignment]
    known = sorted(config.model_fields)
    nearest = difflib.get_close_matches(key[-1], known, n=1)
    remedy = (
        f"did you mean {'.'.join((*key[:-1], nearest[0]))}?" if nearest else f"known here: {', '.join(known)}"
    )
    return ": ".join(
        filter(None, [at, f"{'is unknown' if is_named else f'unknown setting {name}'}; {remedy}"])
    )


def parse_toml(text: str) -> dict[str, Any]:
    """Parse a TOML text in time bounded by its length; a ValueError says what is wrong and what to do."""
    if len(text) > LONGEST_TEXT:
        raise ValueError(f"more than {LONGEST_TEXT:,} characters; remove everything that is not a setting")
    plain = _QUOTED_OR_COMMENT.sub(lambda found: "q" + "\n" * found[0].count("\n"), text)
    if key := _LONG_KEY.search(plain):
        line = plain.count("\n", 0, key.start()) + 1
        raise ValueError(
            f"a key with more than {_DEEPEST_KEY} dots (at line {line}); write group.key = value"
        )
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise ValueError("values nested too deeply; write group.key = value") from None
    except tomllib.TOMLDecodeError as error:
        raise ValueError(f"{error}; correct it there") from None
    except ValueError:
        raise ValueError("a number with more than 4,300 digits; write a smaller one") from None


def read_toml(path: Path) -> tuple[dict[str, Any], str]:
    """Read a TOML file of settings: its values and text; raises UsageError if missing or not TOML."""
    try:
        with path.open("rb") as file:
            text = file.read(LONGEST_TEXT + 1).decode()
        return parse_toml(text), text
    except (FileNotFoundError, IsADirectoryError, NotADirectoryError) as error:
        raise UsageError(f"{path}: {error.strerror}; name a TOML file of settings") from None
    except OSError as error:
        raise DiskError(f"{path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{path}: is not TOML: {error}; save the file as UTF-8") from None
    except ValueError as error:
        raise UsageError(f"{path}: is not TOML: {error}") from None


def toml_value(setting: str, value: str) -> Any:
    """Parse a `--set` value as TOML; a bare word counts as a string, because the shell removes quotes."""
    try:
        found, _ = parse_toml(f"value = [{value}, 0]")["value"]  # the suffix makes comments invalid
        if "\n" not in value:
            return found
    except ValueError:
        if value.replace("-", "_").isidentifier():
            return value
    raise UsageError(
        f"setting {setting}: {value!r} is not a TOML value; give a number, true, false, or a quoted string"
    ) from None


def line_of(key: Sequence[str], text: str) -> int:
    """The line number of `key` in a TOML text, from 1; that of its table if the key itself is not found."""
    found, table = 1, ""
    for number, line in enumerate(text.split("\n"), start=1):
        name = line.partition("=")[0].strip()
        if name.startswith("["):
            table = name.strip("[] \t")
            found = number if key and table == key[0] else found
        elif (f"{table}.{name}" if table else name) == ".".join(key):
            return number
    return found


Function = TypeVar("Function", bound=Callable[..., Any])


def takes(options: type[Config], of_the_model: type[Config]) -> Callable[[Function], Function]:
    """Add every option to the signature and the docstring of a function that takes `**options`.

    `options` have their own defaults, those `of_the_model` the values stored with the model.
    """

    def document(function: Function) -> Function:
        signature = inspect.signature(function)
        *named, unpacked = signature.parameters.values()
        kinds = get_type_hints(*get_args(unpacked.annotation))
        defaults = {name: field.default for name, field in options.model_fields.items()}
        keywords = [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=kinds[name])
            for name, default in (defaults | dict.fromkeys(of_the_model.model_fields)).items()
        ]
        function.__signature__ = signature.replace(parameters=[*named, *keywords])  # type: ignore[attr-defined]
        function.__doc__ = "\n".join(
            [
                inspect.getdoc(function) or "",
                "\nOptions:",
                *(_line(options, name, f"{default!r}") for name, default in defaults.items()),
                "\nOptions whose default is the model's own setting (in brackets: if the model has none):",
                *(
                    _line(of_the_model, name, f"the model's ({field.default!r})")
                    for name, field in of_the_model.model_fields.items()
                ),
            ]
        )
        return function

    return document


def _line(config: type[Config], name: str, default: str) -> str:
    text = " ".join(f"{name}: {descriptions(config)[name]} Default: {default}.".split())
    return textwrap.fill(text, 105, initial_indent="    ", subsequent_indent="        ")
