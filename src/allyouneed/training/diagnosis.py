"""Finds the source of non-finite values by repeating the update, module by module."""

import contextlib
from collections.abc import Iterator
from functools import partial

import torch
from torch import Tensor, nn

from allyouneed.config.run import TrainingConfig
from allyouneed.data.batch_plans import PlannedBatch, make_batch
from allyouneed.data.store import PairStore
from allyouneed.model import EncoderDecoder
from allyouneed.model.dropout import Dropout
from allyouneed.model.layers import AddAndNorm, Combine, add_and_norm
from allyouneed.training.loss import smoothing_over_all
from allyouneed.training.optimizer import trainable
from allyouneed.training.update import batch_loss, seed_generators

_MOST_LINES = 20


def locate_non_finite(
    model: EncoderDecoder, store: PairStore, config: TrainingConfig, planned: PlannedBatch, step: int
) -> str:
    """Describe the first module with a non-finite result in an update, and the corpus lines involved.

    `model` is as it was when the update was skipped; the same random numbers are drawn again.
    """
    smoothing = smoothing_over_all(
        config.label_smoothing, config.label_smoothing_over, model.config.target_vocab_size
    )
    for number, pairs in enumerate(planned.micro_batches):
        seed_generators(config.seed, step, number)
        with _first_non_finite(model) as modules:
            loss = batch_loss(model, make_batch(store, pairs), smoothing, config.precision)
        gradients = torch.autograd.grad(loss.smoothed, trainable(model), allow_unused=True)
        names = [name for name, parameter in model.named_parameters() if parameter.requires_grad]
        culprits = [
            *(f"the output of {module}" for module in modules[:1]),
            *(["the loss"] if not loss.smoothed.isfinite() else []),
            *(
                f"the gradient of {name}, or its square,"
                for name, gradient in zip(names, gradients, strict=True)
                if gradient is not None and not torch.linalg.vector_norm(gradient).isfinite()
            ),
        ]
        if culprits:
            lines = sorted(int(line) for line in store.line_numbers[pairs])
            shown = ", ".join(map(str, lines[:_MOST_LINES]))
            more = f" and {len(lines) - _MOST_LINES} more" if len(lines) > _MOST_LINES else ""
            return f"{culprits[0]} is not finite on lines {shown}{more} of the {store.text_of(pairs[0])}"
    return "computed once more they are finite: it was the sum, other random numbers, or the hardware"


@contextlib.contextmanager
def _first_non_finite(model: nn.Module) -> Iterator[list[str]]:
    """Collect the names of modules with non-finite output, in the order in which they finish.

    Where what a kernel computes in place of several modules is not finite, these compute it, too.
    """
    found: list[str] = []

    def watch(name: str, output: object) -> None:
        if isinstance(output, Tensor) and not output.isfinite().all():
            found.append(name or "the model")

    handles = [
        module.register_forward_hook(lambda _, __, output, name=name: watch(name, output))
        for name, module in model.named_modules()
    ]
    combined = [module for module in model.modules() if isinstance(module, AddAndNorm)]
    before = [module.combine for module in combined]
    for module in combined:
        module.combine = partial(_and_by_parts, module.combine)
    try:
        yield found
    finally:
        for module, combine in zip(combined, before, strict=True):
            module.combine = combine
        for handle in handles:
            handle.remove()


def _and_by_parts(combine: Combine, x: Tensor, y: Tensor, dropout: Dropout, norm: nn.LayerNorm) -> Tensor:
    """Call `combine`; if the result is not finite, repeat it by parts, whose outputs are watched."""
    out = combine(x, y, dropout, norm)
    if not out.isfinite().all():
        add_and_norm(x, y, dropout, norm)
    return out
