"""No test of `make test` judges by the clock: what passes on one machine has to pass on a slow and busy one.

What measures speed is in `benchmarks/`; a test counts work in its place. What waits does so by `patience.py`.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
WAITING = {TESTS / "patience.py", TESTS / "forking" / "fork_programs.py", TESTS / "http_load.py"}
"""Files that read a clock, to end what hangs; the second also lets the clocks of programs leap, and the third
measures what only the release tier and benchmarks look at."""

_NAMES = (
    "perf_counter",
    "monotonic",
    "process_time",
    "thread_time",
    "time",
    "clock_gettime",
    "times",
    "getrusage",
)
CLOCKS = {*_NAMES, *(f"{name}_ns" for name in _NAMES)}
MODULES = {"time", "os", "resource", "timeit"}
CLOCKS_OF_BROWSERS = "performance.now", "performance.getEntries", "TaskDuration", "Date.now"
TIME_OUTS = {"timeout", "seconds"}
"""Arguments that are time-outs; so is every one whose name ends in `_seconds`, except:"""
SETTINGS = {
    *("header_seconds", "body_seconds", "idle_seconds", "request_seconds", "most_wait_seconds"),
    *("drain_seconds", "pause_seconds", "every_seconds", "budget_seconds", "planned_seconds", "ramp_seconds"),
}
"""Settings of what is tested, and pauses, which may be as short as they like."""
SHORTEST_TIME_OUT_SECONDS = 60.0


def clocks(source: str) -> list[str]:
    """What in a test file depends on how fast the machine is, with its line."""
    tree = ast.parse(source)
    texts = {id(part) for node in ast.walk(tree) for part in _docstring(node)}
    found = [*_in_functions(tree, is_release=False)]
    for node in ast.walk(tree):
        match node:
            case ast.Attribute(value=ast.Name(id=module), attr=name) if module in MODULES and name in CLOCKS:
                found.append((node.lineno, f"{module}.{name}"))
            case ast.ImportFrom(module=module) if module in MODULES:
                found += [(node.lineno, f"{module}.{a.name}") for a in node.names if a.name in CLOCKS]
            case ast.Import():
                found += [(node.lineno, "timeit") for a in node.names if a.name == "timeit"]
            case ast.Constant(value=str(text)) if id(node) not in texts:
                found += [(node.lineno, clock) for clock in CLOCKS_OF_BROWSERS if clock in text]
            case ast.keyword(arg="deadline", value=value) if not _is_none(value):
                found.append((value.lineno, "a deadline of hypothesis"))
            case _:
                pass
    return [f"line {line}: {what}" for line, what in sorted(found)]


def _in_functions(node: ast.AST, *, is_release: bool) -> Iterator[tuple[int, str]]:
    """Short time-outs; of tests of the release tier they may be promises."""
    if isinstance(node, ast.FunctionDef):
        is_release = is_release or any("release" in ast.unparse(mark) for mark in node.decorator_list)
    if isinstance(node, ast.keyword) and _is_time_out(node.arg or "") and not is_release:
        seconds = node.value.value if isinstance(node.value, ast.Constant) else None
        if isinstance(seconds, int | float) and seconds < SHORTEST_TIME_OUT_SECONDS:
            yield node.value.lineno, f"a time-out of {seconds} s"
    for child in ast.iter_child_nodes(node):
        yield from _in_functions(child, is_release=is_release)


def _is_time_out(name: str) -> bool:
    return name in TIME_OUTS or (name.endswith("_seconds") and name not in SETTINGS)


def _docstring(node: ast.AST) -> Iterator[ast.AST]:
    if isinstance(node, ast.Module | ast.FunctionDef | ast.ClassDef) and ast.get_docstring(node):
        yield from ast.walk(node.body[0])


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


FILES = sorted(set(TESTS.rglob("*.py")) - WAITING - {Path(__file__)})


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(TESTS)))
def test_no_file_reads_a_clock(file: Path) -> None:
    assert clocks(file.read_bytes().decode()) == []


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("import time\nbegan = time.perf_counter()", "line 2: time.perf_counter"),
        ("from time import monotonic_ns", "line 1: time.monotonic_ns"),
        ("import timeit", "line 1: timeit"),
        ("page.evaluate('performance.now()')", "line 1: performance.now"),
        ("@settings(deadline=200)\ndef test_it(): ...", "line 1: a deadline of hypothesis"),
        ("process.wait(timeout=30)", "line 1: a time-out of 30 s"),
        ("def test_it():\n    wait_until(done, seconds=5)", "line 2: a time-out of 5 s"),
        ("start(ready_seconds=5)", "line 1: a time-out of 5 s"),
    ],
)
def test_what_depends_on_the_speed_of_the_machine_is_found(source: str, found: str) -> None:
    assert clocks(source) == [found]


@pytest.mark.parametrize(
    "source",
    [
        '"""It took time.perf_counter() or performance.now()."""',
        "time.sleep(1)",
        "@settings(deadline=None)\ndef test_it(): ...",
        "process.wait(timeout=PATIENCE_SECONDS)",
        "ServerSettings(header_seconds=0.2)",
        "@pytest.mark.release\ndef test_it():\n    wait_until(done, seconds=5)",
    ],
)
def test_what_does_not_is_left_alone(source: str) -> None:
    assert clocks(source) == []
