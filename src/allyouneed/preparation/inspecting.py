"""Inspects prepared data: sizes, lengths, use of the vocabulary, repeats, odd pairs, padding."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import chain, zip_longest
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from allyouneed.config.run import TrainingConfig
from allyouneed.data.batch_plans import padding_share, plan_epoch
from allyouneed.data.lines import read_lines
from allyouneed.data.store import PairStore
from allyouneed.errors import ModelError
from allyouneed.preparation.prepared_data import PreparedData
from allyouneed.symbols import CONTROL_SYMBOLS, UNKNOWN

Advance = Callable[[int], None]

RARE = 10
"""Number of occurrences below which an entry of a vocabulary is called rare: little is learned of it."""
_NUM_CONTROL = len(CONTROL_SYMBOLS)
_MICRO_BATCH_TOKENS = 1_024, 4_096, 16_384
_TOLD_EVERY = 10_000


@dataclass(frozen=True, eq=False)
class Side:
    """One side of the training data."""

    num_words: int
    """Number of words between white space."""
    num_characters: int
    """Number of characters, without line feeds."""
    lengths: NDArray[np.integer]
    """Number of tokens per sentence, without the end symbol: (num_pairs,)."""

    @cached_property
    def num_tokens(self) -> int:
        """Number of tokens, without end symbols."""
        return int(self.lengths.sum(dtype=np.int64))

    @property
    def tokens_per_word(self) -> float:
        """Mean number of sub-words per word."""
        return self.num_tokens / max(1, self.num_words)


@dataclass(frozen=True, eq=False)
class VocabularyUse:
    """The use of a vocabulary in the training data."""

    counts: NDArray[np.int64]
    """How often each entry occurs: (vocab_size,)."""

    @property
    def num_entries(self) -> int:
        """Number of entries, without control symbols."""
        return len(self.counts) - _NUM_CONTROL

    @property
    def num_used(self) -> int:
        """Number of entries that occur."""
        return int((self.counts[_NUM_CONTROL:] > 0).sum())

    @property
    def num_rare(self) -> int:
        """Number of entries that occur, but less than `RARE` times."""
        counts = self.counts[_NUM_CONTROL:]
        return int(((counts > 0) & (counts < RARE)).sum())

    @property
    def num_unknown_tokens(self) -> int:
        """Number of tokens for which there is no entry."""
        return int(self.counts[UNKNOWN])


@dataclass(frozen=True)
class NotablePair:
    """A pair that stands out."""

    number: int
    """Its number, from 1, among those that were read, over all files in their order."""
    source: str
    target: str
    num_source_tokens: int
    num_target_tokens: int
    times: int = 1
    """How often it occurs."""


@dataclass(frozen=True)
class Repeats:
    """Numbers of repeats in the training data."""

    num_pairs: int
    """Number of pairs that equal an earlier one."""
    num_sources: int
    """Number of sources that equal an earlier one."""
    num_targets: int
    """Number of targets that equal an earlier one."""
    num_copies: int | None
    """Number of pairs whose sides are equal; None if the sides are of different kinds."""
    num_valid_pairs: int
    """Number of validation pairs that also are training pairs."""
    num_valid_sources: int
    """Number of validation sources that also are training sources."""


@dataclass(frozen=True, eq=False)
class Inspection:
    """The facts about prepared data."""

    directory: Path
    task: str
    examples: str
    """Word for training examples, such as "pairs"."""
    num_pairs: int
    num_valid_pairs: int
    num_bytes: int
    """Size of all files."""
    report: Mapping[str, Any]
    """The report of `prepare` on the training files."""
    source: Side
    target: Side
    vocabularies: Mapping[str, VocabularyUse]
    """The vocabularies of "source" and "target", or the one of "both sides"."""
    repeats: Repeats
    most_repeated: list[NotablePair]
    longest: list[NotablePair]
    oddest: list[NotablePair]
    """Pairs whose lengths fit worst, by Gale and Church's distance (1993); none if sides are not alike."""
    padding: Mapping[int, float]
    """Tokens per side of a micro-batch -> share of padding among the tokens that are computed."""


def inspect(
    prepared: PreparedData, num_examples: int = 5, advance: Advance = lambda count: None
) -> Inspection:
    """Inspect prepared data, with `num_examples` notable pairs of each kind; the text is read twice.

    `advance` receives numbers of pairs that were read, twice `num_pairs` in all.
    """
    train = prepared.train
    texts = _Texts(prepared, "train", train.num_pairs, advance)
    repeats, most_repeated = _repeats(prepared, texts, num_examples)
    longest = _first(-np.maximum(train.source_lengths, train.target_lengths).astype(np.int64), num_examples)
    oddest = _first(-_misfit(train), num_examples) if prepared.task.sides_are_alike else np.empty(0, np.int64)
    shown = _notable(train, texts, {*most_repeated, *longest.tolist(), *oddest.tolist()}, most_repeated)
    files = (path for path in prepared.directory.rglob("*") if path.is_file())
    return Inspection(
        directory=prepared.directory,
        task=prepared.task.name,
        examples=prepared.task.examples,
        num_pairs=train.num_pairs,
        num_valid_pairs=prepared.valid.num_pairs if prepared.valid else 0,
        num_bytes=sum(path.stat().st_size for path in files),
        report=prepared.report("train"),
        source=Side(texts.num_words[0], texts.num_characters[0], train.source_lengths),
        target=Side(texts.num_words[1], texts.num_characters[1], train.target_lengths),
        vocabularies=_vocabularies(prepared),
        repeats=repeats,
        most_repeated=[shown[index] for index in most_repeated],
        longest=[shown[index] for index in longest.tolist()],
        oddest=[shown[index] for index in oddest.tolist()],
        padding=_padding(train),
    )


def _vocabularies(prepared: PreparedData) -> dict[str, VocabularyUse]:
    source = prepared.train.source.counts(prepared.source_vocab_size)
    target = prepared.train.target.counts(prepared.target_vocab_size)
    if prepared.units.source is prepared.units.target:
        return {"both sides": VocabularyUse(source + target)}
    return {"source": VocabularyUse(source), "target": VocabularyUse(target)}


class _Texts:
    """Reads the text of a part, and counts its words, characters and copies."""

    def __init__(self, prepared: PreparedData, part: str, num_pairs: int, advance: Advance) -> None:
        self._num_pairs = num_pairs
        self._paths = [prepared.text(part, side) for side in ("source", "target")]
        self._advance = advance
        self.num_words, self.num_characters, self.num_copies = [0, 0], [0, 0], 0

    def pairs(self) -> Iterator[tuple[int, str, str]]:
        number = 0
        lines = map(partial(read_lines, keep_mark=True), self._paths)
        for number, (source, target) in enumerate(zip_longest(*lines), start=1):
            if source is None or target is None or number > self._num_pairs:
                raise self._damaged()
            if number % _TOLD_EVERY == 0:
                self._advance(_TOLD_EVERY)
            yield number - 1, source, target
        if number < self._num_pairs:
            raise self._damaged()
        self._advance(number % _TOLD_EVERY)

    def _damaged(self) -> ModelError:
        paths = " and ".join(map(str, self._paths))
        return ModelError(f"{paths}: do not have a line for each pair; prepare the data again")

    def hashes(self) -> list[NDArray[np.int64]]:
        """A hash of each source, each target and each pair: int64 (num_pairs,); counts words on the way."""
        sources, targets, pairs = found = [np.empty(self._num_pairs, np.int64) for _ in range(3)]
        for index, source, target in self.pairs():
            sources[index], targets[index], pairs[index] = hash(source), hash(target), hash((source, target))
            self.num_copies += source == target
            for side, text in enumerate((source, target)):
                self.num_words[side] += len(text.split())
                self.num_characters[side] += len(text)
        return found


def _repeats(prepared: PreparedData, texts: _Texts, num_examples: int) -> tuple[Repeats, dict[int, int]]:
    """The repeats, and how often the most repeated pairs occur, by the index of the first of each."""
    sources, targets, pairs = texts.hashes()
    valid_pairs = valid_sources = np.empty(0, np.int64)
    if prepared.valid:
        of_valid = _Texts(prepared, "valid", prepared.valid.num_pairs, lambda count: None)
        valid_sources, _, valid_pairs = of_valid.hashes()
    sources.sort()
    targets.sort()
    num_sources, num_targets = len(_again(sources)), len(_again(targets))
    num_valid_sources = _num_among(valid_sources, sources)
    del sources, targets  # before the order of the pairs takes as much memory
    order = pairs.argsort(kind="stable")
    pairs = pairs[order]
    again = _again(pairs)
    is_second = np.diff(again, prepend=-1) > 1
    first = order[again[is_second] - 1]
    times = np.diff(is_second.nonzero()[0], append=len(again)) + 1
    most = np.lexsort((first, -times))[:num_examples]
    repeats = Repeats(
        len(again),
        num_sources,
        num_targets,
        texts.num_copies if prepared.task.sides_are_alike else None,
        _num_among(valid_pairs, pairs),
        num_valid_sources,
    )
    return repeats, {int(first[each]): int(times[each]) for each in most}


def _again(hashes: NDArray[np.int64]) -> NDArray[np.intp]:
    """The places of hashes, in order, that equal the one before."""
    return np.flatnonzero(hashes[1:] == hashes[:-1]) + 1


def _num_among(found: NDArray[np.int64], hashes: NDArray[np.int64]) -> int:
    """How many of the found hashes are among others, which are in order."""
    places = np.searchsorted(hashes, found).clip(max=len(hashes) - 1)
    return int((hashes[places] == found).sum())


def _notable(
    store: PairStore, texts: _Texts, wanted: set[int], times: Mapping[int, int]
) -> dict[int, NotablePair]:
    return {
        index: NotablePair(
            int(store.line_numbers[index]),
            source,
            target,
            int(store.source_lengths[index]),
            int(store.target_lengths[index]),
            times.get(index, 1),
        )
        for index, source, target in texts.pairs()
        if index in wanted
    }


def _misfit(store: PairStore) -> NDArray[np.float64]:
    """How badly the lengths of each pair fit, in the units of Gale and Church (1993)."""
    source, target = (lengths.astype(np.float64) for lengths in (store.source_lengths, store.target_lengths))
    expected = source * (target.sum() / max(1.0, source.sum()))
    misfit: NDArray[np.float64] = np.abs(target - expected) / np.sqrt(np.maximum(1.0, target + expected))
    return misfit


def _first(keys: NDArray[Any], num: int) -> NDArray[np.intp]:
    """The indices of the smallest keys, of equal ones the first."""
    return np.argsort(keys, kind="stable")[:num].copy()  # without the others, which a view would keep


def _padding(store: PairStore) -> dict[int, float]:
    lengths, batch_tokens = (store.source_lengths, store.target_lengths), TrainingConfig().batch_tokens
    longest, shares = int(max(side.max() for side in lengths)) + 1, {}
    for size in _MICRO_BATCH_TOKENS:
        if size >= longest:
            plan = plan_epoch(*lengths, batch_tokens=batch_tokens, micro_batch_tokens=size, seed=1, epoch=0)
            batches = list(chain.from_iterable(map(plan.batch, range(plan.num_batches))))
            shares[size] = padding_share(*lengths, batches)
    return shares
