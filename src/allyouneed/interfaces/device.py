"""`--device`: the option of every command that computes, and the torch device that it names."""

from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from allyouneed.errors import UsageError

if TYPE_CHECKING:
    import torch

Device = Annotated[
    Literal["auto", "cpu", "cuda"],
    Parameter(help="Where to compute; `auto` takes a GPU where there is one."),
]


def torch_device(name: Device) -> "torch.device":
    """The device of that name; for `auto` the fastest kind there is.

    Raises:
        UsageError: This machine has no such device, or torch cannot use it.
    """
    import torch

    available = available_devices()
    if name == "auto":
        return torch.device(available[0])
    if name not in available:
        raise UsageError(
            f"--device {name}: torch {torch.__version__} finds none on this machine; "
            f"there is: {', '.join(available)} (`allyouneed doctor` tells more)"
        )
    return torch.device(name)


def available_devices() -> list[str]:
    """The kinds of device that torch can use here, the fastest first."""
    import torch

    return ["cuda", "cpu"] if torch.cuda.is_available() else ["cpu"]
