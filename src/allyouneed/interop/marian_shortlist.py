"""Marian's lexical shortlists in binary form, as Bergamot and Firefox have them beside their models.

A file holds a header of six numbers, the first entry of each source token's list, and all lists. Marian lets
a translation write the first target tokens of the vocabulary, the tokens in the lists of the source tokens
of its whole batch, and if both sides have one vocabulary, these source tokens themselves.
"""

import os
import struct
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from allyouneed.errors import ModelError
from allyouneed.inference.vocabulary_shortlist import Shortlist
from allyouneed.interop.foreign import Array, Order
from allyouneed.interop.foreign_files import ByteReader, damaged
from allyouneed.storage.publish import open_regular
from allyouneed.symbols import PADDING

MAGIC = 0xF11A48D5013417F5
"""First number of a file."""
_GOLDEN = 0x9E3779B9
"""Summand of boost's combination of hashes."""
_MAX_BYTES = 1 << 26
"""Size of a file, above which it is refused; 32,000 lists of 50 tokens have 7 MB."""
_MOST_CELLS = 1 << 25
"""Size of a table of all lists, in which each is as long as the longest."""


def find_shortlists(folder: Path) -> list[Path]:
    """The shortlists in a folder, by their names."""
    return sorted(folder.glob("lex*.bin"))


def read_shortlist(found: Sequence[Path], orders: tuple[Order, Order], *, is_shared: bool) -> Shortlist:
    """Read the only shortlist found, given the vocabularies of both sides, and whether they are one.

    Its tokens are ours; its tokenisers are left empty. Marian's checksum is not compared, as in Bergamot.

    Raises:
        ModelError: It is damaged, or of another model, or there are several.
    """
    path, *others = found
    if others:
        raise ModelError(f"{path.parent}: has several shortlists ({path.name}, {others[0].name}); keep one")
    try:
        with open_regular(path, _MAX_BYTES) as file:
            num_frequent, offsets, targets = _read(ByteReader(file, os.fstat(file.fileno()).st_size))
    except (struct.error, ValueError) as error:
        raise damaged(path, f"is damaged or no binary shortlist of Marian ({error})") from None
    source, target = orders
    num_sources, num_targets = source.num_foreign, target.num_foreign
    if len(offsets) != num_sources + 1 or targets.max(initial=0) >= num_targets:
        raise ModelError(
            f"{path}: has lists of {len(offsets) - 1:,} source tokens, with target tokens up to "
            f"{targets.max(initial=0):,}, but the vocabularies have {num_sources:,} and {num_targets:,}; "
            "it is the shortlist of another model, put this model's there"
        )
    counts = np.diff(offsets)
    longest = int(counts.max())
    if num_sources * longest > _MOST_CELLS:
        raise damaged(path, f"has a list of {longest:,} tokens")
    table = np.full((num_sources, longest), PADDING, np.int32)
    ours = np.array(target.ours(range(num_targets)), np.int32)
    table[np.arange(longest) < counts[:, None]] = ours[targets]
    translations = source.rows(table, PADDING)
    if is_shared:
        translations = np.column_stack([translations, np.arange(len(source), dtype=np.int32)])
    return Shortlist(translations, ours[:num_frequent], len(target), {})


def _read(file: ByteReader) -> tuple[int, Array, Array]:
    """The number of frequent tokens, the offset of each list and the end of all, and the tokens."""
    magic, _, num_frequent, _, num_offsets, num_targets = file.numbers("6Q")
    if magic != MAGIC:
        raise ValueError("it begins otherwise")
    offsets = np.frombuffer(file.take(8 * num_offsets), "<u8")
    targets = np.frombuffer(file.take(4 * num_targets), "<u4")
    if file.left:
        raise ValueError(f"it has {file.left:,} bytes more than it says")
    if len(offsets) < 2 or offsets[0] or offsets[-1] != num_targets or (offsets[1:] < offsets[:-1]).any():
        raise ValueError("its lists do not follow each other")
    return num_frequent, offsets.astype(np.int64), targets


def write_shortlist(
    path: Path, allowed: Sequence[NDArray[np.integer]], num_first: int, num_best: int
) -> None:
    """Write the target ids that each source id allows; the first `num_first` ids are always allowed.

    Marian refuses a file whose last source ids allow nothing, so these must allow something.
    """
    rows = [np.unique(each) for each in allowed]
    offsets = np.cumsum([0, *map(len, rows)]).astype("<u8")
    ids = np.concatenate(rows).astype("<u4")
    numbers = struct.pack("<QQQQ", num_first, num_best, len(offsets), len(ids))
    content = numbers + offsets.tobytes() + ids.tobytes()
    path.write_bytes(struct.pack("<QQ", MAGIC, _checksum(content)) + content)


def _checksum(content: bytes) -> int:
    """Marian's hash of all whole numbers of 8 bytes."""
    seed, last = 0, (1 << 64) - 1
    for (number,) in struct.iter_unpack("<Q", content[: len(content) // 8 * 8]):
        seed ^= (number + _GOLDEN + (seed << 6) + (seed >> 2)) & last
    return seed
