"""What decodes is tested with the kernels of every kind of instruction set that the processor has."""

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from allyouneed.inference.search import Decoding
from allyouneed.native import isa

DECODING = {
    *("test_alignment", "test_beams", "test_ensemble", "test_generate", "test_invariance"),
    *("test_native_layers", "test_selection", "test_sampling", "test_scoring"),
    *("test_search", "test_vocabulary_shortlist"),
}
"""Modules that are tested so."""

_NAMES = [found.name for found in isa.supported()]
_OTHERS = "avx512_bf16", "avx2", "plain"
KINDS = list(dict.fromkeys([_NAMES[0], *(name for name in _NAMES if name in _OTHERS)]))
"""Instruction sets, one of every kind."""

_HERE = {path.stem for path in Path(__file__).parent.glob("test_*.py")}
assert DECODING <= _HERE, f"no such test modules: {DECODING - _HERE}"


def next_logits(decoding: Decoding, tokens: object) -> Tensor:
    """The logits after a step with these tokens (sentences, beams)."""
    return torch.as_tensor(decoding.logits(np.asarray(tokens))).clone()


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if metafunc.module.__name__.rpartition(".")[2] in DECODING:
        first, *others = KINDS
        marked = [pytest.param(kind, marks=pytest.mark.release) for kind in others if kind != "plain"]
        metafunc.parametrize(
            "instructions", [first, *marked, *KINDS[-1:]] if others else KINDS, indirect=True
        )
