"""Numbers that look random and follow from other numbers alone."""

import numpy as np
from numpy.typing import ArrayLike, NDArray


def mixed(numbers: ArrayLike) -> NDArray[np.uint64]:
    """A number from 0 to 2**64 - 1 for each number: one step of SplitMix64 (Steele et al., 2014)."""
    found = np.asarray(numbers, np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        found = (found ^ (found >> np.uint64(shift))) * np.uint64(factor)
    result: NDArray[np.uint64] = found ^ (found >> np.uint64(31))
    return result
