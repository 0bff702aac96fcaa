"""`--device`: the option of commands that compute, and the torch device it selects."""

from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from allyouneed.errors import UsageError

if TYPE_CHECKING:
    import torch

Device = Annotated[
    Literal["auto", "cpu", "cuda", "mps", "xpu"],
    Parameter(
        help="Device to compute on: `cuda` (NVIDIA, AMD), `mps` (Apple), `xpu` (Intel) or `cpu`; "
        "`auto` uses the accelerator if there is one."
    ),
]


def torch_device(name: Device) -> "torch.device":
    """The device of that name; for `auto`, the fastest kind available.

    Raises:
        UsageError: This machine has no such device, or torch cannot use it.
    """
    import torch

    available = available_devices()
    if name == "auto":
        return torch.device(available[0])
    if name not in available:
        raise UsageError(
            f"--device {name}: torch {torch.__version__} finds none on this machine, "
            f"only {', '.join(available)}; see `allyouneed doctor`"
        )
    return torch.device(name)


def available_devices() -> list[str]:
    """Kinds of device that torch can use here, fastest first."""
    import torch

    accelerator = torch.accelerator.current_accelerator(check_available=True)
    return ["cpu"] if accelerator is None else [accelerator.type, "cpu"]
