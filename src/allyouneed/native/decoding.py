"""Steps of a batch of hypotheses, each in one call of `decoding.c` or `search.c`."""

import ctypes
from typing import NamedTuple

import numpy as np

from allyouneed.native.arrays import Bool, Float32, Int32, Int64, address_of, empty
from allyouneed.native.attention_kernels import KeysValues
from allyouneed.native.beam_kernels import NativeBeams
from allyouneed.native.header import structures
from allyouneed.native.library import library
from allyouneed.native.linear import InPlaceLinear
from allyouneed.native.stack import PackedStack, Tables
from allyouneed.symbols import END


class RowNumbers(NamedTuple):
    """The rows of the keys and values of a batch, as in `struct decoding`."""

    positions: Int64[np.ndarray, " sentences"]
    """Position of the next token of each sentence."""
    ancestry: Int32[np.ndarray, "sentences beams positions"]
    """The row of each token of each hypothesis."""
    memory_rows: Int32[np.ndarray, " rows"]
    """All rows of the memory: 0, 1, 2 and so on."""
    memory_starts: Int64[np.ndarray, " sentences"]
    """First row of each source."""
    memory_counts: Int32[np.ndarray, " sentences"]
    """Number of rows of each source."""


_TYPES = np.int64, np.int32, np.int32, np.int64, np.int32


class Hypotheses:
    """The hypotheses of a batch; `read` and `search` append a token to each, and change the arrays in place.

    Keys and values stay in the row where they were written. Results have the same bits in any batch and with
    any number of threads.

    Args:
        decoder: The decoder.
        written: Keys and values of the tokens read so far.
        memory: Keys and values of the sources.
        numbers: The rows of these.
    """

    def __init__(
        self, decoder: PackedStack, written: KeysValues, memory: KeysValues, numbers: RowNumbers
    ) -> None:
        assert all(array.flags.c_contiguous for array in numbers)
        assert all(array.dtype == dtype for array, dtype in zip(numbers, _TYPES, strict=True))
        num_sentences, beam_size, num_positions = numbers.ancestry.shape
        of_sentences = numbers.positions, numbers.memory_starts, numbers.memory_counts
        assert all(len(array) == num_sentences for array in of_sentences)
        self.shape = num_sentences, beam_size
        """Number of sentences, and of hypotheses of each."""
        self.longest = int(numbers.positions.max(initial=0))
        """Largest position of a token that is read next."""
        self._num_positions, self._tables = num_positions, Tables()
        self._decoder, self._written, self._pointed_to = decoder, written, (memory, numbers)
        self._structure = structures()["decoding"](
            stack=decoder.address,
            tables=written.addresses,
            memory=memory.addresses,
            num_sentences=num_sentences,
            beam_size=beam_size,
            num_positions=num_positions,
            **{name: address_of(array) for name, array in numbers._asdict().items()},
        )
        self._address, self._library = ctypes.addressof(self._structure), library()

    def read(
        self, tokens: Int64[np.ndarray, "sentences beams"], tables: Tables
    ) -> Float32[np.ndarray, "sentences beams d_model"]:
        """Append a token to every hypothesis; return the hidden states of the tokens.

        Args:
            tokens: Token ids.
            tables: What the decoder adds at each position.

        Raises:
            MemoryError: There is not enough memory.
        """
        assert tokens.dtype == np.int64
        assert tokens.shape == self.shape
        assert tokens.flags.c_contiguous
        assert tokens.view(np.uint64).max() < self._decoder.vocab_size  # negative ones are large
        hidden = empty(*self.shape, self._decoder.d_model)
        first = self._reserve(tables)
        num_read = self._library.read_tokens(
            self._address, first, address_of(tokens), None, address_of(hidden)
        )
        self._finish(first, num_read)
        return hidden

    def search(
        self,
        beams: NativeBeams,
        tables: Tables,
        project: InPlaceLinear,
        excluded: Int64[np.ndarray, " tokens"],
        cannot_end: Bool[np.ndarray, " sentences"] | None,
        num_steps: int = 1,
    ) -> tuple[Int64[np.ndarray, "sentences beams"], Bool[np.ndarray, " sentences"]]:
        """Do steps of beam search until one ends a sentence; hypotheses that cannot go on are not computed.

        Args:
            beams: The state of the search.
            tables: What the decoder adds at each position.
            project: Maps hidden states to logits, one for each token that the decoder reads.
            excluded: Tokens that are never chosen but keep their share of the probability.
            cannot_end: Sentences in which the end symbol is not chosen either; None if there are none.
            num_steps: Largest number of steps.

        Returns:
            The parent of each new hypothesis, and which sentences are done, as the last `Beams.advance`.

        Raises:
            MemoryError: There is not enough memory.
        """
        assert beams.shape == self.shape
        assert project.linear.num_inputs == self._decoder.d_model
        assert END < project.linear.num_outputs <= self._decoder.vocab_size
        assert excluded.dtype == np.int64
        assert excluded.max(initial=0) < project.linear.num_outputs
        assert cannot_end is None or (cannot_end.dtype == np.bool_ and len(cannot_end) == self.shape[0])
        self._structure.project = project.linear.address
        logits = project.room(self.shape[0] * self.shape[1])
        parents, done = np.empty(self.shape, np.int64), np.empty(self.shape[0], np.bool_)
        first = self._reserve(tables, num_steps)
        num_read = self._library.search_steps(
            self._address,
            first,
            beams.address,
            address_of(excluded),
            len(excluded),
            None if cannot_end is None else address_of(cannot_end),
            num_steps,
            address_of(logits),
            address_of(parents),
            address_of(done),
        )
        self._finish(first, num_read)
        if num_steps > 1:
            self.longest = int(self._pointed_to[1].positions.max())
        return parents, done

    def reorder(self, parents: Int64[np.ndarray, "sentences beams"]) -> None:
        """Make hypothesis b of each sentence a continuation of the former hypothesis `parents[:, b]`.

        Raises:
            MemoryError: There is not enough memory.
        """
        assert parents.dtype == np.int64
        assert parents.shape == self.shape
        assert parents.flags.c_contiguous
        assert parents.view(np.uint64).max(initial=0) < self.shape[1]
        if not self._library.reorder_hypotheses(self._address, address_of(parents)):
            raise MemoryError

    def _reserve(self, tables: Tables, num_steps: int = 1) -> int:
        """Prepare for `num_steps` tokens of each hypothesis; return the row of the first."""
        assert self.longest + num_steps <= self._num_positions
        if tables is not self._tables:
            self._tables = tables
            self._structure.encodings, self._structure.angles = tables.addresses()
        return self._written.reserve(num_steps * self.shape[0] * self.shape[1])

    def _finish(self, first: int, num_read: int) -> None:
        """Give back the rows of tokens that were not read, and go on to the next position."""
        if not num_read:
            raise MemoryError
        self._written.num_rows = first + num_read
        self.longest += 1
