"""Learns which target tokens translate a source token, by IBM model 1 (Brown et al. 1993)."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from allyouneed.data.store import PairStore
from allyouneed.symbols import PADDING

MAX_LINKS = 1 << 26
"""Maximum number of links in memory, at about 20 bytes each. A link is a source and a target token of one
sentence pair."""
_LINKS_AT_ONCE = 1 << 19
"""Maximum in a chunk, padding included; a longer pair is a chunk by itself."""
_NO_LINK = -1


class TranslationTable(NamedTuple):
    """The probabilities t(target | source) of tokens that occur together in a sentence pair, by source."""

    sources: NDArray[np.int64]
    """Token ids, ascending. `PADDING` is the empty word, which explains targets that no source token does."""
    targets: NDArray[np.int64]
    """Token ids, ascending for each source."""
    probabilities: NDArray[np.float64]
    """Probabilities, which sum to 1 over the targets of each source."""

    def best(self, count: int, source_vocab_size: int) -> NDArray[np.int32]:
        """The most probable targets of every source token: (source_vocab_size, count).

        The lower id comes first if probabilities are equal. Rows with fewer targets are padded.
        """
        order = np.lexsort((self.targets, -self.probabilities, self.sources))
        sources, targets = self.sources[order], self.targets[order]
        ranks = np.arange(len(order)) - np.searchsorted(sources, sources)
        chosen = ranks < count
        found = np.full((source_vocab_size, count), PADDING, np.int32)
        found[sources[chosen], ranks[chosen]] = targets[chosen]
        return found


def pairs_read(store: PairStore, max_links: int = MAX_LINKS) -> NDArray[np.int64]:
    """The pairs that a table is learned from: every n-th, if all have more links than `max_links`."""
    num_links = (store.source_lengths.astype(np.int64) + 1) * store.target_lengths
    return np.arange(0, store.num_pairs, max(1, -(-int(num_links.sum()) // max_links)))


def learn_translation_table(
    store: PairStore, target_vocab_size: int, *, iterations: int = 5, max_links: int = MAX_LINKS
) -> TranslationTable:
    """Learn a table by expectation maximisation, starting from equal probabilities.

    If the store has more than `max_links`, which bounds the memory, only every n-th pair is read.
    """
    chunks = [
        (*np.unique(links, return_inverse=True), links.shape)
        for links in _linked(store, target_vocab_size, max_links)
    ]
    found = np.unique(np.concatenate([[_NO_LINK], *(pairs for pairs, _, _ in chunks)]))
    links = [  # the places of those of each chunk among all; 0 is that of padding
        np.searchsorted(found, pairs).astype(np.int32)[inverse].reshape(shape)
        for pairs, inverse, shape in chunks
    ]
    del chunks  # which take more memory than all else
    sources, targets = np.divmod(found[1:], target_vocab_size)
    probabilities = np.ones(len(sources))
    for _ in range(iterations):
        probabilities = _expected_counts(links, probabilities)
        probabilities /= np.bincount(sources, probabilities)[sources]
    return TranslationTable(sources, targets, probabilities)


def _expected_counts(
    links: Sequence[NDArray[np.int32]], probabilities: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Expected number of links of each pair of tokens, if one source token generates each target token."""
    given = np.concatenate([[0.0], probabilities])
    counts = np.zeros(len(given))
    for places in links:
        shares = given[places]  # (sentences, target tokens, source tokens)
        totals = shares.sum(axis=2, keepdims=True)
        np.divide(shares, totals, out=shares, where=totals > 0)
        counts += np.bincount(places.ravel(), shares.ravel(), len(counts))
    return counts[1:]


def _bounds(source_lengths: NDArray[np.integer], target_lengths: NDArray[np.integer]) -> list[int]:
    """Where to split sentences, sorted by target length, into chunks of a bounded number of padded links."""
    bounds, begin, widest = list[int](), 0, 0
    lengths = zip(source_lengths.tolist(), target_lengths.tolist(), strict=True)
    for place, (source_length, target_length) in enumerate(lengths):
        widest = max(widest, source_length + 1)
        if place > begin and (place + 1 - begin) * target_length * widest > _LINKS_AT_ONCE:
            bounds.append(place)
            begin, widest = place, source_length + 1
    return bounds


def _linked(store: PairStore, target_vocab_size: int, max_links: int) -> Iterator[NDArray[np.int64]]:
    """Links of sentences of similar length: (sentences, target tokens, empty word and source tokens)."""
    sentences = pairs_read(store, max_links)
    sentences = sentences[np.lexsort((store.source_lengths[sentences], store.target_lengths[sentences]))]
    for chunk in np.split(
        sentences, _bounds(store.source_lengths[sentences], store.target_lengths[sentences])
    ):
        source, target = store.source.gather(chunk), store.target.gather(chunk)
        with_empty_word = np.pad(source, ((0, 0), (1, 0)), constant_values=PADDING)
        is_token = np.pad(source != PADDING, ((0, 0), (1, 0)), constant_values=True)
        links = with_empty_word[:, None, :] * target_vocab_size + target[:, :, None]
        yield np.where(is_token[:, None, :] & (target != PADDING)[:, :, None], links, _NO_LINK)
