"""Sources that are vectors of features, such as frames of speech, where others are token ids."""

from collections.abc import Sequence
from typing import overload

import numpy as np
from numpy.typing import NDArray

from allyouneed.symbols import END


class Vectors(Sequence[int]):
    """A source given as vectors, which stands where others are token ids; as a sequence, their places.

    It equals itself only.

    Args:
        values: The vectors: float32 (length, features).
    """

    def __init__(self, values: NDArray[np.float32]) -> None:
        self.values = values

    def __len__(self) -> int:
        return len(self.values)

    @overload
    def __getitem__(self, place: int) -> int: ...
    @overload
    def __getitem__(self, place: slice) -> Sequence[int]: ...
    def __getitem__(self, place: int | slice) -> int | Sequence[int]:
        return range(len(self))[place]


def with_end(source: Sequence[int]) -> Sequence[int]:
    """A source with its end symbol; vectors have none."""
    return source if isinstance(source, Vectors) else [*source, END]
