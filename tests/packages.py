"""Tests that need optional packages say which, and are skipped where one is missing."""

import pytest

_NAMES = {"yaml": "PyYAML", "nltk": "NLTK"}
"""Module -> name of its package, where it has another."""


def require_packages(*modules: str) -> None:
    """Skip the test or the file of tests that calls this, unless all these modules can be imported."""
    for module in modules:
        pytest.importorskip(module, reason=f"NOT RUN: needs {_NAMES.get(module, module)}")
