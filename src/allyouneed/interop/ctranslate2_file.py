"""The binary file of CTranslate2's models: named variables, as its converters write them."""

import math
import struct
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from allyouneed.errors import ModelError
from allyouneed.storage.publish import MAX_WEIGHT_BYTES, read_published

_VERSION = 6
"""The binary version of CTranslate2 3 and 4, and of some before them."""
_DTYPES = {0: "<f4", 1: "<i1", 2: "<i2", 3: "<i4", 4: "<f2", 5: "<i2"}
"""Id of a type -> numpy's name; bfloat16 is read as its bits."""
_BFLOAT16 = 5
_MOST_VARIABLES = 100_000
_MOST_DIMENSIONS = 8


class _Bytes:
    """The content of a file, read from the front."""

    def __init__(self, path: Path) -> None:
        self._content, self._at, self._path = read_published(path, MAX_WEIGHT_BYTES), 0, path

    def number(self, form: str) -> int:
        """An integer in a form of `struct`, little-endian."""
        [value] = struct.unpack("<" + form, self.take(struct.calcsize(form)))
        return int(value)

    def text(self) -> str:
        """A text that its length precedes and a zero byte ends."""
        content = self.take(self.number("H"))
        if not content.endswith(b"\0") or not content.isascii():
            raise self.damaged("a name is no text")
        return content[:-1].decode()

    def take(self, num_bytes: int) -> bytes:
        """The next bytes."""
        part = self._content[self._at : self._at + num_bytes]
        if len(part) < num_bytes:
            raise self.damaged("it ends too early")
        self._at += num_bytes
        return part

    def require_end(self) -> None:
        """Refuse a file that goes on."""
        if self._at != len(self._content):
            raise self.damaged("it goes on after its end")

    def damaged(self, reason: str) -> ModelError:
        """The error for a file that is not as its format wants it."""
        return ModelError(
            f"{self._path}: is damaged or no model of CTranslate2 ({reason}); take another copy"
        )


def read_variables(path: Path) -> tuple[dict[str, Tensor], bool]:
    """The variables of a model of class TransformerSpec, and whether some were integers.

    Weights that were rounded to integers become floats again.

    Raises:
        ModelError: The file is damaged, of another version, or of another class.
    """
    file = _Bytes(path)
    _require_version(file, path)
    if (name := file.text()) != "TransformerSpec":
        raise ModelError(f"{path}: is a {name}; only TransformerSpec is supported")
    file.number("I")  # the revision adds variables, which are checked one by one
    variables: dict[str, Tensor] = {}
    for _ in range(_count(file)):
        name = file.text()
        if name in variables:
            raise file.damaged(f"{name} occurs twice")
        variables[name] = _variable(file, name)
    for _ in range(_count(file)):
        alias, name = file.text(), file.text()
        if alias in variables or name not in variables:
            raise file.damaged(f"{alias} stands for {name}, which is not there")
        variables[alias] = variables[name]
        if f"{name}_scale" in variables:
            variables[f"{alias}_scale"] = variables[f"{name}_scale"]
    file.require_end()
    found = _dequantised(variables, file)
    return found, len(found) < len(variables)


def _require_version(file: _Bytes, path: Path) -> None:
    """Refuse other versions; CTranslate2 writes `config.json` only since its version 3."""
    version = file.number("I")
    if not 0 < version <= _VERSION:
        raise file.damaged(f"its version is {version}, {_VERSION} expected")
    if version < _VERSION or not (path.parent / "config.json").is_file():
        sign = (
            "has no config.json beside it" if version == _VERSION else f"has version {version} of the format"
        )
        raise ModelError(f"{path}: {sign}, like models of CTranslate2 before 3; convert the original again")


def _count(file: _Bytes) -> int:
    if (count := file.number("I")) > _MOST_VARIABLES:
        raise file.damaged(f"it claims {count:,} variables")
    return count


def _variable(file: _Bytes, name: str) -> Tensor:
    if (rank := file.number("B")) > _MOST_DIMENSIONS:
        raise file.damaged(f"{name} has {rank} dimensions")
    shape = [file.number("I") for _ in range(rank)]
    kind, content = file.number("B"), file.take(file.number("I"))
    if kind not in _DTYPES:
        raise file.damaged(f"{name} is of the unknown type {kind}")
    values = np.dtype(_DTYPES[kind])
    size = math.prod(shape)
    if not size:
        raise file.damaged(f"{name} is empty")
    if size * values.itemsize != len(content):
        raise file.damaged(f"{name} has another size than its shape {tuple(shape)}")
    array = np.frombuffer(content, values).reshape(shape)
    tensor = torch.from_numpy(array.copy())
    return tensor.view(torch.bfloat16) if kind == _BFLOAT16 else tensor


def _dequantised(variables: dict[str, Tensor], file: _Bytes) -> dict[str, Tensor]:
    found = {}
    for name, tensor in variables.items():
        if name.endswith("_scale") and name.removesuffix("_scale") in variables:
            continue
        scale = variables.get(f"{name}_scale")
        if scale is not None:
            if scale.dim() and (tensor.dim() != 2 or scale.shape != tensor.shape[:1]):
                raise file.damaged(f"{name}_scale does not fit its weight")
            tensor = tensor.float() / (scale[:, None] if scale.dim() else scale)  # noqa: PLW2901
        found[name] = tensor
    return found
