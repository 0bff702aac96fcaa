"""The bookkeeping of beam search in one call of `search.c`."""

import ctypes
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from allyouneed.native.arrays import Bool, Float32, Float64, Int64, address_of
from allyouneed.native.header import structures
from allyouneed.native.library import library
from allyouneed.symbols import END


class Arrays(NamedTuple):
    """The arrays of `Beams`, whose docstrings say what they hold, and the length penalties."""

    scores: Float64[np.ndarray, "sentences beams"]
    lengths: Int64[np.ndarray, " sentences"]
    max_lengths: Int64[np.ndarray, " sentences"]
    tokens: Int64[np.ndarray, "sentences beams positions"]
    parents: Int64[np.ndarray, "sentences beams positions"]
    log_probs: Float32[np.ndarray, "sentences beams positions"]
    num_ended: Int64[np.ndarray, " sentences"]
    finished: NDArray[Any]
    penalties: Float64[np.ndarray, " lengths"]


_TYPES = np.float64, np.int64, np.int64, np.int64, np.int64, np.float32, np.int64, None, np.float64
"""Types of `Arrays`; that of `finished` is a structure of its own."""


class NativeBeams:
    """The hypotheses of a batch, in arrays that each step changes in place.

    Args:
        arrays: The arrays.
        num_candidates: Number of candidates per sentence.
        early_stopping: Whether a sentence is done when as many hypotheses have ended as the beam is wide.
    """

    def __init__(self, arrays: Arrays, num_candidates: int, early_stopping: bool) -> None:
        assert all(array.flags.c_contiguous for array in arrays)
        assert all(array.dtype == dtype for array, dtype in zip(arrays, _TYPES, strict=False) if dtype)
        assert len(arrays.penalties) > arrays.max_lengths.max(initial=0)
        num_sentences, beam_size, num_positions = arrays.tokens.shape
        self._arrays = arrays
        self._beams = structures()["beams"](
            num_sentences,
            beam_size,
            arrays.finished.shape[1],
            num_positions,
            num_candidates,
            END,
            early_stopping,
            *(address_of(array) for array in arrays),
        )
        self.shape = num_sentences, beam_size
        """Number of sentences, and of hypotheses of each."""
        self.address = ctypes.addressof(self._beams)
        """Address of `struct beams`, valid for the lifetime of this object."""
        self._library = library()

    def advance(
        self,
        log_probs: Float32[np.ndarray, "sentences beams k"],
        tokens: Int64[np.ndarray, "sentences beams k"],
    ) -> tuple[Int64[np.ndarray, "sentences beams"], Bool[np.ndarray, " sentences"]]:
        """Extend every hypothesis by one token, as `Beams.advance`."""
        log_probs, tokens = np.ascontiguousarray(log_probs), np.ascontiguousarray(tokens)
        for array, dtype in ((log_probs, np.float32), (tokens, np.int64)):
            assert array.dtype == dtype
            assert array.shape == (*self.shape, tokens.shape[2])
        parents, done = np.empty(self.shape, np.int64), np.empty(self.shape[0], np.bool_)
        addresses = (address_of(array) for array in (log_probs, tokens, parents, done))
        if not self._library.advance_beams(self.address, tokens.shape[2], *addresses):
            raise MemoryError
        return parents, done
