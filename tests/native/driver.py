"""`driver.c`, linked with the kernels for an instruction set, and run here or in an emulator."""

import ctypes
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.native.cases import Case, file_of
from tests.patience import PATIENCE_SECONDS

from allyouneed.native import isa
from allyouneed.native.compiler import COMPILERS, FLAGS, SOURCES, find
from allyouneed.native.header import functions, structures
from allyouneed.native.library import FORMS, library_for

Layouts = Mapping[str, ctypes.Structure]
"""Form -> how its weights are packed."""

_EMULATED = {"neon_dotprod": "cortex-a76", "neon": "cortex-a53"}
"""Instruction set -> a processor for `qemu-aarch64` that has it and nothing faster."""
_EMULATORS = "qemu-aarch64", "qemu-aarch64-static"
_CROSS_COMPILER = "aarch64-linux-gnu-gcc"
_MOST_WORDS = 32
"""In a row of one head of width 1, of any instruction set."""
_MEMBERS = {ctypes.c_float: "number", ctypes.c_void_p: "pointer"}
_RESULT_OF = """#include <stddef.h>
#include "kernels.h"

/* The result of a function, or 1 if it has none. */
#define RESULT_OF(call) __builtin_choose_expr( \\
    __builtin_types_compatible_p(__typeof__(call), void), ((call), 1), (call))
"""


@dataclass(frozen=True)
class Target:
    """What an instruction set decides about stored weights, keys and values."""

    lanes: int
    """Number of floats in a vector."""
    layouts: Layouts
    """Where these have pairs of weights, keys are multiplied in 16 bits."""

    def key_values(self, form: str) -> int:
        """The number of values in a word of a key."""
        return 2 if self.layouts[form].pairs else int(self.layouts[form].values)

    def key_offset(self, form: str) -> int:
        """What is added to keys in int8."""
        return 0 if self.layouts[form].pairs else int(self.layouts[form].offset)


@dataclass(frozen=True)
class Report:
    """What the driver says of a file of cases."""

    passed: list[str]
    """Names of cases."""
    failures: list[str]
    """Name of a case and what is wrong in it."""
    shown: Mapping[str, bytes]
    """Name of a case -> contents of its buffer to show."""


@dataclass(frozen=True)
class Driver:
    """A compiled driver."""

    command: tuple[str, ...]
    """The program, with its emulator if it needs one."""
    folder: Path
    """Where files of cases are written."""

    def run(self, cases: list[Case]) -> Report:
        """Run cases in one process."""
        file = self.folder / "cases"
        file.write_bytes(file_of(cases))
        return self.run_file(file)

    def run_file(self, file: Path) -> Report:
        """Run the cases of a file.

        Raises:
            AssertionError: The driver crashed, or the file ends too early.
        """
        lines = _output([*self.command, str(file)]).split("\n")[:-1]
        said = [(kind, rest) for kind, _, rest in (line.partition(" ") for line in lines)]
        return Report(
            [rest for kind, rest in said if kind == "passed"],
            [rest for kind, rest in said if kind == "failed"],
            {
                name: bytes.fromhex(contents)
                for name, contents in (rest.rsplit(" ", 1) for kind, rest in said if kind == "shown")
            },
        )

    def target(self) -> Target:
        """What this instruction set decides; a key of width 1 fills a vector, after which its value lies."""
        case = Case("lanes")
        heads = case.structure("heads", num_heads=1, d_k=1, d_v=1, form=FORMS.index("float32"))
        rows = case.room(_MOST_WORDS)
        case.call("store_keys_values", heads, 1, case.tensor(torch.tensor([1.0, 2.0])), 2, rows)
        case.show(rows)
        shown = self.run([case, *map(_layout_case, FORMS)]).shown
        lanes = torch.frombuffer(bytearray(shown["lanes"]), dtype=torch.float32).tolist().index(2.0)
        return Target(lanes, {form: structures()["layout"].from_buffer_copy(shown[form]) for form in FORMS})


def build_driver(instructions: isa.InstructionSet, folder: Path) -> Driver:
    """The driver for an instruction set; skips the test if it cannot be compiled or run here."""
    compiler, runner = _tools(instructions)
    (folder / "functions.h").write_bytes(_functions_header().encode())
    sources = Path(__file__).with_name("driver.c"), *_kernels(instructions)
    program = str(folder / "driver")
    options = *FLAGS, *instructions.options, "-I", str(SOURCES), "-I", str(folder), "-o", program
    _output([*compiler, *options, *map(str, sources), "-lm"])
    return Driver((*runner, program), folder)


def _kernels(instructions: isa.InstructionSet) -> list[Path]:
    """The library that Python loads, so that its very bits are tested; the sources if it cannot be linked.

    A library in a temporary folder is gone; a ready-made one leaves OpenMP to PyTorch; macOS would look for
    it where it was compiled.
    """
    if instructions in isa.supported() and sys.platform == "linux":
        _, (library, origin) = library_for(instructions.name)
        assert library is not None, origin
        path = Path(library._name)
        if origin.startswith("compiled by") and path.exists():
            return [path]
    return sorted(SOURCES.glob("*.c"))


def _tools(instructions: isa.InstructionSet) -> tuple[list[str], list[str]]:
    """The compiler, and what runs its programs if this machine does not."""
    if instructions in isa.supported():
        command = next(filter(None, map(find, COMPILERS)), None)
        if command is None:
            pytest.skip("NOT RUN: needs a C compiler")
        return command, []
    if instructions.name not in _EMULATED:
        pytest.skip(f"NOT RUN: needs a processor with {instructions.name}")
    compiler = _found(shutil.which(_CROSS_COMPILER), _CROSS_COMPILER)
    if not Path(_output([compiler, "-print-file-name=libc.a"]).strip()).is_absolute():
        pytest.skip(f"NOT RUN: needs a C library for {_CROSS_COMPILER}, as in libc6-dev-arm64-cross")
    emulator = _found(next(filter(None, map(shutil.which, _EMULATORS)), None), _EMULATORS[0])
    return [compiler, "-static"], [emulator, "-cpu", _EMULATED[instructions.name]]


def _found(path: str | None, name: str) -> str:
    if path is None:
        pytest.skip(f"NOT RUN: needs {name}")
    return path


def _functions_header() -> str:
    """The table of functions in `kernels.h`, and checks that structures are laid out as in Python."""
    calls = [
        f"static int64_t call_{name}(const union argument *a)"
        f" {{ return RESULT_OF({name}({_members(types)})); }}"
        for name, types in functions().items()
    ]
    checks = [
        f'_Static_assert({size} == {expected}, "{size}");'
        for kind, structure in structures().items()
        for size, expected in [
            (f"sizeof(struct {kind})", ctypes.sizeof(structure)),
            *(
                (f"offsetof(struct {kind}, {name})", getattr(structure, name).offset)
                for name in _names(structure)
            ),
        ]
    ]
    rows = [f'    {{ "{name}", call_{name} }},' for name in functions()]
    table = "static const struct function functions[] = {"
    return "\n".join([_RESULT_OF, *checks, *calls, table, *rows, "    { 0 },", "};", ""])


def _names(structure: type[ctypes.Structure]) -> list[str]:
    return [field[0] for field in structure._fields_]


def _members(types: list[Any]) -> str:
    """Arguments of a call, from the members of `union argument`."""
    return ", ".join(f"a[{i}].{_MEMBERS.get(kind, 'integer')}" for i, kind in enumerate(types))


def _layout_case(form: str) -> Case:
    case = Case(form)
    layout = case.structure("layout")
    case.call("layout_of", FORMS.index(form), layout)
    case.show(layout)
    return case


def _output(command: Sequence[str]) -> str:
    ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=PATIENCE_SECONDS)
    assert ended.returncode == 0, (
        f"{command[0]}: exit status {ended.returncode}\n{ended.stdout}{ended.stderr}"
    )
    return ended.stdout
