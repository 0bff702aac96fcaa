"""Matrices rounded to 8 bits, for the kernels and in the files of models.

Each row is rounded to 255 steps of its largest magnitude / 127. In a file, the matrix `x` is its steps, in
I8, and `x:scale` has the size of the steps of each row, in float32; no parameter has a colon in its name.
Rounding `steps * scale` gives the same steps and scales, bit for bit: if a float32 divided by 127 rounds to
`scale`, then so does `127 * scale`, rounded.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from allyouneed.errors import ModelError
from allyouneed.storage.tensor_files import MappedTensors, map_tensors, read_tensors

if TYPE_CHECKING:
    from torch import Tensor

_LIMIT = 127
_LEAST_SCALE = 1e-30  # keeps 0 / 0 out; rows of smaller weights shrink
_ROWS_AT_ONCE = 4_096
_SCALE = ":scale"


def round_rows(
    rows: NDArray[np.float32], largest: NDArray[np.float32]
) -> tuple[NDArray[np.int8], NDArray[np.float32]]:
    """The rows in steps of `largest / 127`, and these sizes."""
    scale = largest / np.float32(_LIMIT)
    return np.rint(rows / np.maximum(scale, np.float32(_LEAST_SCALE))[:, None]).astype(np.int8), scale


class MappedWeights(Mapping[str, NDArray[Any]]):
    """The weights of a model, mapped from their file; a matrix in 8 bits is float32 in memory of its own."""

    def __init__(self, stored: MappedTensors) -> None:
        self._stored = stored
        self._scales = {
            name.removesuffix(_SCALE): scale.copy() for name, scale in stored.items() if name.endswith(_SCALE)
        }

    @property
    def rounded(self) -> frozenset[str]:
        """Names of the matrices that are stored in 8 bits."""
        return frozenset(self._scales)

    def __getitem__(self, name: str) -> NDArray[Any]:
        stored = self._stored[name]
        if name not in self._scales:
            return stored
        with np.errstate(over="ignore"):  # infinite weights are refused by name where they are used
            values: NDArray[np.float32] = stored * self._scales[name][:, None]
        return values

    def __iter__(self) -> Iterator[str]:
        return (name for name in self._stored if not name.endswith(_SCALE))

    def __len__(self) -> int:
        return len(self._stored) - len(self._scales)

    def release(self, name: str) -> None:
        """Give the memory of a stored array back to the system, which reads the file again when needed."""
        self._stored.release(name)


def map_weights(path: Path) -> MappedWeights:
    """The weights of a model, mapped.

    Raises:
        ModelError: As for `map_tensors`, or a matrix in 8 bits has no scales, or wrong ones.
    """
    stored = map_tensors(path)
    if faults := [fault for name in stored if (fault := _fault(stored, name))]:
        raise ModelError([f"{path}: {fault}; take another copy" for fault in faults])
    return MappedWeights(stored)


def read_weights(path: Path) -> "dict[str, Tensor]":
    """The weights of a model as tensors in memory of their own; raises as `map_weights`."""
    mapped, tensors = map_weights(path), read_tensors(path)
    if mapped.rounded:
        import torch

        tensors |= {name: torch.from_numpy(mapped[name]) for name in mapped.rounded}
    return {name: tensors[name] for name in mapped}


def rounded(weights: MappedWeights, path: Path) -> dict[str, NDArray[Any]]:
    """The arrays that a file has for these weights of `path`, with all matrices in 8 bits.

    Raises:
        ModelError: Weights are not in float32, or not finite.
    """
    arrays: dict[str, NDArray[Any]] = {}
    for name, array in weights.items():
        if array.dtype != np.float32 or not np.isfinite(array).all():
            raise ModelError(f"{path}: {name} is not finite or not in float32; take another copy")
        arrays[name] = array
        if array.ndim == 2:
            steps, scale = np.empty(array.shape, np.int8), np.empty(len(array), np.float32)
            for first in range(0, len(array), _ROWS_AT_ONCE):
                part = slice(first, first + _ROWS_AT_ONCE)
                largest = np.abs(array[part]).max(axis=1, initial=0)
                steps[part], scale[part] = round_rows(array[part], largest)
            arrays |= {name: steps, f"{name}{_SCALE}": scale}
            weights.release(name)
    return arrays


def _fault(stored: MappedTensors, name: str) -> str | None:
    """The fault of a tensor in 8 bits, or of scales; None if there is none."""
    array = stored[name]
    if not name.endswith(_SCALE):
        lacks = array.dtype == np.int8 and f"{name}{_SCALE}" not in stored
        return f"{name} is in 8 bits, but there is no {name}{_SCALE}" if lacks else None
    steps = stored.get(name.removesuffix(_SCALE))
    if steps is None or steps.dtype != np.int8 or steps.ndim != 2:
        return f"{name} belongs to no matrix in 8 bits"
    if array.dtype != np.float32 or array.shape != steps.shape[:1]:
        return f"{name} is not one number in float32 for each of {len(steps)} rows"
    if not (np.isfinite(array) & (array >= 0)).all():
        return f"{name} holds values that are negative or not finite"
    return None
