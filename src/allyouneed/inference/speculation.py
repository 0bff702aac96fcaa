"""Decoding in blocks: tokens are proposed, and the model verifies them at once (Stern et al. 2018).

Search asks for the logits after one token at a time, as of any decoding. Where that token is the one that was
proposed, they are there already; otherwise the model reads the token and what is proposed to follow it. So
whatever search does with logits, its outputs stay what they are.
"""

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from allyouneed.config.run import SearchConfig
from allyouneed.inference.beams import num_common
from allyouneed.inference.search import Decoding
from allyouneed.inference.selection import Chosen, Continuation
from allyouneed.native.arrays import Int64

MOST_SENTENCES = 1
"""Number of sentences of a batch up to which blocks are faster than tokens one by one, as measured
(docs/experiments/blockwise.md)."""
_EXACT = {"accept_top": 1, "accept_distance": 0, "min_block": 1}
"""Criterion -> value with which only what greedy search writes is accepted."""


def loose_criteria(config: SearchConfig) -> list[str]:
    """The criteria that accept more than what greedy search writes."""
    return [name for name, exact in _EXACT.items() if getattr(config, name) != exact]


class BlockReader(Protocol):
    """A decoding of one hypothesis per sentence that reads several tokens at once."""

    @property
    def most_positions(self) -> int | None:
        """Number of positions that the model has; None if there is no limit."""

    def admit(self, sources: Sequence[Sequence[int]]) -> None:
        """Append sentences to the batch, as `Decoding.admit`."""

    def keep(self, sentences: Int64[np.ndarray, " kept"]) -> None:
        """Keep only these sentences, as `Decoding.keep`."""

    def read(self, places: Sequence[int], starts: Sequence[int], blocks: Sequence[Sequence[int]]) -> Any:
        """Read a block of tokens in each of some sentences.

        What was read at these positions, and behind them, is forgotten.

        Args:
            places: Sentences of the batch.
            starts: Position of the first token of each block.
            blocks: Tokens, at least one for each sentence.

        Returns:
            The hidden states (tokens, d_model), block after block.
        """

    def to_logits(self, hidden: Any) -> Any:
        """The logits (tokens, vocab) of hidden states."""

    def best(self, hidden: Any) -> Int64[np.ndarray, "*rows"]:
        """The most probable next token of each hidden state (*rows, d_model)."""

    def ahead(self, hidden: Any) -> Any:
        """The states of the heads (rows, heads, d_model) of hidden states (rows, d_model)."""

    def stacked(self, rows: Sequence[Any]) -> Any:
        """Rows (width) of hidden states or logits as one array (rows, width)."""

    def choose(self, logits: Any, continuation: Continuation) -> Chosen:
        """Choose how each hypothesis is continued, as `Decoding.choose`."""


@dataclass
class BlockCounts:
    """Counts of blocks and tokens in all threads; each sentence of a batch counts by itself."""

    num_blocks: int = 0
    """Number of blocks that the model has read."""
    num_tokens: int = 0
    """Number of tokens that these have given."""
    num_one_by_one: int = 0
    """Number of tokens that were read alone, because there were too many sentences for blocks."""
    _lock: threading.Lock = field(default_factory=threading.Lock, compare=False, repr=False)

    def clear(self) -> None:
        """Begin to count anew."""
        with self._lock:
            self.num_blocks = self.num_tokens = self.num_one_by_one = 0

    def add(self, num_blocks: int, num_tokens: int, num_one_by_one: int) -> None:
        """Count a step."""
        with self._lock:
            self.num_blocks += num_blocks
            self.num_tokens += num_tokens
            self.num_one_by_one += num_one_by_one

    @property
    def mean_block(self) -> float:
        """Mean number of accepted tokens of a block."""
        return self.num_tokens / max(1, self.num_blocks)


@dataclass
class _Sentence:
    """A sentence that is being written."""

    written: list[int] = field(default_factory=list)
    """All tokens that are certain, from the start symbol on."""
    block: list[int] = field(default_factory=list)
    """The tokens that the model has read last."""
    hidden: Any = None
    logits: Any = None
    place: int = 0
    """Place in the block of the last certain token."""

    @property
    def proposed(self) -> int | None:
        """The token that is proposed to come next; None if the model has to read on."""
        return self.block[self.place + 1] if self.place + 1 < len(self.block) else None


class Proposer(Protocol):
    """Proposes the next tokens of some sentences of a batch."""

    def propose(self, places: Sequence[int], sentences: Sequence[_Sentence]) -> list[list[int]]:
        """Propose tokens, or none, that follow the last certain one of each sentence."""

    def admit(self, sources: Sequence[Sequence[int]]) -> None:
        """Append sentences to the batch."""

    def keep(self, sentences: Int64[np.ndarray, " kept"]) -> None:
        """Keep only these sentences."""


class HeadProposer:
    """Lets the heads of the model propose, by the state that has predicted the last certain token."""

    def __init__(self, reader: BlockReader, num: int) -> None:
        self._reader, self._num = reader, num

    def admit(self, sources: Sequence[Sequence[int]]) -> None:
        """Do nothing: the model itself knows the sentences."""

    def keep(self, sentences: Int64[np.ndarray, " kept"]) -> None:
        """Do nothing."""

    def propose(self, places: Sequence[int], sentences: Sequence[_Sentence]) -> list[list[int]]:
        """Propose a token for each head; none after the start symbol, which nothing has predicted."""
        known = [each for each in sentences if each.hidden is not None]
        if not known:
            return [[] for _ in sentences]
        hidden = self._reader.stacked([each.hidden[each.place] for each in known])
        tokens = iter(self._reader.best(self._reader.ahead(hidden)).tolist())
        return [[] if each.hidden is None else next(tokens)[: self._num] for each in sentences]


class StudentProposer:
    """Lets a smaller model propose what it would write itself, by greedy search."""

    def __init__(self, reader: BlockReader, num: int) -> None:
        self._reader, self._num = reader, num
        self._read: list[list[int]] = []

    def admit(self, sources: Sequence[Sequence[int]]) -> None:
        """Append sentences to the batch."""
        self._reader.admit(sources)
        self._read += [[] for _ in sources]

    def keep(self, sentences: Int64[np.ndarray, " kept"]) -> None:
        """Keep only these sentences."""
        self._reader.keep(sentences)
        self._read = [self._read[place] for place in sentences.tolist()]

    def propose(self, places: Sequence[int], sentences: Sequence[_Sentence]) -> list[list[int]]:
        """Propose as many tokens as were asked for, or fewer at the last position of the student."""
        starts = [
            num_common(self._read[place], each.written[:-1])
            for place, each in zip(places, sentences, strict=True)
        ]
        blocks = [each.written[start:] for start, each in zip(starts, sentences, strict=True)]
        found: list[list[int]] = [[] for _ in places]
        most = self._reader.most_positions
        for _ in range(self._num):
            if most is not None and max(map(sum, zip(starts, map(len, blocks), strict=True))) > most:
                break
            hidden = self._reader.read(places, starts, blocks)
            lasts = np.cumsum([len(block) for block in blocks]) - 1
            starts = [start + len(block) for start, block in zip(starts, blocks, strict=True)]
            blocks = [[token] for token in self._reader.best(hidden[lasts]).tolist()]
            for tokens, block in zip(found, blocks, strict=True):
                tokens.extend(block)
        for place, each, tokens in zip(places, sentences, found, strict=True):
            if tokens:  # else nothing was read
                self._read[place] = [*each.written, *tokens[:-1]]
        return found


class Speculation(Decoding):
    """Sentences being written in blocks, one hypothesis each.

    Args:
        reader: Reads blocks with the model.
        proposer: Proposes what follows the first token of a block.
        config: The criteria by which proposed tokens are accepted. If one is looser than greedy search,
            all is read in blocks, so that outputs do not depend on the batch.
        counts: Counts what is done.
    """

    def __init__(
        self, reader: BlockReader, proposer: Proposer, config: SearchConfig, counts: BlockCounts
    ) -> None:
        self._reader, self._proposer, self._config, self._counts = reader, proposer, config, counts
        self._is_exact = not loose_criteria(config)
        self._sentences: list[_Sentence] = []

    def admit(self, sources: Sequence[Sequence[int]]) -> None:
        """Append sentences to the batch."""
        if sources:
            self._reader.admit(sources)
            self._proposer.admit(sources)
            self._sentences += [_Sentence() for _ in sources]

    def keep(self, sentences: Int64[np.ndarray, " kept"]) -> None:
        """Keep only these sentences of the batch."""
        self._reader.keep(sentences)
        self._proposer.keep(sentences)
        self._sentences = [self._sentences[place] for place in sentences.tolist()]

    def reorder(self, parents: Int64[np.ndarray, "sentences beams"]) -> None:
        """Do nothing: there is one hypothesis."""

    def logits(self, tokens: Int64[np.ndarray, "sentences beams"]) -> Any:
        """Append a token to every sentence; return the logits of the next token."""
        to_read = list[int]()
        for place, (each, token) in enumerate(zip(self._sentences, tokens[:, 0].tolist(), strict=True)):
            each.written.append(token)
            if each.proposed == token:
                each.place += 1
            else:
                to_read.append(place)
        in_blocks = not self._is_exact or len(self._sentences) <= MOST_SENTENCES
        if to_read:
            self._read(to_read, in_blocks)
        num = len(self._sentences)
        self._counts.add(len(to_read) * in_blocks, num * in_blocks, num * (not in_blocks))
        return self._reader.stacked([each.logits[each.place] for each in self._sentences])[:, None]

    def choose(self, logits: Any, continuation: Continuation) -> Chosen:
        """Choose how each sentence is continued; a proposed token, if the criteria accept it.

        Beside criteria looser than greedy search, prefixes are the only restriction; see `require_effect`.
        """
        chosen = self._reader.choose(logits, continuation)
        if self._is_exact:
            return chosen
        restriction = continuation.restriction
        forced = {place for place, *_ in restriction.forced} if restriction else set[int]()
        for place, each in enumerate(self._sentences):
            token, best = each.proposed, int(chosen.tokens[place, 0, 0])
            if token is None or token == best or place in forced:
                continue
            if self._accepts(token, best, each, logits[place, 0]):
                chosen.tokens[place, 0, 0] = token
                chosen.log_probs[place, 0, 0] += float(logits[place, 0, token] - logits[place, 0, best])
        return chosen

    def _accepts(self, token: int, best: int, sentence: _Sentence, logits: Any) -> bool:
        config = self._config
        return (
            abs(token - best) <= config.accept_distance
            or sentence.place + 1 < config.min_block
            or int((logits > logits[token]).sum()) < config.accept_top
        )

    def _read(self, places: Sequence[int], in_blocks: bool) -> None:
        """Read the last token of some sentences and, if `in_blocks`, what is proposed to follow it."""
        sentences = [self._sentences[place] for place in places]
        proposed = self._proposer.propose(places, sentences) if in_blocks else [[] for _ in places]
        starts, most = [len(each.written) - 1 for each in sentences], self._reader.most_positions
        blocks = [
            [each.written[-1], *tokens][: None if most is None else most - start]
            for each, tokens, start in zip(sentences, proposed, starts, strict=True)
        ]
        hidden = self._reader.read(places, starts, blocks)
        logits, first = self._reader.to_logits(hidden), 0
        for each, block in zip(sentences, blocks, strict=True):
            rows = slice(first, first + len(block))
            each.block, each.hidden, each.logits, each.place = block, hidden[rows], logits[rows], 0
            first += len(block)
