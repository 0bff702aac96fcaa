"""The shape of the code, read from its syntax trees: what imports what, what is never called, its size."""

import ast
import functools
import graphlib
import itertools
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

import allyouneed
from allyouneed.tasks.catalogue import TASKS

ROOT = "allyouneed"
CONTRIBUTING = Path(__file__).parents[1] / "CONTRIBUTING.md"

LAYERS = """
cli
serve | lab
interop, cost
runs, preparation
files
terms
tasks
training | inference | markup
explorer, native, model | data | evaluation
storage, hardware
config
errors, language_codes, symbols, version
"""
"""From the top down: a row may import those below it, and neighbours behind a comma, but not behind a bar."""

TEXT_ONLY = {"data", "evaluation"}
UNSAFE_MODULES = {"pickle", "cPickle", "cloudpickle", "dill", "joblib", "marshal", "shelve"}
UNSAFE_BUILTINS = {"eval", "exec", "compile", "__import__"}
UNSAFE_METHODS = {"splitlines", "extractall", "read_text", "write_text"}
UNSAFE_FUNCTIONS = {("torch", "load"), ("torch", "save"), ("os", "system"), ("os", "popen")}
BINARY_BY_DEFAULT = {"os", "gzip", "bz2", "lzma", "zstandard"}
VAGUE_NAMES = ("util", "utils", "helper", "helpers", "common", "misc", "manager")
FRAGMENT = re.compile(
    r"\A\s*(Of|That|Those|Likewise|And|As of)\b|^ +\*{0,2}\w+: (Of|That|Likewise|As of)\b", re.MULTILINE
)
FLAG = re.compile(r"(?<![\w-])--[a-z]")
WHOLE_COMMAND = re.compile(r"`allyouneed [^`]*(?:`|$)")  # to its end, or to a gap of an f-string
MAX_FILE_LINES = 450
MAX_FUNCTION_LINES = 60

SHARED_NAMES = {"__init__.py", "task.py"}
"""Names of several files: each folder of a task has the definition of the task in a file of one name."""

Sources = Mapping[str, str]
"""Module name -> source text; the name of a package's `__init__` ends in `.__init__`."""


def package() -> Sources:
    folder = Path(allyouneed.__file__).parent
    paths = folder.rglob("*.py")
    return {
        ".".join((ROOT, *path.relative_to(folder).with_suffix("").parts)): path.read_text("utf-8")
        for path in paths
    }


@functools.cache
def tree_of(source: str) -> ast.Module:
    return ast.parse(source)


def allowed_units(unit: str) -> set[str]:
    rows = LAYERS.strip().split("\n")
    units = [set(row.replace("|", ",").replace(" ", "").split(",")) for row in rows]
    for row, members in enumerate(units):
        if unit in members:
            return ({unit} if "|" in rows[row] else members).union(*units[row + 1 :])
    return set()


def unit_of(module: str) -> str:
    return module.split(".")[1] if "." in module else "__init__"


def imported_names(module: str, source: str) -> Iterator[str]:
    """Every name that is imported, in full: `from a.b import c` gives `a.b.c`."""
    for node in ast.walk(tree_of(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = module.split(".")[: -node.level] if node.level else []
            yield from (".".join((*base, *filter(None, [node.module]), alias.name)) for alias in node.names)


def imported_modules(module: str, sources: Sources) -> set[str]:
    """The modules of ours that a module imports from."""
    ours = (name for name in imported_names(module, sources[module]) if name.split(".")[0] == ROOT)
    return {found for name in ours if (found := defining_module(name, sources)) != module}


def defining_module(name: str, sources: Sources) -> str:
    """The module that holds the imported name: a module itself, or the longest prefix that is one."""
    parts = name.split(".")
    prefixes = [".".join(parts[:length]) for length in range(len(parts), 0, -1)]
    candidates = itertools.chain.from_iterable((prefix, f"{prefix}.__init__") for prefix in prefixes)
    return next((found for found in candidates if found in sources), name)


def upward_imports(sources: Sources) -> list[str]:
    inner = [module for module in sources if unit_of(module) not in ("__init__", "__main__")]
    return [
        f"{module} imports {target}"
        for module in inner
        for target in imported_modules(module, sources)
        if unit_of(target) not in allowed_units(unit_of(module))
    ]


def import_cycles(sources: Sources) -> list[str]:
    graph = {module: imported_modules(module, sources) for module in sources}
    try:
        graphlib.TopologicalSorter(graph).prepare()
    except graphlib.CycleError as error:
        return [" -> ".join(error.args[1])]
    return []


def torch_where_there_is_only_text(sources: Sources) -> list[str]:
    return [
        f"{module} imports {name}"
        for module, source in sources.items()
        if unit_of(module) in TEXT_ONLY
        for name in imported_names(module, source)
        if name.split(".")[0] == "torch"
    ]


def unsafe_code(sources: Sources) -> list[str]:
    faults = [
        f"{module} imports {name}"
        for module, source in sources.items()
        for name in imported_names(module, source)
        if name.split(".")[0] in UNSAFE_MODULES
    ]
    calls = ((m, node) for m, source in sources.items() for node in ast.walk(tree_of(source)))
    return faults + [
        f"{module}:{node.lineno} calls {ast.unparse(node)}"
        for module, node in calls
        if isinstance(node, ast.Call) and is_unsafe(node)
    ]


def is_unsafe(call: ast.Call) -> bool:
    keywords = {keyword.arg: ast.unparse(keyword.value) for keyword in call.keywords}
    if keywords.get("shell") == "True" or keywords.get("allow_pickle") == "True":
        return True
    match call.func:
        case ast.Name(id="open"):
            return not is_binary(call, position=1)
        case ast.Name(id=name):
            return name in UNSAFE_BUILTINS
        case ast.Attribute(value=ast.Name(id=owner), attr="open") if owner in BINARY_BY_DEFAULT:
            return any(isinstance(a, ast.Constant) and "t" in str(a.value) for a in call.args[1:2])
        case ast.Attribute(attr="open"):
            return not is_binary(call, position=0)
        case ast.Attribute(value=ast.Name(id="publish"), attr="write_text"):
            return False
        case ast.Attribute(value=ast.Name(id=owner), attr=name):
            return (owner, name) in UNSAFE_FUNCTIONS or name in UNSAFE_METHODS
        case ast.Attribute(attr=name):
            return name in UNSAFE_METHODS
    return False


def is_binary(call: ast.Call, *, position: int) -> bool:
    given = [*call.args[position : position + 1], *(k.value for k in call.keywords if k.arg == "mode")]
    return bool(given) and isinstance(given[0], ast.Constant) and "b" in str(given[0].value)


def undocumented_modules(sources: Sources) -> list[str]:
    return [module for module, source in sources.items() if not ast.get_docstring(tree_of(source))]


def packages_with_code(sources: Sources) -> list[str]:
    """Every `__init__` holds a docstring and imports alone; but the root's may load its names lazily."""
    inner = {module: source for module, source in sources.items() if module.endswith(".__init__")}
    return [
        f"{module}:{node.lineno} {ast.unparse(node)}"
        for module, source in inner.items()
        if module != f"{ROOT}.__init__"
        for node in tree_of(source).body[1:]
        if not isinstance(node, ast.ImportFrom) and not ast.unparse(node).startswith("__all__ =")
    ]


def fragments(sources: Sources) -> list[str]:
    """Docstrings, and descriptions of arguments, that go on from a name in place of saying what it is."""
    texts = [
        (module, node.lineno, node.value.value)
        for module, source in sources.items()
        for node in ast.walk(tree_of(source))
        if isinstance(node, ast.Expr)
        if isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
    ]
    return [f"{module}:{line} {text[:40]}" for module, line, text in texts if FRAGMENT.search(text)]


def flags_below_the_commands(sources: Sources) -> list[str]:
    """Texts that name a flag below `cli/` and `serve/`, where there are only settings.

    Docstrings may, and so may whole commands: `allyouneed ...` in backticks.
    """
    return [
        f"{module}:{text.lineno} {text.value[:60]}"
        for module, source in sources.items()
        if unit_of(module) not in ("cli", "serve", "__main__")
        for node in ast.walk(tree_of(source))
        if not isinstance(node, ast.Expr)
        for text in ast.iter_child_nodes(node)
        if isinstance(text, ast.Constant)
        and isinstance(text.value, str)
        and FLAG.search(WHOLE_COMMAND.sub("", text.value))
    ]


def oversized(sources: Sources) -> list[str]:
    files = [
        f"{m} has {len(s.split(chr(10)))} lines" for m, s in sources.items() if s.count("\n") > MAX_FILE_LINES
    ]
    return files + [
        f"{module}.{node.name} has {lines} lines"
        for module, source in sources.items()
        for node in ast.walk(tree_of(source))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        if (lines := (node.end_lineno or node.lineno) - node.lineno + 1) > MAX_FUNCTION_LINES
    ]


def vague_names(sources: Sources) -> list[str]:
    modules = [module for module in sources if set(module.split(".")) & set(VAGUE_NAMES)]
    classes = [
        f"{module}.{node.name}"
        for module, source in sources.items()
        for node in ast.walk(tree_of(source))
        if isinstance(node, ast.ClassDef) and node.name.lower().endswith(VAGUE_NAMES)
    ]
    return modules + classes


def names_that_occur_twice(sources: Sources) -> list[str]:
    """Public classes, and files, that have the name of an earlier one."""
    seen, again = set[str](), list[str]()
    for module, source in sources.items():
        classes = [node.name for node in tree_of(source).body if isinstance(node, ast.ClassDef)]
        file = module.rpartition(".")[2] + ".py"
        for name in [*(name for name in classes if not name.startswith("_")), file]:
            if name in seen and name not in SHARED_NAMES:
                again.append(f"{module}: {name}")
            seen.add(name)
    return again


def tasks_told_apart_by_name(sources: Sources) -> list[str]:
    """Comparisons and look-ups by the name of a task, which belong to the task's folder."""
    return [
        f"{module}:{node.lineno} {ast.unparse(node)}"
        for module, source in sources.items()
        if unit_of(module) != "tasks"
        for node in ast.walk(tree_of(source))
        if isinstance(node, ast.Compare | ast.Dict | ast.Subscript)
        for part in ast.iter_child_nodes(node)
        if isinstance(part, ast.Constant) and part.value in TASKS and not is_value(node, part)
    ]


def is_value(node: ast.AST, part: ast.AST) -> bool:
    """Whether a dictionary has it as a value: a setting that names a task."""
    return isinstance(node, ast.Dict) and part in node.values


CHECKS = {
    upward_imports: {
        "allyouneed.model.attention": "from allyouneed.data import batch_plans",
        "allyouneed.training.trainer": "def f():\n    from allyouneed.inference.search import BeamSearch",
        "allyouneed.config.run": "import allyouneed.storage.checkpoint",
        "allyouneed.errors": "from allyouneed import load",
    },
    import_cycles: {
        "allyouneed.model.__init__": "from allyouneed.model.layers import Layer",
        "allyouneed.model.layers": "from allyouneed.model.masks import causal_mask",
        "allyouneed.model.masks": "from allyouneed.model import Layer",
    },
    names_that_occur_twice: {
        "allyouneed.data.lines": "class Line: pass",
        "allyouneed.lab.paper.lines": "",
        "allyouneed.cli.table": "class Line: pass\nclass _Line: pass",
    },
    torch_where_there_is_only_text: {
        "allyouneed.data.batch_plans": "import torch.nn as nn",
        "allyouneed.evaluation.bleu": "from torch import Tensor",
    },
    tasks_told_apart_by_name: {
        "allyouneed.training.trainer": 'x = 1 if config.data.task == "parsing" else 2',
        "allyouneed.config.presets": 'DEFAULTS = {"translation": "base"}',
    },
    undocumented_modules: {"allyouneed.config.run": "# no docstring\n", "allyouneed.data.__init__": ""},
    packages_with_code: {
        "allyouneed.data.__init__": '"""Text in."""\nLIMIT = 3',
        "allyouneed.model.__init__": '"""Tensors."""\ndef build(): ...',
    },
    fragments: {
        "allyouneed.config.run": 'threads: int\n"""That share a product."""',
        "allyouneed.config.presets": 'def f(path):\n    """Read.\n\n    Args:\n        path: Of it.\n    """',
    },
    flags_below_the_commands: {
        "allyouneed.config.run": 'raise UsageError("--beam-size 0: give 1 or more")',
        "allyouneed.lab.paper.table4": 'raise UsageError(f"{run}: go on with --resume")',
    },
    oversized: {
        "allyouneed.config.run": "\n" * (MAX_FILE_LINES + 1),
        "allyouneed.config.presets": "def base():\n" + "    x = 1\n" * MAX_FUNCTION_LINES,
    },
    vague_names: {
        "allyouneed.data.utils": "",
        "allyouneed.storage.checkpoint": "class CheckpointManager: ...",
    },
}
"""Each check, and small sources every one of which it must object to."""

UNSAFE = [
    "import pickle",
    "from joblib import load",
    "eval('1')",
    "exec(text)",
    "torch.load(path)",
    "np.load(path, allow_pickle=True)",
    "os.system('ls')",
    "subprocess.run(command, shell=True)",
    "text.splitlines()",
    "path.read_bytes().decode().splitlines()",
    "archive.extractall(folder)",
    "open(path)",
    "open(path, 'w')",
    "open(path, encoding='utf-8')",
    "path.open()",
    "(folder / 'x').open(mode='r')",
    "gzip.open(path, 'rt')",
    "codecs.open(path, 'r', 'utf-8')",
    "path.read_text()",
    "path.write_text('x')",
]

SAFE = [
    "open(path, 'rb')",
    "path.open('wb')",
    "path.open(mode='rb')",
    "gzip.open(path)",
    "os.open(path, os.O_RDONLY)",
    "text.split('\\n')",
    "safetensors.torch.load_file(path)",
    "write_text(path, text)",
    "publish.write_text(path, text)",
    "re.compile('x')",
    "model.eval()",
]


@pytest.mark.parametrize("check", [*CHECKS, unsafe_code], ids=lambda check: check.__name__)
def test_the_package_keeps_its_shape(check) -> None:  # type: ignore[no-untyped-def]
    assert check(package()) == []


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_each_check_objects_to_each_bad_source(check) -> None:  # type: ignore[no-untyped-def]
    bad = CHECKS[check]
    expected = {import_cycles: 1, names_that_occur_twice: 2}.get(check, len(bad))
    assert len(check(bad)) == expected


@pytest.mark.parametrize("source", UNSAFE)
def test_unsafe_code_is_seen(source: str) -> None:
    assert len(unsafe_code({"allyouneed.config.run": source})) == 1


@pytest.mark.parametrize("source", SAFE)
def test_safe_code_is_left_alone(source: str) -> None:
    assert unsafe_code({"allyouneed.config.run": source}) == []


def test_the_layers_are_the_folders() -> None:
    folder = Path(allyouneed.__file__).parent
    folders = {path.parent.name for path in folder.glob("*/__init__.py")}
    loose = {path.stem for path in folder.glob("*.py")} - {"__init__", "__main__"}
    assert set(re.findall(r"\w+", LAYERS)) == folders | loose
    assert loose == {"errors", "language_codes", "symbols", "version"}


def test_contributing_shows_the_layers() -> None:
    assert f"```\n{LAYERS.lstrip()}```" in CONTRIBUTING.read_bytes().decode()


def test_imports_are_resolved_to_the_modules_that_hold_the_names() -> None:
    sources = {
        "allyouneed.model.__init__": "",
        "allyouneed.model.masks": "",
        "allyouneed.model.layers": "from . import masks\nfrom .masks import f\nimport allyouneed.model.masks",
        "allyouneed.training.loss": "import numpy\nfrom allyouneed.model import Transformer, masks",
    }
    assert imported_modules("allyouneed.model.layers", sources) == {"allyouneed.model.masks"}
    assert imported_modules("allyouneed.training.loss", sources) == {
        "allyouneed.model.__init__",
        "allyouneed.model.masks",
    }


def test_every_unit_of_the_package_has_its_place_in_the_layers() -> None:
    units = {unit_of(module) for module in package()} - {"__init__", "__main__"}
    assert all(unit in allowed_units(unit) for unit in units)
