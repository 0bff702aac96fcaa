"""The binary file of CTranslate2's models: named variables, as its converters write them."""

import math
import os
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from allyouneed.errors import ModelError
from allyouneed.interop.foreign_files import ByteReader
from allyouneed.storage.publish import MAX_WEIGHT_BYTES, open_regular

_VERSION = 6
"""The binary version of CTranslate2 3 and 4, and of some before them."""
_DTYPES = {0: "<f4", 1: "<i1", 2: "<i2", 3: "<i4", 4: "<f2", 5: "<i2"}
"""Id of a type -> numpy's name; bfloat16 is read as its bits."""
_BFLOAT16 = 5
_MOST_VARIABLES = 100_000
_MOST_DIMENSIONS = 8


class _Bytes(ByteReader):
    """The content of a file, read from the front."""

    def number(self, form: str) -> int:
        """An integer in a form of `struct`, little-endian."""
        [value] = self.numbers(form)
        return int(value)

    def text(self) -> str:
        """A text that its length precedes and a zero byte ends."""
        content = self.take(self.number("H"))
        if not content.endswith(b"\0") or not content.isascii():
            raise ValueError("a name is no text")
        return content[:-1].decode()


def read_variables(path: Path) -> tuple[dict[str, Tensor], bool]:
    """The variables of a model of class TransformerSpec, and whether some were integers.

    Weights that were rounded to integers become floats again.

    Raises:
        ModelError: The file is damaged, of another version, or of another class.
    """
    try:
        with open_regular(path, MAX_WEIGHT_BYTES) as opened:
            return _read(path, _Bytes(opened, os.fstat(opened.fileno()).st_size))
    except ValueError as error:
        raise ModelError(
            f"{path}: is damaged or no model of CTranslate2 ({error}); take another copy"
        ) from None


def _read(path: Path, file: _Bytes) -> tuple[dict[str, Tensor], bool]:
    _require_version(file, path)
    if (name := file.text()) != "TransformerSpec":
        raise ModelError(f"{path}: is a {name}; only TransformerSpec is supported")
    file.number("I")  # the revision adds variables, which are checked one by one
    variables: dict[str, Tensor] = {}
    for _ in range(_count(file)):
        name = file.text()
        if name in variables:
            raise ValueError(f"{name} occurs twice")
        variables[name] = _variable(file, name)
    found = _dequantised(variables)
    is_quantised = len(found) < len(variables)
    for _ in range(_count(file)):
        alias, name = file.text(), file.text()
        if alias in variables or alias in found or name not in variables:
            raise ValueError(f"{alias} stands for {name}, which is not there")
        if name in found:  # else it is the scale of integers, which are floats now
            found[alias] = found[name]
    if file.left:
        raise ValueError("it goes on after its end")
    return found, is_quantised


def _require_version(file: _Bytes, path: Path) -> None:
    """Refuse other versions; CTranslate2 writes `config.json` only since its version 3."""
    version = file.number("I")
    if not 0 < version <= _VERSION:
        raise ValueError(f"its version is {version}, {_VERSION} expected")
    if version < _VERSION or not (path.parent / "config.json").exists():
        sign = (
            "has no config.json beside it" if version == _VERSION else f"has version {version} of the format"
        )
        raise ModelError(f"{path}: {sign}, like models of CTranslate2 before 3; convert the original again")


def _count(file: _Bytes) -> int:
    if (count := file.number("I")) > _MOST_VARIABLES:
        raise ValueError(f"it claims {count:,} variables")
    return count


def _variable(file: _Bytes, name: str) -> Tensor:
    if (rank := file.number("B")) > _MOST_DIMENSIONS:
        raise ValueError(f"{name} has {rank} dimensions")
    shape = [file.number("I") for _ in range(rank)]
    kind, content = file.number("B"), file.take(file.number("I"))
    if kind not in _DTYPES:
        raise ValueError(f"{name} is of the unknown type {kind}")
    values = np.dtype(_DTYPES[kind])
    size = math.prod(shape)
    if not size:
        raise ValueError(f"{name} is empty")
    if size * values.itemsize != len(content):
        raise ValueError(f"{name} has another size than its shape {tuple(shape)}")
    array = np.frombuffer(content, values).reshape(shape)
    tensor = torch.from_numpy(array.copy())
    return tensor.view(torch.bfloat16) if kind == _BFLOAT16 else tensor


def _dequantised(variables: dict[str, Tensor]) -> dict[str, Tensor]:
    found = {}
    for name, tensor in variables.items():
        if name.endswith("_scale") and name.removesuffix("_scale") in variables:
            continue
        scale = variables.get(f"{name}_scale")
        if scale is not None:
            if scale.dim() and (tensor.dim() != 2 or scale.shape != tensor.shape[:1]):
                raise ValueError(f"{name}_scale does not fit its weight")
            tensor = tensor.float() / (scale[:, None] if scale.dim() else scale)  # noqa: PLW2901
        found[name] = tensor
    return found
