"""The complete system of "Attention Is All You Need": train, translate, evaluate, reproduce.

The names below are imported when they are first used, so that `import allyouneed` does not load PyTorch.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from allyouneed.version import __version__

if TYPE_CHECKING:
    from allyouneed.config import RunConfig
    from allyouneed.errors import UserError
    from allyouneed.preparation import prepare
    from allyouneed.runs import train
    from allyouneed.training.averaging import average
    from allyouneed.translation import Translation, Translator, load

__all__ = [
    "RunConfig",
    "Translation",
    "Translator",
    "UserError",
    "__version__",
    "average",
    "load",
    "prepare",
    "train",
]

_MODULES = {
    "RunConfig": "allyouneed.config",
    "UserError": "allyouneed.errors",
    "Translation": "allyouneed.translation",
    "Translator": "allyouneed.translation",
    "average": "allyouneed.training.averaging",
    "load": "allyouneed.translation",
    "prepare": "allyouneed.preparation",
    "train": "allyouneed.runs",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_MODULES[name]), name)
