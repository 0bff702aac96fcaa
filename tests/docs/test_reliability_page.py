"""Each promise of `docs/reliability.md` has tests, which name it in their docstring: `Promise: Kills.`

The table of them is generated: `python tests/docs/test_reliability_page.py` writes it.
"""

import ast
import functools
import re
from collections.abc import Iterator
from pathlib import Path

TESTS = Path(__file__).parents[1]
DOCS = TESTS.parent / "docs"
TABLE = DOCS / "reliability-tests.md"
_INTRODUCTION = """\
# The tests of reliability

The tests that hold each [promise](reliability.md). Where a test differs in one count between `make test` and
`make test-release`, both are shown.

| promise | test | in | counts |
|---|---|---|---|
"""
_PROMISE = re.compile(r"^- \*\*(.+)\.\*\* ", re.MULTILINE)
_HOLDS = re.compile(r"^ *Promise: (.+)\.$", re.MULTILINE)

Held = tuple[str, Path, ast.FunctionDef | None]
"""A promise, a file, and the test in it; None if all its tests hold the promise."""


def promises() -> list[str]:
    return _PROMISE.findall((DOCS / "reliability.md").read_bytes().decode())


@functools.cache
def held() -> list[Held]:
    """What docstrings of tests name."""
    return [*read_docstrings()]


def read_docstrings() -> Iterator[Held]:
    for file in sorted(TESTS.rglob("test_*.py")):
        if b"Promise: " not in (source := file.read_bytes()):
            continue
        module = ast.parse(source)
        nodes: list[ast.Module | ast.FunctionDef] = [module, *functions(module)]
        for node in nodes:
            for promise in _HOLDS.findall(ast.get_docstring(node) or ""):
                yield promise, file, node if isinstance(node, ast.FunctionDef) else None


def functions(module: ast.Module) -> list[ast.FunctionDef]:
    return [
        each for each in module.body if isinstance(each, ast.FunctionDef) and each.name.startswith("test_")
    ]


def counts(function: ast.FunctionDef) -> str:
    """The numbers of `parametrize("count", [6, pytest.param(50, marks=pytest.mark.release)])`."""
    decorators = [ast.unparse(each) for each in function.decorator_list]
    found = (
        re.search(r"\[(\d+), pytest\.param\((\w+), marks=pytest\.mark\.release", each) for each in decorators
    )
    for few, many in (match.groups() for match in found if match):
        return f"{int(few):,}, {'all' if many == 'None' else f'{int(many):,}'}"
    return "release only" if "pytest.mark.release" in decorators else ""


def page() -> str:
    def row(promise: str, file: Path, test: ast.FunctionDef | None) -> str:
        name = test.name.removeprefix("test_").replace("_", " ") if test else "all"
        return (
            f"| {promise} | {name} | `{file.relative_to(TESTS.parent)}` | {counts(test) if test else ''} |\n"
        )

    order = {promise: position for position, promise in enumerate(promises())}
    return _INTRODUCTION + "".join(row(*each) for each in sorted(held(), key=lambda each: order[each[0]]))


def test_every_promise_has_tests_and_every_test_names_a_promise_of_the_page() -> None:
    assert len(promises()) == len({*promises()}) > 20
    assert {promise for promise, _, _ in held()} == {*promises()}


def test_every_test_of_reliability_and_of_the_siege_holds_a_promise() -> None:
    holding = {(file, test.name) for _, file, test in held() if test}
    files = [file for folder in ("reliability", "siege") for file in (TESTS / folder).glob("test_*.py")]
    there = {(file, test.name) for file in files for test in functions(ast.parse(file.read_bytes()))}
    assert len(there) > 40
    assert sorted(there - holding) == []


def test_the_table_is_that_of_the_tests() -> None:
    assert TABLE.read_bytes().decode() == page(), "run python tests/docs/test_reliability_page.py"


if __name__ == "__main__":
    TABLE.write_bytes(page().encode())
