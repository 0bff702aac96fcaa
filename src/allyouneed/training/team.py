"""Threads of a CPU that compute the micro-batches of an update, side by side or in turn.

Threads that share each operation wait for each other thousands of times per update; if one of them has lost
its core to another program, all wait. Threads with a micro-batch each wait once, and faster ones compute more
of them.
"""

import copy
from collections import deque
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import AbstractContextManager, closing, contextmanager
from functools import partial
from itertools import chain, islice
from queue import SimpleQueue
from threading import Barrier

import torch
from jaxtyping import Float
from torch import Tensor, nn

from allyouneed.config.run import Precision, TrainingConfig
from allyouneed.data.batch_plans import Batch
from allyouneed.errors import ResourceError
from allyouneed.hardware.devices import PYTORCH_THREADS
from allyouneed.model.dropout import drawing_from
from allyouneed.model.encoder_decoder import EncoderDecoder
from allyouneed.model.transformer import Transformer
from allyouneed.native.gradient_kernels import accumulate_
from allyouneed.training.optimizer import trainable
from allyouneed.training.update import Gradients, batch_loss, seed_of, shares_micro_batches

MicroBatch = tuple[int, AbstractContextManager[Batch]]
"""Place in the batch, which determines the random numbers, and a context that makes the micro-batch."""
GradientPart = tuple[list[tuple[Tensor, Tensor]], Tensor]
"""The arguments of `Gradients.add`; no gradients are left where a backward pass has added them."""

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
        if self.takes_turns:
            return
        all_started = Barrier(self.size)
        try:  # start all threads now, because the memory that they need may be scarce later
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
        """Add the gradients and losses of micro-batches to the buffer; return whether it is complete.

        `num_target_tokens` are those of the whole batch. `stopping` is called before every micro-batch, in
        any thread; True stops the work.
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
                    return [], loss.negative_log_likelihood
                return self._copies.gradients(mean), loss.negative_log_likelihood

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
                    self._gradients.add(*part)
        return True

    def _side_by_side(
        self, compute: Callable[..., GradientPart | None], micro_batches: Iterator[MicroBatch]
    ) -> Generator[GradientPart | None]:
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


class WorkingCopies:
    """Copies of a model for threads, with modules of their own, as these remember what they have computed.

    They have the model's weights, with two exceptions, so that an update reads and writes less memory. In
    bfloat16, the matrices of a Transformer's linear maps are copied and rounded once per update, not in every
    use, and their gradients are not copied to float32 before they are added. And each role of an embedding
    matrix is a parameter of its own. The model is in training mode, on the CPU, and its parameters have a
    `grad` to add to.
    """

    def __init__(self, model: EncoderDecoder, number: int, precision: Precision) -> None:
        self._rounded: list[tuple[nn.Parameter, Tensor]] = []
        if precision == "bfloat16" and isinstance(model, Transformer):  # rivals use a matrix several times
            for module in model.modules():
                if isinstance(module, nn.Linear):
                    low = module.weight.detach().bfloat16()
                    self._rounded.append((nn.Parameter(low, module.weight.requires_grad), module.weight))
        first = _copy(model, {id(weight): rounded for rounded, weight in self._rounded})
        originals: dict[int, Tensor] = {
            id(parameter): original
            for parameter, original in (*self._rounded, *first.embeddings.untie_gradients())
        }
        # Reversed: where roles share a matrix, a backward pass adds the output's gradient first, then the
        # target's, and the source's last, as every architecture reads the source first.
        self._parameters = trainable(first)[::-1]
        self._sums = [_grad_of(originals.get(id(each), each)) for each in self._parameters]
        for parameter, total in zip(self._parameters, self._sums, strict=True):
            if id(parameter) in originals:
                # Without a reference to this object, which could not be freed.
                parameter.register_post_accumulate_grad_hook(partial(_pass_on, total))
        self._idle: SimpleQueue[EncoderDecoder] = SimpleQueue()
        for each in (first, *(_copy(first, {}) for _ in range(number - 1))):
            self._idle.put(each)

    @torch.no_grad()
    def refresh(self) -> None:
        """Round the matrices again, after the model's have changed."""
        for rounded, weight in self._rounded:
            rounded.copy_(weight)

    @contextmanager
    def one(self) -> Iterator[EncoderDecoder]:
        """A copy that no other thread computes with; waits for one."""
        model = self._idle.get()
        try:
            yield model
        finally:
            self._idle.put(model)

    def gradients(self, loss: Float[Tensor, ""]) -> list[tuple[Tensor, Tensor]]:
        """The sums of gradients, each with the part of it that belongs to a loss that a copy has computed.

        `loss.backward()` adds all of them at once, in one thread.
        """
        found = torch.autograd.grad(loss, self._parameters, allow_unused=True)
        return [
            (total, gradient)
            for total, gradient in zip(self._sums, found, strict=True)
            if gradient is not None
        ]


def _grad_of(parameter: Tensor) -> Tensor:
    """The gradient of a parameter that has one; of a model's parameter, the sum of all."""
    assert parameter.grad is not None
    return parameter.grad


def _pass_on(total: Tensor, parameter: Tensor) -> None:
    """Add the gradient that a backward pass has written to a parameter that stands for one of the model's."""
    gradient = _grad_of(parameter)
    parameter.grad = None  # first, so that nothing is left after an error
    accumulate_(total, gradient)


def _copy(model: EncoderDecoder, replacements: dict[int, nn.Parameter]) -> EncoderDecoder:
    """A copy with the model's own parameters and buffers, or their replacements by identity."""
    shared = {id(tensor): tensor for tensor in chain(model.parameters(), model.buffers())}
    return copy.deepcopy(model, shared | replacements)
