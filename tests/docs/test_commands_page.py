"""The page of all commands is their `--help`: `python tests/docs/test_commands_page.py` writes it."""

import re
from pathlib import Path

from allyouneed.cli.program import app

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "commands.md"
_INTRODUCTION = """\
# Commands

Every command, with its arguments and options, as `--help` prints them. Output goes to stdout, messages to
stderr. Bad input gives one line that says what is wrong, where, and what to do, and an
[exit code](troubleshooting.md#exit-codes).
"""
_MOST_CHARACTERS_OF_README = 6_500


def page() -> str:
    """The page, from the help texts of the program."""
    app["bench"].default_parameter = app.default_parameter  # which generate_docs hands down one level only
    text = app.generate_docs()
    overview, commands = text[text.index("**Commands**:") :].split("\n## ", 1)
    commands = re.sub(r"\*\*Options of every command\*\*:\n\n(\* .*\n)+\n*", "", f"\n## {commands}\n")
    # under `python -m pytest`, cyclopts takes "-m pytest" for a part of the program's name
    commands = re.sub(r"```console\n(.+)\n```", r"Usage: `\1`", commands).replace(" -m pytest [", " [")
    body = re.sub(
        r"\n {3,}(?=\S)", " ", f"{_INTRODUCTION}\n{overview}{commands}".rstrip()
    )  # one line an option
    body = re.sub(r"docs/([\w-]+)\.md", r"[\1](\1.md)", body)
    return (
        re.sub(r"^(#+) allyouneed (.+)$", r"\1 \2", body, flags=re.MULTILINE).replace("(#allyouneed-", "(#")
        + "\n"
    )


def test_the_page_has_every_command_as_its_help_explains_it() -> None:
    assert PAGE.read_bytes().decode() == page(), "run python tests/docs/test_commands_page.py"


def test_readme_is_short_and_leaves_most_commands_to_the_page() -> None:
    readme = (ROOT / "README.md").read_bytes().decode()
    assert len(readme) <= _MOST_CHARACTERS_OF_README
    assert len(re.findall(r"^\| `allyouneed ", readme, re.MULTILINE)) == 8
    assert "(docs/commands.md)" in readme


if __name__ == "__main__":
    PAGE.write_bytes(page().encode())
