"""A store of pairs in one call, which the tests of several folders share."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from allyouneed.data.store import SHARD_TOKENS, PairWriter, Sentences


def write_store(
    directory: Path,
    pairs: Iterable[tuple[Sequence[int], Sequence[int], int]],
    *,
    vocabulary_size: int,
    facts: Mapping[str, Any] | None = None,
    shard_tokens: int = SHARD_TOKENS,
) -> None:
    """Write all of `pairs` (source ids, target ids, input line number); see `PairWriter`."""
    with PairWriter(
        directory, vocabulary_size=vocabulary_size, facts=facts, shard_tokens=shard_tokens
    ) as writer:
        for source, target, line_number in pairs:
            writer.add(Sentences.of([source]), Sentences.of([target]), [line_number])
