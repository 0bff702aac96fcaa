"""Values of a command's options from a TOML file and from environment variables, besides the command line."""

import difflib
import os
from collections.abc import Iterator, Mapping, Set
from contextlib import contextmanager
from datetime import date, time
from pathlib import Path
from typing import Any

from cyclopts import App, ArgumentCollection, Token

from allyouneed.errors import UsageError

_FILE = "config"
"""Name of the option that names the file; a file cannot name another."""
_ON_THE_COMMAND_LINE = ("quiet", "debug")
"""Options of every command, which have no other source."""
_SWITCHES = {"yes", "y", "true", "t", "1", "no", "n", "false", "f", "0"}
"""Values of a switch, as the parser of the command line takes them."""


class OptionSources:
    """Fills options that the command line does not set: from the environment, then from a TOML file.

    The option `--max-wait` of `serve` is the variable `ALLYOUNEED_SERVE_MAX_WAIT`, and the key `max-wait` of
    the file that `--config` names. One that may be repeated takes the words of a variable, or a list. Options
    `with_tables` have values NAME=VALUE, which may be a table in the file.
    """

    def __init__(self, prefix: str, with_tables: Set[str]) -> None:
        self._prefix, self._with_tables = prefix, with_tables
        self._places: dict[str, str] = {}

    def __call__(self, app: App, commands: tuple[str, ...], arguments: ArgumentCollection) -> None:
        """Fill the arguments of a command, as the parser of the command line asks for it."""
        options = {each.name.lstrip("-").lower(): each for each in arguments if each.show}
        self._places.clear()
        self._fill(options, self._variables({self._variable(name): name for name in options}))
        if tokens := options[_FILE].tokens:
            self._fill(options, self._keys(Path(tokens[0].value), {*options} - {_FILE}))

    @contextmanager
    def named(self) -> Iterator[None]:
        """Let a usage error that begins with an option say where its value is from."""
        try:
            yield
        except UsageError as error:
            place = self._places.get(str(error).partition(" ")[0].strip("-:"))
            if place is None:
                raise
            raise UsageError(f"{place}: {error}") from None

    def _fill(self, options: Mapping[str, Any], given: Iterator[tuple[str, str, Any]]) -> None:
        """Set the options that have no value yet to the given ones: name, place of the value, and value."""
        for name, place, value in given:
            option, values = options[name], [value]
            if option.token_count()[1]:  # may be repeated
                values = self._several(name, value, is_variable=place.startswith(self._prefix))
            if any(isinstance(each, list | dict | date | time) for each in values):
                listed = ", or a list of them" * option.token_count()[1]
                raise UsageError(f"{place}: write a text, a number, true or false{listed}")
            if option.hint is bool and str(value).lower() not in _SWITCHES:
                raise UsageError(f"{place}: {value!r} is neither yes, true or 1 nor no, false or 0")
            if not option.tokens:
                self._places[name] = place
                for index, each in enumerate(values):
                    option.append(Token(keyword=place, value=str(each), index=index))

    def _several(self, name: str, value: Any, *, is_variable: bool) -> list[Any]:
        if is_variable:
            return list(value.split())
        if isinstance(value, dict) and name in self._with_tables:
            return [f"{key}={each}" for key, each in value.items()]
        return value if isinstance(value, list) else [value]

    def _variable(self, name: str) -> str:
        return self._prefix + name.upper().replace("-", "_")

    def _variables(self, names: Mapping[str, str]) -> Iterator[tuple[str, str, Any]]:
        for variable in sorted(each for each in os.environ if each.startswith(self._prefix)):
            if variable not in names:
                raise UsageError(f"{variable}: unknown variable; unset it; {_known(variable, names)}")
            if os.environ[variable]:
                yield names[variable], variable, os.environ[variable]

    def _keys(self, path: Path, names: Set[str]) -> Iterator[tuple[str, str, Any]]:
        from allyouneed.config.settings import read_toml  # takes a while to import

        for key, value in read_toml(path)[0].items():
            if (name := key.replace("_", "-")) not in names:
                raise UsageError(f"{path}: unknown key {key}; {_known(name, names)}")
            yield name, f"{key} in {path}", value


def _known(name: str, names: Mapping[str, str] | Set[str]) -> str:
    if name.lower().endswith(_ON_THE_COMMAND_LINE):
        return "--quiet and --debug stand on the command line only"
    near = difflib.get_close_matches(name[:64], sorted(names), n=1)
    return f"did you mean {near[0]}?" if near else f"known are {', '.join(sorted(names))}"


SERVE_SOURCES = OptionSources("ALLYOUNEED_SERVE_", {"direction", "precision", "beam-size"})
"""The sources of the options of `serve`."""
