"""A model as it is stored: its settings and its named weights, without PyTorch."""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from allyouneed.config.model import ModelConfig

if TYPE_CHECKING:
    from allyouneed.model.encoder_decoder import EncoderDecoder


class MisfitError(ValueError):
    """Weights are missing, left over, misshapen, of a wrong type, or not finite."""


@dataclass(frozen=True)
class StoredModel:
    """Settings and weights; the kernels pack these, and PyTorch's module is built only if it is asked for."""

    config: ModelConfig
    weights: Mapping[str, NDArray[Any]]
    """Name -> values, which are not changed."""
    path: Path
    """The file of the weights."""
    release: Callable[[str], None] = lambda name: None
    """Gives the memory of weights back that are not read soon again."""
    must_be_finite: bool = True

    @cached_property
    def module(self) -> "EncoderDecoder":
        """The model of PyTorch on the CPU, in evaluation mode, with a copy of the weights.

        Raises:
            ModelError: The weights do not fit the architecture, or are not finite.
        """
        import torch

        from allyouneed.model.weights import model_from_weights
        from allyouneed.storage.rounded_weights import read_weights

        arrays = {name: np.array(array) for name, array in self.weights.items()}
        if all(array.dtype == np.float32 for array in arrays.values()):
            weights = {name: torch.from_numpy(array) for name, array in arrays.items()}
        else:
            weights = read_weights(self.path)  # NumPy lacks some types, which an error has to name
        return model_from_weights(self.config, weights, self.path)

    @classmethod
    def of(cls, module: "EncoderDecoder") -> Self:
        """The settings and the weights of a module on the CPU, which stays its `module`."""
        weights = {name: tensor.detach().float().numpy() for name, tensor in module.state_dict().items()}
        stored = cls(module.config, weights, Path("the model"), must_be_finite=False)
        stored.__dict__["module"] = module
        return stored

    def evaluated(self) -> AbstractContextManager[None]:
        """The context in which the module, if there is one, has no dropout."""
        if "module" not in self.__dict__:
            return nullcontext()  # it will be built without
        from allyouneed.model.dropout import evaluation_mode

        return evaluation_mode(self.module.modules())


Model: TypeAlias = "EncoderDecoder | StoredModel"
"""A model to decode with."""
