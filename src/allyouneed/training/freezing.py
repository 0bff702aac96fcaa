"""Parameters that keep their values while the others are trained, chosen by name."""

from collections.abc import Sequence
from fnmatch import fnmatchcase

from torch import nn

from allyouneed.errors import UsageError


def trainable(model: nn.Module) -> list[nn.Parameter]:
    """The parameters that training changes, in order."""
    return [parameter for parameter in model.parameters() if parameter.requires_grad]


def freeze(model: nn.Module, patterns: Sequence[str]) -> None:
    """Exclude the parameters whose names match a pattern from gradients and updates."""
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(not _matches(name, patterns))


def require_some_trainable(model: nn.Module, patterns: Sequence[str]) -> None:
    """Check that each pattern matches a parameter, and that some parameter matches none.

    Raises:
        UsageError: A pattern matches nothing, or all parameters would be frozen.
    """
    names = [name for name, _ in model.named_parameters()]
    for pattern in patterns:
        if not any(fnmatchcase(name, pattern) for name in names):
            beginnings = dict.fromkeys(".".join(name.split(".")[:2]) for name in names)
            raise UsageError(
                f"training.frozen: {pattern!r} matches no parameter; names begin with {', '.join(beginnings)}"
            )
    if all(_matches(name, patterns) for name in names):
        raise UsageError("training.frozen: matches all parameters; leave some to train")


def _matches(name: str, patterns: Sequence[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)
