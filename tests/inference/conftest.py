"""What decodes is tested with the kernels of every kind of instruction set that the processor has."""

import pytest

from allyouneed.native import isa

DECODING = {
    *("test_alignment", "test_ensemble", "test_generate", "test_invariance", "test_minimum_bayes_risk"),
    *("test_native_layers", "test_restrictions", "test_sampling", "test_scoring", "test_search"),
    "test_shortlist",
}
"""Modules that are tested so."""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if metafunc.module.__name__.rpartition(".")[2] in DECODING:
        names = [found.name for found in isa.supported()]
        kinds = dict.fromkeys([names[0], *(name for name in names if name in ("avx2", "plain"))])
        metafunc.parametrize("instructions", list(kinds), indirect=True)
