"""Tables of positions in NumPy (paper 3.5), for the modules of PyTorch and for the native kernels.

Their shapes are (length, d_model), and (length, d_k) for rotations.
"""

from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray


def sinusoids(length: int, d_model: int) -> NDArray[np.float32]:
    """`PE(pos, 2i) = sin(pos / 10000^(2i / d_model))`, and the cosine of the same angle at 2i + 1."""
    angle = _angles(length, np.arange(0, d_model, 2) / d_model)  # (length, d_model / 2)
    return np.stack([np.sin(angle), np.cos(angle)], axis=-1).reshape(length, d_model).astype(np.float32)


def concatenated_sinusoids(length: int, d_model: int) -> NDArray[np.float32]:
    """All sines before all cosines, with wavelengths up to 10000 x 2 pi, as in the authors' code of 2017."""
    angle = _angles(length, np.arange(d_model // 2) / max(1, d_model // 2 - 1))  # (length, d_model / 2)
    return np.concatenate([np.sin(angle), np.cos(angle)], axis=1).astype(np.float32)


def fairseq_sinusoids(length: int, d_model: int) -> NDArray[np.float32]:
    """`concatenated_sinusoids` from position 2 on: fairseq counts from its id of padding, 1."""
    return concatenated_sinusoids(length + 2, d_model)[2:]


SINUSOIDS: Mapping[str, Callable[[int, int], NDArray[np.float32]]] = {
    "sinusoidal": sinusoids,
    "concatenated": concatenated_sinusoids,
    "fairseq": fairseq_sinusoids,
}
"""`ModelConfig.positions` -> the function of length and d_model that it names."""


def rotary_frequencies(d_k: int) -> NDArray[np.float32]:
    """By how much each pair of components is turned per position, `1 / 10000^(2i / d_k)`."""
    return (10_000 ** -(np.arange(0, d_k, 2) / d_k)).astype(np.float32)


def rotations(length: int, d_k: int) -> NDArray[np.float32]:
    """The cosine at 2i and the sine at 2i + 1 of the angle by which each pair is turned."""
    angle = np.arange(length, dtype=np.float32)[:, None] * rotary_frequencies(d_k)
    wide = angle.astype(np.float64)
    return np.stack([np.cos(wide), np.sin(wide)], axis=-1).reshape(length, d_k).astype(np.float32)


def alibi_slopes(num_heads: int) -> NDArray[np.float32]:
    """`2^(-8h / n)` of head h of n, from 1."""
    return (2.0 ** -(8 * np.arange(1, num_heads + 1) / num_heads)).astype(np.float32)


def _angles(length: int, exponents: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.arange(length)[:, None] / 10_000**exponents
