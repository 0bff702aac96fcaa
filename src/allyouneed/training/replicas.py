"""Distribution of a model over the processes of a run: replicated, or sharded (FSDP2)."""

import copy
from collections.abc import Iterator, Sequence

import torch
from torch import Tensor, nn
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor, distribute_tensor

from allyouneed.config.run import TrainingConfig
from allyouneed.model import EncoderDecoder, Transformer
from allyouneed.training.distributed import Processes
from allyouneed.training.optimizer import build_optimizer, moments, trainable
from allyouneed.training.update import Gradients


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
        """Wrap this process's part as a DTensor."""
        return DTensor.from_local(
            part, self._mesh, like.placements, run_check=False, shape=like.shape, stride=like.stride()
        )
