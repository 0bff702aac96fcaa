"""A case of the siege: a command line, what is done to its files before, and what it may end with."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

DOCUMENTED = frozenset({0, 2, 3, 4, 5, 6, 7, 8, 9, 130, 141, 143})
"""The exit codes that docs/ promises."""
FILLED = frozenset({0, 9})
"""The exit codes with which every line of input has its line of output."""

Change = Callable[[Path], None]
SENTENCES = b"sun moon\nstar sees tree\nbird\n"


@dataclass(frozen=True)
class Case:
    """One command in one folder.

    Relative paths among the arguments are of the case's own folder, into which what the case needs is copied
    from the stock; see `Stock` in stock.py for what there is.
    """

    name: str
    arguments: tuple[str, ...]
    needs: tuple[str, ...] = ()
    """Names in the stock, besides those that are arguments."""
    change: Change = lambda folder: None
    """What is done to the folder before the program starts."""
    stdin: bytes = b""
    codes: frozenset[int] = DOCUMENTED
    says: str = ""
    """A regular expression that is to be found on standard error."""
    targets: tuple[str, ...] = ()
    """Names in the folder that the command may make or change."""
    rows: int | None = None
    """Lines of standard output where every line of input has been answered."""
    silent: bool = False
    """Nobody can read its messages: standard error is closed, or full."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Fields of `Start` in fork_programs.py: environment, limits, descriptors."""

    def ending(self, *codes: int, says: str = "") -> "Case":
        """The same case, with what it has to end with."""
        return replace(self, codes=frozenset(codes), says=says)


def translate(
    name: str, *options: str, model: str = "model", stdin: bytes = SENTENCES, **others: Any
) -> Case:
    """Translate lines, each of which is to have its line of output."""
    arguments = ("translate", model, *options)
    return Case(name, arguments, stdin=stdin, **{"rows": num_lines(stdin)} | others)


def parse(name: str, *options: str, model: str = "parser", stdin: bytes = SENTENCES, **others: Any) -> Case:
    """Parse lines, each of which is to have its line of output."""
    return Case(name, ("parse", model, *options), stdin=stdin, **{"rows": num_lines(stdin)} | others)


def prepare(name: str, *options: str, **others: Any) -> Case:
    """Prepare data in a new folder."""
    return Case(name, ("prepare", "new", *options), **{"targets": ("new",)} | others)


def train(name: str, *options: str, **others: Any) -> Case:
    """Train a new run on the stock's data."""
    arguments = ("train", "new", "--data", "data", "--config", "config.toml", *options)
    return Case(name, arguments, **{"targets": ("new",)} | others)


def resume(name: str, *options: str, **others: Any) -> Case:
    """Go on with the stock's run for two more steps."""
    arguments = ("train", "run", "--data", "data", "--resume", "--steps", "6", *options)
    return Case(name, arguments, **{"targets": ("run",)} | others)


def num_lines(text: bytes) -> int:
    """Lines as the program counts them: a last piece without a line feed is one."""
    return text.count(b"\n") + bool(text.rpartition(b"\n")[2])
