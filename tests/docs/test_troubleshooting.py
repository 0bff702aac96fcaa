"""The messages that `docs/troubleshooting.md` explains are messages of the program."""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]


def sources() -> str:
    """All texts in the sources, those in parts joined, with `..` for what is filled in."""
    texts = []
    for path in (ROOT / "src").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_bytes())):
            if isinstance(node, ast.JoinedStr):
                parts = [part.value if isinstance(part, ast.Constant) else ".." for part in node.values]
                texts.append("".join(map(str, parts)))
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                texts.append(node.value)
    return "\n".join(texts)


def test_every_message_is_one_of_the_program() -> None:
    page = (ROOT / "docs" / "troubleshooting.md").read_bytes().decode()
    section = page.partition("## By message")[2].partition("\n## ")[0]
    messages = re.findall(r"^\| `(.+?)` \|", section, re.MULTILINE)
    assert len(messages) > 15
    known = sources()
    for message in messages:
        parts = [part.strip(" ;.") for part in message.split("..") if part.strip(" ;.,")]
        assert [part for part in parts if part not in known] == [], message
