"""Marian's archives of numpy arrays (`.npz`), as named arrays, one of which is the configuration."""

import zipfile
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from allyouneed.errors import ModelError, UserError
from allyouneed.interop.foreign_files import require_members
from allyouneed.storage.publish import MAX_WEIGHT_BYTES, open_regular

CONFIG = "special:model.yml"
"""Name of the array that holds the configuration, a YAML document."""
_HEADERS = {
    (1, 0): np.lib.format.read_array_header_1_0,
    (2, 0): np.lib.format.read_array_header_2_0,
}
"""Version of numpy's format -> how the header of an array is read."""
_MOST_ARRAYS = 100_000
_FLOATS = np.float16, np.float32, np.float64


def read_archive(path: Path) -> dict[str, Tensor | bytes]:
    """The arrays of a file that have floats, as tensors, and `CONFIG` as bytes; nothing is unpickled.

    Raises:
        ModelError: The file is missing, too large, no regular file, or damaged.
    """
    try:
        with open_regular(path, MAX_WEIGHT_BYTES) as file, zipfile.ZipFile(file) as archive:
            arrays = {
                member.filename.removesuffix(".npy"): _array(BytesIO(archive.read(member)))
                for member in require_members(archive, path, _MOST_ARRAYS)
            }
    except (UserError, MemoryError):
        raise
    except Exception as error:  # zipfile, zlib, numpy's reader of headers: each has errors of its own
        raise ModelError(
            f"{path}: is no valid .npz file ({type(error).__name__}); take another copy"
        ) from None
    found = {
        name: torch.from_numpy(array)
        for name, array in arrays.items()
        if name != CONFIG and array.dtype in _FLOATS
    }
    return {**found, CONFIG: arrays[CONFIG].tobytes()} if CONFIG in arrays else {**found}


def _array(content: BytesIO) -> "np.ndarray[Any, Any]":
    """An array in this machine's order of bytes."""
    shape, is_fortran, dtype = _HEADERS[np.lib.format.read_magic(content)](content)
    array = np.frombuffer(content.getbuffer(), dtype, offset=content.tell())
    return np.require(
        array.reshape(shape, order="F" if is_fortran else "C"), dtype.newbyteorder("="), ["C", "ALIGNED"]
    )
