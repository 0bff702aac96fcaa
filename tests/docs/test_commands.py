"""What README, docs and the help of commands name is there: command lines, flags, files."""

import functools
import operator
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from allyouneed.cli.program import COMMANDS, app, one_setting_each

BENCHES = "train", "translate"
ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "allyouneed"
PAGES = [
    *(ROOT / f"{name}.md" for name in ("README", "CONTRIBUTING", "CHANGELOG")),
    *sorted((ROOT / "docs").rglob("*.md")),
]
_BLOCK = re.compile(r"^```\w*\n(.*?)^```", re.MULTILINE | re.DOTALL)
_ROW = re.compile(r"^\| `(allyouneed [^`]+)`", re.MULTILINE)
_COMMAND = re.compile(rf"(?:^|[|;(]|\s)(allyouneed (?:{'|'.join(COMMANDS)})\b[^|;<>)#]*)")
_CODE = re.compile(r"`([^`\n]+)`")
_FLAG = re.compile(r"(?<![\w-])--[a-z][\w-]*")
_NAMED = re.compile(r"allyouneed ([a-z]\w*)\b(?! \d)")  # not the names of formats, `allyouneed attention 1`
_FILE = re.compile(r"(?:[\w.-]+/)*[\w.-]+\.(?:py|c|h)|(?:docs|tests|src|benchmarks|\.ci)/[\w./-]+")
_OF_OTHERS = {"--nproc-per-node", "--max-restarts", "--parents", "--horizontal", "--cpuset-cpus"}
"""Flags of torchrun and Docker, and of scripts of others that the pages name."""


def command_lines(text: str) -> Iterator[str]:
    """The calls of the program in a page's code blocks and tables, without pipes and redirections."""
    for block in [*_BLOCK.findall(text), *_ROW.findall(text)]:
        for line in block.replace("\\\n", " ").split("\n"):
            yield from (found.strip() for found in _COMMAND.findall(line.removeprefix("$ ")))


def parse(line: str) -> None:
    """Raise what is wrong with a command line."""
    tokens = [*one_setting_each(shlex.split(line)[1:])]
    app.parse_args(tokens, print_error=False, exit_on_error=False)


@pytest.mark.parametrize(
    "page",
    [page for page in PAGES if page.name != "commands.md"],  # its examples are those of the help, see below
    ids=lambda page: str(page.relative_to(ROOT)),
)
def test_commands_on_the_page_are_valid(page: Path) -> None:
    lines = list(command_lines(page.read_bytes().decode()))
    assert lines or page.name != "README.md"
    for line in lines:
        parse(line)


@functools.cache
def flags() -> set[str]:
    """Every flag of the program and its commands."""
    commands = [
        app.meta,
        *(app[name] for name in COMMANDS if name != "bench"),
        *map(app["bench"].__getitem__, BENCHES),
    ]
    of_commands = (argument.names for each in commands for argument in each.assemble_argument_collection())
    return {*app.help_flags, *app.version_flags}.union(*of_commands)


def not_there(prose: str) -> list[str]:
    """What inline code names and the project does not have: commands, flags, and files."""
    found = []
    for code in _CODE.findall(prose):
        found += [flag for flag in _FLAG.findall(code) if flag not in flags() | _OF_OTHERS]
        found += [name for name in _NAMED.findall(code)[:1] if name not in COMMANDS]
        found += [code] * bool(_FILE.fullmatch(code) and not is_file(code))
    return found


def is_file(name: str) -> bool:
    """Whether the project has such a file or folder, below its root or anywhere in the package."""
    return any((folder / name).exists() for folder in (ROOT, PACKAGE)) or any(PACKAGE.rglob(name))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_what_prose_names_is_there(page: Path) -> None:
    assert not_there(_BLOCK.sub("", page.read_bytes().decode())) == []


def test_what_prose_names_and_is_not_there_is_found() -> None:
    assert not_there("`allyouneed serv`, `--beam 4`, `docs/none.md`, `model/nothing.py`") == [
        *("serv", "--beam", "docs/none.md", "model/nothing.py")
    ]
    assert not_there("`allyouneed translate`, `--beam-size 4`, `docs/start.md`, `model/layers.py`") == []


@pytest.mark.parametrize("name", [*COMMANDS, *(f"bench {name}" for name in BENCHES)])
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
