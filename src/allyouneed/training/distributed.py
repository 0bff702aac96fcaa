"""The processes of one run, started by `torchrun`: they sum gradients, and only the first writes.

Without `torchrun` there is one process, and all exchanges are no-ops. A model is replicated over the
processes, or sharded (FSDP2).
"""

import contextlib
import copy
import gc
import os
import threading
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import timedelta
from typing import TypeVar

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.distributed_c10d import PrefixStore, Store
from torch.distributed.fsdp import fully_shard
from torch.distributed.rendezvous import rendezvous
from torch.distributed.tensor import DTensor, distribute_tensor

from allyouneed.config.environment import num_processes, number_given
from allyouneed.config.run import TrainingConfig
from allyouneed.errors import ResourceError, UsageError, is_out_of_memory
from allyouneed.model.encoder_decoder import EncoderDecoder
from allyouneed.model.transformer import Transformer
from allyouneed.training.optimizer import build_optimizer, moments, trainable
from allyouneed.training.update import Gradients

HANG_SECONDS = 90.0
"""A process that does not respond for this long is considered hung."""

_GATHER_SECONDS = 1_800.0
"""Processes wait this long for each other at the start, while each reads its data and models."""
_BEAT_SECONDS = 1.0
_ASK_SECONDS = 0.1
_AT_WORK, _DONE = 0, 1
_MET = "met/{}"
"""Key of the number of the last exchange that the process of a rank has entered."""

Result = TypeVar("Result")


class Processes:
    """This process and the others of its run; by default it is alone.

    Messages between processes go through `store`; one process needs none.
    """

    def __init__(self, rank: int = 0, size: int = 1, store: Store | None = None) -> None:
        self.rank, self.size = rank, size
        self.is_first = rank == 0
        self._store = store
        self._meshes: list[DeviceMesh] = []
        self._num_meetings = self._num_told = self._num_gathered = 0

    def gather(self) -> None:
        """Wait until all processes have come here, for half an hour; one may take long to read its data."""
        if self._store is None:
            return
        self._num_gathered += 1
        here = [f"here/{self._num_gathered}/{rank}" for rank in range(self.size)]
        ends = time.monotonic() + _GATHER_SECONDS
        with self.losses_told():
            self._store.set(here[self.rank], "")
            while not self._store.check(here):  # asked again and again, so that a signal ends the program
                if time.monotonic() > ends:
                    raise ResourceError(
                        f"not all {self.size} processes have read their data within "
                        f"{_GATHER_SECONDS / 60:.0f} minutes; look at the messages of the others",
                        label="E-PROCESS",
                    )
                time.sleep(_ASK_SECONDS)

    def mesh(self, device: torch.device) -> DeviceMesh:
        """All processes in a row, for sharding; usable until the processes part."""
        self._meshes.append(init_device_mesh(device.type, (self.size,)))
        return self._meshes[-1]

    def part(self) -> None:
        """Leave the process group, and end its threads.

        A thread of gloo releases the tensors of its last exchange when it is next scheduled; if Python has
        ended by then, the process aborts. The group joins its threads when nothing refers to it any more, but
        PyTorch's caches for sharded tensors keep meshes, and those keep the group.
        """
        try:
            dist.destroy_process_group()
        finally:
            for mesh in self._meshes:
                getattr(mesh, "_pg_registry", {}).clear()  # PyTorch 2.13; earlier meshes know groups by name
            gc.collect()  # FSDP's modules refer to themselves and to the group

    def add_up(self, tensor: Tensor) -> None:
        """Replace a tensor by its sum over all processes, with the same bits in each."""
        self._meet(lambda: dist.all_reduce(tensor))

    def most(self, number: int) -> int:
        """The largest of the processes' numbers; does not wait for an accelerator."""
        largest = torch.tensor(number)
        self._meet(lambda: dist.all_reduce(largest, dist.ReduceOp.MAX))
        return int(largest)

    def copy_from_first(self, tensors: Iterable[Tensor]) -> None:
        """Replace each tensor by that of the first process."""
        for tensor in tensors if self.size > 1 else ():
            self._meet(lambda tensor=tensor: dist.broadcast(tensor, 0))  # type: ignore[misc]

    def differing(self, number: int) -> list[int]:
        """The ranks whose number differs from that of the first process."""
        numbers = torch.zeros(self.size, dtype=torch.int64)
        numbers[self.rank] = number
        self._meet(lambda: dist.all_reduce(numbers))
        return [rank for rank, other in enumerate(numbers.tolist()) if other != numbers[0]]

    def told_by_first(self, make: Callable[[], str]) -> str:
        """Return what `make` returns in the first process; the others wait as long as it is alive."""
        if self._store is None:
            return make()
        self._num_told += 1
        told = f"told/{self._num_told}"
        if self.is_first:
            with self._heart_beating():
                text = make()
            self._store.set(told, text)
            self.most(_DONE)
            return text
        while self.most(_AT_WORK) != _DONE:
            pass
        return str(self._store.get(told), "utf-8")

    def first_alone(self, work: Callable[[], Result]) -> Result | None:
        """The result of long `work` in the first process; the others wait while it is alive, and get None."""
        results: list[Result] = []

        def work_and_tell() -> str:
            results.append(work())
            return ""

        self.told_by_first(work_and_tell)
        return results[0] if results else None

    def _meet(self, exchange: Callable[[], object]) -> None:
        """Run an exchange with all processes; each first records that it has entered it."""
        if self._store is not None:
            self._num_meetings += 1
            with self.losses_told():
                self._store.set(_MET.format(self.rank), str(self._num_meetings))
                exchange()

    @contextlib.contextmanager
    def losses_told(self) -> Iterator[None]:
        """Turn failed exchanges inside the block into a ResourceError that names the process."""
        try:
            yield
        except RuntimeError as error:
            if not _is_of_exchange(error) or is_out_of_memory(error):
                raise
            hung = "imed out" in str(error)
            what = f"has not answered for {HANG_SECONDS:.0f} s" if hung else "has ended"
            who = self._late() or "another process"
            cause = str(error).split("\n", 1)[0]
            raise ResourceError(
                f"{who} of {self.size} {what}; the run stops here, continue with resume ({cause})",
                settings=["resume"],
                label="E-PROCESS",
            ) from error

    def _late(self) -> str:
        """The processes that did not enter the failed exchange; empty if unknown."""
        assert self._store is not None
        late: list[int] = []
        with contextlib.suppress(RuntimeError):  # the store may have ended with its process
            keys = {rank: key for rank in range(self.size) if self._store.check([key := _MET.format(rank)])}
            met = {rank: int(self._store.get(key)) for rank, key in keys.items()}
            late = [rank for rank in range(self.size) if met.get(rank, 0) < self._num_meetings]
        return f"process {' and '.join(map(str, late))}" if late else ""

    @contextlib.contextmanager
    def _heart_beating(self) -> Iterator[None]:
        """While the block runs, signal to the waiting processes every second that this one is alive."""
        ended = threading.Event()

        def beat() -> None:
            with contextlib.suppress(ResourceError):  # this process's next exchange will report it
                while not ended.wait(_BEAT_SECONDS):
                    self.most(_AT_WORK)

        heart = threading.Thread(target=beat, daemon=True)
        heart.start()
        try:
            yield
        finally:
            ended.set()
            heart.join()


def _is_of_exchange(error: RuntimeError) -> bool:
    """Whether an exchange raised the error; gloo shows this only by a source location in the message."""
    return isinstance(error, dist.DistError) or "gloo" in str(error)


@contextlib.contextmanager
def _joining(place: str) -> Iterator[None]:
    try:
        yield
    except RuntimeError as error:
        if not _is_of_exchange(error):
            raise
        cause = str(error).split("\n", 1)[0]
        raise ResourceError(
            f"the processes cannot meet at {place} ({cause}); check MASTER_ADDR and MASTER_PORT",
            label="E-PROCESS",
        ) from error


@contextlib.contextmanager
def joined_processes(device: torch.device) -> Iterator[Processes]:
    """Join the processes that `torchrun` started, while the block runs.

    `device` is that of the exchanged tensors.

    Raises:
        UsageError: The environment variables that `torchrun` sets are missing or inconsistent.
        ResourceError: The other processes cannot be reached.
    """
    if num_processes() == 1:
        yield Processes()
        return
    if (own := number_given("RANK")) >= num_processes():
        raise UsageError(f"RANK={own}: there are {num_processes()} processes; use torchrun")
    port, host = number_given("MASTER_PORT"), os.environ.get("MASTER_ADDR")
    if not host:
        raise UsageError(
            "MASTER_ADDR: this environment variable is missing; start the processes with torchrun"
        )
    with _joining(f"{host}:{port}"):
        store, rank, size = next(rendezvous("env://"))
        if os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == str(True):
            # The launcher's store outlives a restart; the prefix hides old entries.
            store = PrefixStore(f"start-{num_restarts()}", store)
        processes = Processes(rank, size, PrefixStore("run", store))
        processes.gather()
        dist.init_process_group(
            "gloo"
            if device.type == "cpu"
            else f"cpu:gloo,{device.type}:{dist.get_default_backend_for_device(device)}",
            store=PrefixStore("group", store),
            rank=rank,
            world_size=size,
            timeout=timedelta(seconds=HANG_SECONDS),
        )
    try:
        yield processes
    except BaseException as error:
        fault: BaseException | None = error
        while fault is not None:  # variables of functions that have ended keep the group, through the model
            traceback.clear_frames(fault.__traceback__)
            fault = fault.__cause__ or fault.__context__
        raise
    finally:
        processes.part()


def device_of_process(device: torch.device) -> torch.device:
    """The device of this process: with several accelerators the one that `torchrun` assigns to it.

    Raises UsageError if there is none of that number: `torchrun` may have started too many processes.
    """
    if device.type == "cpu":
        return device
    index, available = number_given("LOCAL_RANK", device.index or 0), torch.accelerator.device_count()
    if index >= available:
        if num_processes() == 1:
            raise UsageError(f"{device}: this machine has {available} such devices; numbers count from 0")
        raise UsageError(
            f"LOCAL_RANK={index}: each process needs a {device.type} device of its own, and this machine has "
            f"{available}; let torchrun start as many processes per machine"
        )
    torch.accelerator.set_device_index(index)
    return torch.device(device.type, index)


def num_restarts() -> int:
    """How often `torchrun` has restarted the processes after one of them died."""
    return number_given("TORCHELASTIC_RESTART_COUNT", 0)


class Replicas:
    """Each process has the whole model, its gradient and its moments.

    Attributes:
        model: Model that computes.
        optimizer: Optimizer of the parameters that this process holds.
        gradients: Gradients of these parameters.
        whole_model: Model that the first process saves and validates; here `model` itself.
        whole_optimizer: Optimizer that the first process saves; here `optimizer` itself.
    """

    def __init__(
        self, model: EncoderDecoder, config: TrainingConfig, device: torch.device, processes: Processes
    ) -> None:
        self._processes = processes
        self.model = self.whole_model = model.to(device)
        self.optimizer = self.whole_optimizer = build_optimizer(self.model, config)
        self.gradients = Gradients(trainable(self.model))

    def gather(self) -> None:
        """Update the whole model in the first process; all processes must call this."""

    def spread(self) -> None:
        """Copy the first process's whole model to all processes."""
        self._processes.copy_from_first([*self.model.state_dict().values(), *moments(self.optimizer)])

    def add_up(self) -> Tensor:
        """Sum gradients and losses over the processes; the result has a finite norm if both are finite."""
        self._processes.add_up(self.gradients.buffer)
        return self.gradients.buffer


class Shards:
    """Each process has a part of every matrix, of its gradient and of its moments; see `Replicas`.

    A layer is whole only while it computes. The optimizer treats the parts as separate parameters. The first
    process keeps a whole copy in main memory for saving and loading.
    """

    def __init__(
        self, model: EncoderDecoder, config: TrainingConfig, device: torch.device, processes: Processes
    ) -> None:
        assert isinstance(model, Transformer)
        self._processes = processes
        self.whole_model: Transformer = model
        self.model = copy.deepcopy(model)
        if not processes.is_first:
            self.whole_model = model.to("meta")
        self.whole_optimizer = build_optimizer(self.whole_model, config)
        self._mesh = processes.mesh(device)
        for module in (*self.model.encoder, *self.model.decoder, self.model):
            sharded = fully_shard(module, mesh=self._mesh)
            # The loss is divided by the tokens of the whole batch: gradients are summed, not averaged.
            sharded.set_gradient_divide_factor(1.0)
            sharded.set_force_sum_reduction_for_comms(True)  # gloo supports no other reduction
        self._parameters = [p for p in self.model.parameters() if isinstance(p, DTensor)]
        parts = [nn.Parameter(parameter.to_local().detach()) for parameter in self._parameters]
        self.optimizer = build_optimizer(nn.ParameterList(parts), config)
        self.gradients = Gradients(parts)
        for parameter, part in zip(self._parameters, parts, strict=True):
            assert part.grad is not None
            parameter.grad = self._sharded(part.grad, like=parameter)

    def gather(self) -> None:
        """Update the whole model in the first process; all processes must call this."""
        with self._processes.losses_told():
            for part, whole, parameter in self._tensors():
                full = part if parameter is None else self._sharded(part, like=parameter).full_tensor()
                if self._processes.is_first:
                    whole.copy_(full)

    def spread(self) -> None:
        """Distribute the first process's whole model: each process receives its part."""
        for part, whole, parameter in self._tensors():
            full = torch.empty_like(whole, device=part.device)
            if self._processes.is_first:
                full.copy_(whole)
            if parameter is None:
                self._processes.copy_from_first([full])
                part.copy_(full)
            else:
                with self._processes.losses_told():
                    part.copy_(distribute_tensor(full, self._mesh, parameter.placements).to_local())

    def add_up(self) -> Tensor:
        """Sum losses over the processes; the backward passes have already summed the gradients."""
        totals = torch.stack((self.gradients.loss, torch.linalg.vector_norm(self.gradients.buffer)))
        self._processes.add_up(totals)
        self.gradients.loss.copy_(totals[0])
        return totals

    def _tensors(self) -> Iterator[tuple[Tensor, Tensor, DTensor | None]]:
        """Weights and moments: the local part, the whole, and the DTensor with its sharding, or None."""
        parts: Sequence[nn.Parameter] = self.optimizer.param_groups[0]["params"]
        wholes = list(self.whole_model.parameters())
        for part, whole, parameter in zip(parts, wholes, self._parameters, strict=True):
            yield part.detach(), whole.detach(), parameter
            of_part, of_whole = self.optimizer.state[part], self.whole_optimizer.state[whole]
            for name in sorted(of_part):
                yield of_part[name], of_whole[name], parameter if of_part[name].dim() else None

    def _sharded(self, part: Tensor, like: DTensor) -> DTensor:
        return DTensor.from_local(
            part, self._mesh, like.placements, run_check=False, shape=like.shape, stride=like.stride()
        )
