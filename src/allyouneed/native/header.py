"""Reads structures and functions from `kernels.h`, so that they are written only once."""

import ctypes
import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

_NUMBERS: Mapping[str, Any] = {
    "int": ctypes.c_int,
    "int32_t": ctypes.c_int32,
    "int64_t": ctypes.c_int64,
    "float": ctypes.c_float,
}
_COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
_STRUCTURE = re.compile(r"struct (\w+) \{(.*?)\};", re.DOTALL)
_FUNCTION = re.compile(r"^(?:int|void) (\w+)\((.*?)\);", re.DOTALL | re.MULTILINE)


@cache
def structures() -> Mapping[str, type[ctypes.Structure]]:
    """Name -> structure."""
    found: dict[str, type[ctypes.Structure]] = {}
    for name, body in _STRUCTURE.findall(_text()):
        fields = [field for line in body.split(";") if line.strip() for field in _fields(line, found)]
        found[name] = type(name, (ctypes.Structure,), {"_fields_": fields})
    return found


@cache
def functions() -> Mapping[str, list[Any]]:
    """Name of a function -> types of its arguments."""
    return {
        name: [kind for argument in arguments.split(",") for _, kind in _fields(argument, {})]
        for name, arguments in _FUNCTION.findall(_text())
    }


def _text() -> str:
    return _COMMENT.sub("", (Path(__file__).parent / "kernels.h").read_bytes().decode())


def _fields(declaration: str, known: Mapping[str, type[ctypes.Structure]]) -> list[tuple[str, Any]]:
    """Names and types in a declaration such as `const float *weights` or `int32_t heads, d_k`."""
    kind, names = re.fullmatch(r"\s*(?:const )?((?:struct )?\w+) (.*?)\s*", declaration, re.DOTALL).groups()  # type: ignore[union-attr]
    return [
        (
            name.strip().lstrip("*"),
            ctypes.c_void_p
            if "*" in name
            else known[kind.removeprefix("struct ")]
            if kind.startswith("struct ")
            else _NUMBERS[kind],
        )
        for name in names.split(",")
    ]


structures(), functions()  # here, one thread at a time: classes that two make at once do not fit together
