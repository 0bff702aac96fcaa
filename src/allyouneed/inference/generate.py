"""Decoding of any number of sources (paper 6.1), in batches of similar length and back in their order."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice

from allyouneed.config import SearchConfig
from allyouneed.data.batching import length_batches
from allyouneed.errors import UsageError
from allyouneed.inference.engine import Engine, pad
from allyouneed.inference.search import Hypothesis, beam_search
from allyouneed.model.evaluation_mode import evaluation_mode
from allyouneed.symbols import END, PADDING

DEFAULT_BATCH_TOKENS = 8_192
DEFAULT_WINDOW_SENTENCES = 4_096


def generate(
    engine: Engine,
    sources: Iterable[Sequence[int]],
    config: SearchConfig,
    *,
    n_best: int = 1,
    batch_tokens: int | None = DEFAULT_BATCH_TOKENS,
    batch_size: int | None = None,
    window_sentences: int = DEFAULT_WINDOW_SENTENCES,
) -> Iterator[list[Hypothesis]]:
    """Up to `n_best` hypotheses of each source, best first, in the order of the sources.

    Args:
        engine: The model.
        sources: Token ids without end symbol. An empty source has the empty hypothesis, of score 0.
        config: How to search. Outputs have at most `max_extra_tokens` tokens more than their source, the end
            symbol counted in both, and no more than the model has positions for.
        n_best: Hypotheses wanted of each source.
        batch_tokens: Source tokens of a batch, padding and end symbols included, times the beam size.
        batch_size: The most sentences of a batch.
        window_sentences: How many sources are read at once and sorted by length: what bounds the memory.

    Raises:
        UsageError: More hypotheses are wanted than the beam holds.
    """
    if n_best > config.beam_size:
        raise UsageError(
            f"{n_best} hypotheses a sentence are wanted of a beam of {config.beam_size};"
            " raise the beam size (--beam-size) or ask for fewer (--n-best)"
        )
    remaining = iter(sources)
    windows = iter(lambda: list(islice(remaining, window_sentences)), [])
    return chain.from_iterable(
        _generate_window(engine, window, config, n_best, batch_tokens, batch_size) for window in windows
    )


def _generate_window(
    engine: Engine,
    sources: list[Sequence[int]],
    config: SearchConfig,
    n_best: int,
    batch_tokens: int | None,
    batch_size: int | None,
) -> list[list[Hypothesis]]:
    results = [[Hypothesis([], 0.0)] for _ in sources]
    filled = [index for index, ids in enumerate(sources) if len(ids)]
    rows = [(len(sources[index]) + 1) * config.beam_size for index in filled]
    for batch in length_batches(rows, batch_tokens=batch_tokens, batch_size=batch_size):
        indices = [filled[i] for i in batch]
        found = _generate_batch(engine, [sources[index] for index in indices], config, n_best)
        for index, hypotheses in zip(indices, found, strict=True):
            results[index] = hypotheses
    return results


def _generate_batch(
    engine: Engine, sources: list[Sequence[int]], config: SearchConfig, n_best: int
) -> list[list[Hypothesis]]:
    source = pad([[*ids, END] for ids in sources], engine.device)
    max_lengths = (source != PADDING).sum(dim=1) + config.max_extra_tokens
    if engine.max_positions is not None:
        max_lengths = max_lengths.clamp(max=engine.max_positions)
    with evaluation_mode(engine.model):
        decoding = engine.start(source, config.beam_size)
        return beam_search(decoding, max_lengths, config, n_best)
