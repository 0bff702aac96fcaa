"""The gradient of a global batch, summed over the micro-batches of this process (paper 5.1)."""

import math
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np
from torch import Tensor

from allyouneed.config.run import TrainingConfig
from allyouneed.data.batch_plans import Batch, Indices, PlannedBatch, make_batch
from allyouneed.data.store import PairStore
from allyouneed.errors import ResourceError, is_out_of_memory
from allyouneed.hardware.memory import empty_cache
from allyouneed.model.encoder_decoder import EncoderDecoder
from allyouneed.training.compiled_states import CompiledStates, is_packed, reason_not_to_compile
from allyouneed.training.distributed import Processes
from allyouneed.training.loss import smoothing_over_all
from allyouneed.training.team import Team, team_of
from allyouneed.training.update import (
    Gradients,
    HiddenStates,
    accumulate_gradient,
    packed_hidden_states,
    seed_generators,
    use_fastest_operators,
)

Say = Callable[[str], None]

_LONGEST_REASON = 200
_PLACES = 1 << 32
"""Larger than any number of micro-batches in a batch."""


class Accumulation:
    """Sums gradients over micro-batches; after running out of memory it cuts such micro-batches into parts.

    Process r of n takes micro-batches r, r + n, r + 2n, ..; if they are packed, it computes as many of them
    together as `packed_tokens` allows. `say` tells when micro-batches are cut, or not compiled.
    """

    def __init__(
        self,
        model: EncoderDecoder,
        gradients: Gradients,
        store: PairStore,
        config: TrainingConfig,
        processes: Processes,
        say: Say,
    ) -> None:
        self._model, self._gradients, self._store, self._config = model, gradients, store, config
        self._processes, self._say = processes, say
        self._cut_from_tokens, self._num_parts = sys.maxsize, 1
        self._smoothing = smoothing_over_all(
            config.label_smoothing, config.label_smoothing_over, model.config.target_vocab_size
        )
        self._lengths = store.source_lengths, store.target_lengths
        is_joined = is_packed(model, config, gradients.buffer.device)
        self._packed_tokens = (config.packed_tokens or 0) if is_joined else 0
        self._team: Team | None = None
        self._unsaid: str | None = None
        self._hidden_states = self._packed_states()
        if self._hidden_states is None:
            self._team = team_of(model, gradients, config, self._smoothing, processes.size)

    def _packed_states(self) -> HiddenStates | None:
        """How packed micro-batches are computed; None if they are padded."""
        model, config = self._model, self._config
        reason = reason_not_to_compile(model, config, self._gradients.buffer.device, self._processes.size)
        if reason is None:
            most = max(self._packed_tokens, config.resolved_micro_batch_tokens())
            use_fastest_operators(model, config, kernels=False)
            return CompiledStates(model, most, 1 + int(max(map(np.max, self._lengths))))
        self._unsaid = f"not compiled: {reason}" if reason else None
        return packed_hidden_states if self._packed_tokens else None

    def add_up(
        self, planned: PlannedBatch, step: int, stopping: Callable[[], bool], *, in_step: bool = False
    ) -> bool:
        """Compute the gradient and the loss of this process's part of a global batch.

        `stopping` is called before every micro-batch, and stops the work if it returns True. If `in_step`,
        all processes compute the same number of micro-batches, some as dummies.

        Returns whether the gradient is complete. Raises ResourceError if memory cannot hold a single pair.
        """
        if self._unsaid is not None:  # a run has no log before its first update
            self._say(self._unsaid)
            self._unsaid = None
        while True:
            self._gradients.clear()
            try:
                return self._add_all(planned, step, stopping, in_step)
            except _NotCompiledError as error:
                self._hidden_states = packed_hidden_states
                self._say(f"not compiled: {error}")
                continue
            except _OutgrownError as error:  # leaving the block frees the error's memory
                outgrown: Indices = error.args[0]
            if in_step:
                raise ResourceError(
                    f"memory cannot hold a micro-batch of {len(outgrown)} sentence pairs, which is not cut "
                    "where the model is sharded; train a new run with a smaller training.micro_batch_tokens"
                )
            if self._team and not self._team.takes_turns:
                self._team.takes_turns = True
                self._say(
                    f"out of memory at update {step:,}: from now on one micro-batch is computed at a time, "
                    "not one per thread"
                )
            elif self._packed_tokens > self._config.resolved_micro_batch_tokens():
                self._packed_tokens //= 2
                if isinstance(self._hidden_states, CompiledStates):
                    self._hidden_states = self._packed_states()  # of a smaller size
                empty_cache(self._gradients.buffer.device)
                self._say(
                    f"out of memory at update {step:,}: from now on at most {self._packed_tokens:,} tokens a "
                    "side are computed at once"
                )
            elif isinstance(self._hidden_states, CompiledStates):  # all are as large as the largest
                self._hidden_states = packed_hidden_states
                self._say(
                    f"out of memory at update {step:,}: from now on micro-batches are not compiled, which "
                    "takes less memory"
                )
            else:
                self._cut(outgrown, step)

    def _add_all(self, planned: PlannedBatch, step: int, stopping: Callable[[], bool], in_step: bool) -> bool:
        if self._team:
            work = ((place, self._made(pairs)) for place, pairs in self._work(planned))
            return self._team.add_up(work, step, planned.num_target_tokens, stopping)
        for place, pairs in self._work(planned):
            if stopping():
                return False
            seed_generators(self._config.seed, step, place)
            self._gradients.loss += self._accumulate(pairs, planned.num_target_tokens)
        if in_step and 0 < len(planned.micro_batches) % self._processes.size <= self._processes.rank:
            # The other processes' last micro-batch needs this process too; here it has weight zero.
            self._accumulate(planned.micro_batches[-1][:1], math.inf)
        return True

    def _accumulate(self, pairs: Indices, num_target_tokens: float) -> Tensor:
        # A sharded model exchanges its parts in here.
        with self._made(pairs) as batch, self._processes.losses_told(), self._compiling():
            weighted = self._model, batch, num_target_tokens, self._smoothing
            return accumulate_gradient(*weighted, self._config.precision, self._hidden_states)

    @contextmanager
    def _compiling(self) -> Iterator[None]:
        """Turn errors of compiled code, but those of memory, into one that ends its use."""
        try:
            yield
        except Exception as error:  # not all of PyTorch's are RuntimeErrors
            if is_out_of_memory(error) or not isinstance(self._hidden_states, CompiledStates):
                raise
            told = f"{error} {error.__cause__ or ''}"
            reason = told.partition("Set TORCHDYNAMO_VERBOSE")[0]  # advice for developers of PyTorch
            raise _NotCompiledError(" ".join(reason.split())[:_LONGEST_REASON]) from None

    @contextmanager
    def _made(self, pairs: Indices) -> Iterator[Batch]:
        """Yield the micro-batch of some pairs; an error names them if memory runs out in the context."""
        try:
            yield make_batch(self._store, pairs)
        except (MemoryError, RuntimeError) as error:
            if is_out_of_memory(error):
                raise _OutgrownError(pairs) from None
            raise

    def _work(self, planned: PlannedBatch) -> Iterator[tuple[int, Indices]]:
        """Yield each unit of this process's work with its position, which determines its random numbers."""
        for number, pairs in self._joined(planned):
            is_cut = self._longest(pairs) >= self._cut_from_tokens
            parts = np.array_split(pairs, min(self._num_parts, len(pairs))) if is_cut else [pairs]
            for part, some in enumerate(parts):
                yield number + part * _PLACES, some

    def _joined(self, planned: PlannedBatch) -> Iterator[tuple[int, Indices]]:
        """Yield this process's micro-batches with their numbers; packed ones are joined with later ones."""
        first, together, tokens = 0, np.empty(0, np.int64), np.zeros(2, np.int64)
        for number in range(self._processes.rank, len(planned.micro_batches), self._processes.size):
            pairs = planned.micro_batches[number]
            own = np.array([lengths[pairs].sum() + len(pairs) for lengths in self._lengths])
            if len(together) and (tokens + own).max() > self._packed_tokens:
                yield first, together
                together, tokens = together[:0], tokens * 0
            first = first if len(together) else number
            together, tokens = np.concatenate((together, pairs)), tokens + own
        if len(together):
            yield first, together

    def _cut(self, outgrown: Indices, step: int) -> None:
        """From now on, cut micro-batches with sentences as long as these into twice as many parts."""
        longest = self._longest(outgrown)
        if len(outgrown) == 1:
            raise ResourceError(
                f"memory cannot hold the update of one sentence pair of {longest} tokens "
                f"(line {self._store.line_numbers[outgrown[0]]} of the {self._store.text_of(outgrown[0])}); "
                "prepare the data with a smaller max_tokens, or take a smaller model",
                settings=["max_tokens"],
            )
        self._num_parts *= 2
        self._cut_from_tokens = min(self._cut_from_tokens, longest)
        empty_cache(self._gradients.buffer.device)
        self._say(
            f"out of memory at update {step:,}: from now on micro-batches of sentences of "
            f"{self._cut_from_tokens} tokens and more are computed in {self._num_parts} parts"
        )

    def _longest(self, pairs: Indices) -> int:
        """Length in tokens of the longest sentence, end symbol included."""
        store = self._store
        return 1 + int(max(store.source_lengths[pairs].max(), store.target_lengths[pairs].max()))


class _NotCompiledError(Exception):
    """PyTorch could not compile for this batch; the argument is the reason."""


class _OutgrownError(Exception):
    """Some pairs together, the argument, do not fit into memory."""
