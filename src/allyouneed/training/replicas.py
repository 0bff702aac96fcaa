"""How a model lies over the processes of a run: whole in each of them, or in parts (FSDP2)."""

import copy
from collections.abc import Iterator, Sequence

import torch
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor, distribute_tensor

from allyouneed.config.run import TrainingConfig
from allyouneed.model import EncoderDecoder, Transformer
from allyouneed.training.distributed import Processes
from allyouneed.training.gradients import Gradients
from allyouneed.training.optimizer import build_optimizer, moments


class Replicas:
    """Each process has the whole model, its gradient and its moments.

    Attributes:
        model: The model that computes.
        optimizer: Adam over the parameters that this process holds.
        gradients: Gradients of these parameters.
        whole_model: The model that is saved and validated in the first process; here `model` itself.
        whole_optimizer: The optimizer that is saved; here `optimizer` itself.
    """

    def __init__(
        self, model: EncoderDecoder, config: TrainingConfig, device: torch.device, processes: Processes
    ) -> None:
        self._processes = processes
        self.model = self.whole_model = model.to(device)
        self.optimizer = self.whole_optimizer = build_optimizer(self.model, config)
        self.gradients = Gradients(list(self.model.parameters()))

    def gather(self) -> None:
        """Bring the whole model of the first process up to date; all processes call it."""

    def spread(self) -> None:
        """Let all processes have what the whole model of the first holds."""
        self._processes.copy_from_first([*self.model.state_dict().values(), *moments(self.optimizer)])

    def add_up(self) -> Tensor:
        """Add up gradients and losses over the processes.

        Returns:
            Numbers that are finite, in every process, exactly if the whole gradient and the loss are.
        """
        self._processes.add_up(self.gradients.buffer)
        return self.gradients.buffer


class Shards:
    """Each process has a part of every matrix, of its gradient and of its moments; see `Replicas`.

    A layer is whole only while it computes. Adam works on the parts as on parameters of their own. The first
    process keeps a whole copy in its main memory, from which is saved and into which is loaded.
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
        self._mesh = init_device_mesh(device.type, (processes.size,))
        for module in (*self.model.encoder, *self.model.decoder, self.model):
            sharded = fully_shard(module, mesh=self._mesh)
            # The loss is divided by the tokens of the whole batch: gradients are summed, not averaged.
            sharded.set_gradient_divide_factor(1.0)
            sharded.set_force_sum_reduction_for_comms(True)  # gloo knows no other reduction
        self._parameters = [p for p in self.model.parameters() if isinstance(p, DTensor)]
        parts = [nn.Parameter(parameter.to_local().detach()) for parameter in self._parameters]
        self.optimizer = build_optimizer(nn.ParameterList(parts), config)
        self.gradients = Gradients(parts)
        for parameter, part in zip(self._parameters, parts, strict=True):
            assert part.grad is not None
            parameter.grad = self._sharded(part.grad, like=parameter)

    def gather(self) -> None:
        """Bring the whole model of the first process up to date; all processes call it."""
        with self._processes.losses_told():
            for part, whole, parameter in self._tensors():
                full = part if parameter is None else self._sharded(part, like=parameter).full_tensor()
                if self._processes.is_first:
                    whole.copy_(full)

    def spread(self) -> None:
        """Let all processes have their part of what the whole model of the first holds."""
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
        """Add up losses over the processes; the gradients have been, by the backward passes."""
        totals = torch.stack((self.gradients.loss, self.gradients.buffer.sum()))
        self._processes.add_up(totals)
        self.gradients.loss.copy_(totals[0])
        return totals

    def _tensors(self) -> Iterator[tuple[Tensor, Tensor, DTensor | None]]:
        """Weights and moments: the part here, the whole, and what is split as it is, if it is split."""
        parts: Sequence[nn.Parameter] = self.optimizer.param_groups[0]["params"]
        wholes = list(self.whole_model.parameters())
        for part, whole, parameter in zip(parts, wholes, self._parameters, strict=True):
            yield part.detach(), whole.detach(), parameter
            of_part, of_whole = self.optimizer.state[part], self.whole_optimizer.state[whole]
            for name in sorted(of_part):
                yield of_part[name], of_whole[name], parameter if of_part[name].dim() else None

    def _sharded(self, part: Tensor, like: DTensor) -> DTensor:
        """A part as DTensor, of which it is this process's part."""
        return DTensor.from_local(
            part, self._mesh, like.placements, run_check=False, shape=like.shape, stride=like.stride()
        )
