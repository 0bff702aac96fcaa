"""The chapters of `docs/learn`: pages whose Python runs, and shows code of the package by its name.

A block `python source` imports names, and the site shows their definitions there; expressions behind the
imports, such as `SelfAttention.forward`, say which parts. A block `python exercise` is for the reader,
`python check` judges it, and `python solution` passes. A block `text` behind one of Python is what that one
prints, and a picture behind it is what that one draws.

`python -m tests.docs.chapters notebooks OUT` writes notebooks, and `pictures` draws the pictures. This module
is also an extension of Python-Markdown, by which the site shows the definitions.
"""

import ast
import contextlib
import importlib
import io
import itertools
import json
import operator
import re
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).parents[2]
LEARN = ROOT / "docs" / "learn"
_BLOCK = re.compile(
    r"^```python(?: (?P<kind>\w+))?\n(?P<code>.*?)^```\n"
    r"(?:\n```text\n(?P<output>.*?)^```\n)?(?:\n!\[[^\]]*\]\((?P<picture>[\w./-]+)\)\n)?",
    re.MULTILINE | re.DOTALL,
)


class Block(NamedTuple):
    """Python code of a page."""

    kind: str
    """`source`, `exercise`, `check` or `solution`; empty for code that just runs."""
    code: str
    output: str | None
    picture: str | None
    line: int


def chapters() -> list[Path]:
    """The pages of the chapters, in the order of their numbers."""
    return sorted(LEARN.glob("[0-9]-*.md"))


def blocks(text: str) -> Iterator[Block]:
    """The blocks of Python code of a page."""
    for found in _BLOCK.finditer(text):
        line = text.count("\n", 0, found.start("code"))
        yield Block(found["kind"] or "", found["code"], found["output"], found["picture"], line)


def run(page: Path, pictures: Path | None = None) -> int:
    """Run a chapter, and return its number of exercises, each of which fails its check until it is solved.

    Args:
        page: The page.
        pictures: Folder to write pictures into; default: none are written.
    """
    import matplotlib.pyplot as plt

    namespace: dict[str, Any] = {"__name__": page.stem}
    check, num_exercises = None, 0
    plt.close("all")
    for block in blocks(page.read_bytes().decode()):
        code = compile("\n" * block.line + block.code, page, "exec")
        if block.kind == "check":
            check, num_exercises = code, num_exercises + 1
            require_failure(page, code, namespace)
            continue
        printed = executed(code, namespace)
        if block.kind == "solution":
            assert check is not None, f"{page}:{block.line}: a solution without a check"
            executed(check, namespace)
        if block.output is not None:
            assert printed == block.output, f"{page}:{block.line}: prints\n{printed}"
        if block.picture:
            assert plt.gcf().axes, f"{page}:{block.line}: draws no picture"
            assert (page.parent / block.picture).is_file() or pictures, f"{block.picture}: is not there"
            if pictures:
                plt.savefig(pictures / Path(block.picture).name, dpi=100, bbox_inches="tight")
        plt.close("all")
    return num_exercises


def executed(code: Any, namespace: dict[str, Any]) -> str:
    """Run code; return what it prints."""
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        exec(code, namespace)
    return printed.getvalue()


def require_failure(page: Path, check: Any, namespace: dict[str, Any]) -> None:
    """Run a check of an exercise that nobody has done."""
    try:
        executed(check, namespace)
    except Exception:
        return
    raise AssertionError(f"{page}: the check of an exercise passes before it is done")


def anchors(code: str) -> Iterator[tuple[str, str]]:
    """The module and name of each definition that a block `source` shows."""
    body = ast.parse(code).body
    modules = {
        alias.name: each.module for each in body if isinstance(each, ast.ImportFrom) for alias in each.names
    }
    for name in [ast.unparse(each.value) for each in body if isinstance(each, ast.Expr)] or modules:
        yield modules[name.split(".")[0]] or "", name


def definition(module: str, name: str) -> str:
    """The source of a function, class, method or constant; raises LookupError if there is none."""
    text = (ROOT / "src" / module.replace(".", "/")).with_suffix(".py").read_bytes().decode()
    node: Any = ast.parse(text)
    for part in name.split("."):
        found = [each for each in node.body if part in names_of(each)]
        if not found:
            raise LookupError(f"{module} has no {name}")
        node = found[0]
    first = min([node.lineno, *(each.lineno for each in getattr(node, "decorator_list", []))])
    return textwrap.dedent("\n".join(text.split("\n")[first - 1 : node.end_lineno]))


def names_of(node: ast.stmt) -> list[str]:
    """The names that a statement defines."""
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        return [node.name]
    targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
    return [target.id for target in targets if isinstance(target, ast.Name)]


def shown(code: str) -> str:
    """The definitions that a block `source` shows, under the names of their files."""
    parts = []
    for module, of_module in itertools.groupby(anchors(code), key=operator.itemgetter(0)):
        found = (f"# {name}\n" * ("." in name) + definition(module, name) for _, name in of_module)
        parts.append(f"# {module.replace('.', '/')}.py\n" + "\n\n".join(found))
    return "\n\n".join(parts)


def with_sources(text: str) -> str:
    """A page with the definitions in place of the blocks `source`, and plain fences."""

    def plain(found: re.Match[str]) -> str:
        code = shown(found["code"]) + "\n" if found["kind"] == "source" else found["code"]
        return found[0].replace(found["code"], code, 1).replace(f"```python {found['kind']}", "```python", 1)

    return _BLOCK.sub(plain, text)


def notebook(text: str) -> dict[str, Any]:
    """The notebook of a page; the definitions are text in front of the cells that import them."""
    cells, behind = list[dict[str, Any]](), 0

    def add(kind: str, content: str) -> None:
        if content.strip():
            cell: dict[str, Any] = {"cell_type": kind, "id": f"cell-{len(cells)}", "metadata": {}}
            if kind == "code":
                cell |= {"outputs": [], "execution_count": None}
            cells.append(cell | {"source": content.strip("\n").splitlines(keepends=True)})

    for found in _BLOCK.finditer(text):
        if found["kind"] == "solution":
            continue
        before = text[behind : found.start()]
        add("markdown", with_sources(before + (found[0] if found["kind"] == "source" else "")))
        add("code", found["code"])
        behind = found.end()
    add("markdown", with_sources(text[behind:]))
    kernel = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
    return {"cells": cells, "metadata": kernel, "nbformat": 4, "nbformat_minor": 5}


def write_notebooks(out: Path) -> None:
    """Write each chapter as a notebook."""
    out.mkdir(parents=True, exist_ok=True)
    for page in chapters():
        content = json.dumps(notebook(page.read_bytes().decode()), indent=1, ensure_ascii=False) + "\n"
        (out / f"{page.stem}.ipynb").write_bytes(content.encode())


def makeExtension(**_: Any) -> Any:
    """The extension of Python-Markdown, by the name that it looks for."""
    markdown, preprocessors = map(importlib.import_module, ("markdown", "markdown.preprocessors"))

    def show_sources(self: Any, lines: list[str]) -> list[str]:
        return with_sources("\n".join(lines)).split("\n")

    def register(self: Any, md: Any) -> None:
        md.preprocessors.register(sources(md), "chapters", 100)  # before the fences

    sources = type("Sources", (preprocessors.Preprocessor,), {"run": show_sources})
    return type("Chapters", (markdown.Extension,), {"extendMarkdown": register})()


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    if sys.argv[1] == "notebooks":
        write_notebooks(Path(sys.argv[2]))
    else:
        for page in chapters():
            run(page, ROOT / "docs" / "pictures" / "learn")
