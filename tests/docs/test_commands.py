"""Every command line in README, docs and the commands' own help can be typed as it stands there."""

import functools
import operator
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from allyouneed.interfaces.cli import COMMANDS, app
from allyouneed.interfaces.configuration import one_setting_each

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
_BLOCK = re.compile(r"^```\w*\n(.*?)^```", re.MULTILINE | re.DOTALL)
_ROW = re.compile(r"^\| `(allyouneed [^`]+)`", re.MULTILINE)
_COMMAND = re.compile(rf"(?:^|[|;(]|\s)(allyouneed (?:{'|'.join(COMMANDS)})\b[^|;<>)#]*)")


def command_lines(text: str) -> Iterator[str]:
    """The calls of the program in a page's code blocks and tables, without pipes and redirections."""
    for block in [*_BLOCK.findall(text), *_ROW.findall(text)]:
        for line in block.replace("\\\n", " ").split("\n"):
            yield from (found.strip() for found in _COMMAND.findall(line.removeprefix("$ ")))


def parse(line: str) -> None:
    """Raise what is wrong with a command line."""
    tokens = [*one_setting_each(shlex.split(line)[1:])]
    app.parse_args(tokens, print_error=False, exit_on_error=False)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_commands_on_the_page_are_valid(page: Path) -> None:
    lines = list(command_lines(page.read_bytes().decode()))
    assert lines or page.name != "README.md"
    for line in lines:
        parse(line)


@pytest.mark.parametrize("name", [*COMMANDS, "bench train", "bench translate"])
def test_examples_in_the_help_of_a_command_are_valid(name: str) -> None:
    command = functools.reduce(operator.getitem, name.split(), app)
    lines = list(command_lines(re.sub("^ +", "", command.help or "", flags=re.MULTILINE)))
    assert lines, "the help of a command shows how it is used"
    for line in lines:
        parse(line)


def test_an_option_that_does_not_exist_is_found() -> None:
    (line,) = command_lines("```\ncat x | allyouneed translate model --beam 4 > y\n```\n")
    assert line == "allyouneed translate model --beam 4"
    with pytest.raises(Exception, match="--beam"):
        parse(line)
