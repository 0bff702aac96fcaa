"""Threads of a CPU that compute the micro-batches of an update, side by side or in turn.

Threads that share each operation wait for each other thousands of times per update; if one of them has lost
its core to another program, all wait. Threads with a micro-batch each wait once, and faster ones compute more
of them.
"""

from collections import deque
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import AbstractContextManager, closing
from itertools import islice
from threading import Barrier

import torch

from allyouneed.config.run import TrainingConfig
from allyouneed.data.batch_plans import Batch
from allyouneed.errors import ResourceError
from allyouneed.hardware.devices import PYTORCH_THREADS
from allyouneed.model import EncoderDecoder
from allyouneed.model.dropout import drawing_from
from allyouneed.training.gradients import GradientPart, Gradients
from allyouneed.training.update import batch_loss, seed_of, shares_micro_batches
from allyouneed.training.working_copies import WorkingCopies

MicroBatch = tuple[int, AbstractContextManager[Batch]]
"""Place in the batch, which determines the random numbers, and a context that makes the micro-batch."""

_AHEAD = 2
"""Number of micro-batches per thread that are begun before the first of them is added."""


def team_of(
    model: EncoderDecoder,
    gradients: Gradients,
    config: TrainingConfig,
    smoothing: float,
    num_processes: int = 1,
) -> "Team | None":
    """The team that computes a process's micro-batches on a CPU; None if threads share operations.

    `config` has precision and micro-batches resolved; `num_processes` share the micro-batches of an update.

    Raises:
        ResourceError: A thread cannot be started.
    """
    if not shares_micro_batches(config, next(model.parameters()).device):
        return None
    of_batch = -(-config.batch_tokens // config.resolved_micro_batch_tokens())
    num_threads = torch.get_num_threads()
    size = min(num_threads, -(-of_batch // num_processes))
    return Team(model, gradients, config, smoothing, size, num_threads // size)


class Team:
    """Computes the gradients of micro-batches, one per thread at a time, and adds them in their order.

    The sum has the same bits for any number of threads, if each computes alone. Each of `size` threads
    computes a micro-batch, and `threads_each` share its operations.

    Attributes:
        takes_turns: Whether one micro-batch is computed at a time: by one thread, or for lack of memory.
    """

    def __init__(
        self,
        model: EncoderDecoder,
        gradients: Gradients,
        config: TrainingConfig,
        smoothing: float,
        size: int,
        threads_each: int = 1,
    ) -> None:
        self._gradients, self._config, self._smoothing = gradients, config, smoothing
        self.size, self.threads_each, self.takes_turns = size, threads_each, size == 1
        self._copies = WorkingCopies(model, size, config.precision)
        self._pool = ThreadPoolExecutor(self.size, thread_name_prefix="micro-batch")
        if not self.takes_turns:
            self._start_threads()

    def _start_threads(self) -> None:
        """Start all threads now, because the memory that they need may be scarce later."""
        all_started = Barrier(self.size)
        try:
            wait([self._pool.submit(all_started.wait) for _ in range(self.size)])
        except RuntimeError as error:
            all_started.abort()
            self._pool.shutdown(cancel_futures=True)
            raise ResourceError(
                f"cannot start {self.size} threads ({error}); set OMP_NUM_THREADS to fewer"
            ) from None

    def add_up(
        self,
        micro_batches: Iterator[MicroBatch],
        step: int,
        num_target_tokens: float,
        stopping: Callable[[], bool] = lambda: False,
    ) -> bool:
        """Add the gradients and losses of micro-batches to the buffer.

        `num_target_tokens` are those of the whole batch. `stopping` is called before every micro-batch, in
        any thread; True stops the work.

        Returns:
            Whether the gradient is complete; False if `stopping` ended the work.
        """

        def compute(place: int, made: AbstractContextManager[Batch]) -> GradientPart | None:
            if stopping():
                return None
            stream = torch.Generator().manual_seed(seed_of(self._config.seed, step, place))
            # All threads would share one cache of rounded weights, and gradients would depend on its state.
            with drawing_from(stream), made as batch, self._copies.one() as model:
                loss = batch_loss(model, batch, self._smoothing, self._config.precision, cached=False)
                mean = loss.smoothed / num_target_tokens
                if self.takes_turns:
                    mean.backward()  # adds gradients while they are in the caches
                    return GradientPart([], loss.negative_log_likelihood)
                return GradientPart(self._copies.gradients(mean), loss.negative_log_likelihood)

        with PYTORCH_THREADS.limited_to(self.threads_each):
            self._copies.refresh()
            if self.takes_turns:
                parts = (compute(*one) for one in micro_batches)
            else:
                parts = self._side_by_side(compute, micro_batches)
            with closing(parts):  # also after an error, it waits for threads that still compute
                for part in parts:
                    if part is None:
                        return False
                    self._gradients.add(part)
        return True

    def _side_by_side(
        self, compute: Callable[..., GradientPart | None], micro_batches: Iterator[MicroBatch]
    ) -> Generator[GradientPart | None]:
        """Yield the parts of micro-batches in their order."""
        begun: deque[Future[GradientPart | None]] = deque()
        try:
            while True:
                for one in islice(micro_batches, _AHEAD * self.size - len(begun)):
                    begun.append(self._pool.submit(compute, *one))
                if not begun:
                    return
                yield begun.popleft().result()
        finally:
            for future in begun:
                future.cancel()
            wait(begun)
